//go:build !reader

package apiextensions

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kloop-dev/kloop/features"
)

// warnDefinition warns of formats that nobody knows and, since 1.37, of sets of what is no scalar, unless they were there before.
func warnDefinition(on *features.Set, c, old crd) (list []string) {
	if old != nil && sameVersions(c, old) {
		return nil
	}
	is := odditiesOf(c)
	if len(is.formats)+len(is.sets) == 0 {
		return nil
	}
	var was unknownNames
	if old != nil {
		was = odditiesOf(old)
	}
	for _, f := range slices.Sorted(maps.Keys(is.formats)) {
		if !was.formats[f] {
			list = append(list, fmt.Sprintf("unrecognized format %q", f))
		}
	}
	for _, typ := range slices.Sorted(maps.Keys(is.sets)) {
		if !was.sets[typ] && on.AtLeast(37) {
			list = append(list, fmt.Sprintf(
				"x-kubernetes-list-type: set for items of type %q is not supported by server-side apply or CEL validation rules", typ))
		}
	}
	return list
}
