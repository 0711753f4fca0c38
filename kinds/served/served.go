// Package served decides which kinds of those that a program has a cluster serves.
package served

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/resource"
)

// since says which resources, and which subresources of older ones, are newer than the oldest version that a cluster can be, by the
// minor of the first version that serves them without being asked.
var since = map[schema.GroupVersionResource]int{
	{Group: "certificates.k8s.io", Version: "v1", Resource: "clustertrustbundles"}:          37,
	{Group: "certificates.k8s.io", Version: "v1", Resource: "podcertificaterequests"}:       37,
	{Group: "resource.k8s.io", Version: "v1", Resource: "devicetaintrules"}:                 37,
	{Group: "storage.k8s.io", Version: "v1", Resource: "csinodes/status"}:                   37,
	{Group: "storagemigration.k8s.io", Version: "v1", Resource: "storageversionmigrations"}: 37,
}

// An APIs says what is served and what is not, by keys of upstream's flag --runtime-config: api/all; api/ga, api/beta, api/alpha;
// group/version, v1 of the first group; group/version/resource. The longest key that fits holds. Kinds that users define are
// not api/all.
type APIs map[string]bool

var byStage = regexp.MustCompile(`^v[0-9]+(|alpha|beta)([0-9]+|$)`)

// serves says whether a resource is to be served, as far as anything is said. Keys for many groups stand for those of the table.
func (a APIs) serves(gvr schema.GroupVersionResource, inTable bool) bool {
	gv := gvr.GroupVersion().String()
	keys := []string{gv + "/" + gvr.Resource, gv}
	if m := byStage.FindStringSubmatch(gvr.Version); m != nil && inTable {
		keys = append(keys, "api/"+cmp.Or(m[1], "ga"), "api/all")
	}
	for _, key := range keys {
		if on, said := a[key]; said {
			return on
		}
	}
	return true
}

// foreign are groups that upstream knows and kloop does not, and groups of kloop's own that are not in the table.
var foreign = []string{"internal.apiserver.k8s.io", "imagepolicy.k8s.io", "metrics.k8s.io", "convergence.kloop.dev"}

// Check refuses keys that stand for nothing among all kinds, in upstream's words.
func (a APIs) Check(all []resource.Kind) error {
	groups := append([]string{"api"}, foreign...)
	for _, k := range all {
		for _, gvk := range k.Info().Served() {
			groups = append(groups, gvk.Group)
		}
	}
	var unknown []string
	for _, key := range slices.Sorted(maps.Keys(a)) {
		if group, _, ok := strings.Cut(key, "/"); key != "v1" && (!ok || !slices.Contains(groups, group)) {
			unknown = append(unknown, key)
		}
	}
	switch on, said := a["api/all"]; {
	case unknown != nil:
		return fmt.Errorf("unknown api groups %s", strings.Join(unknown, ","))
	case said && !on && len(a) == 1:
		return errors.New("invalid key with only api/all=false")
	}
	return nil
}

// Set returns a set of all these kinds for a cluster where this is on and these are served.
func Set(on *features.Set, apis APIs, all []resource.Kind) *resource.Set {
	if len(apis) == 0 && !on.Emulates() {
		return resource.For(on, nil, all...)
	}
	hidden := map[schema.GroupVersionResource]bool{}
	for _, k := range all {
		for _, gvk := range k.Info().Served() {
			gvr := gvk.GroupVersion().WithResource(k.Info().Plural)
			hidden[gvr] = !on.AtLeast(since[gvr]) || !apis.serves(gvr, true)
			for _, sub := range k.Info().Subs { // are served with what they belong to
				of := gvr.GroupVersion().WithResource(gvr.Resource + "/" + sub.Name)
				hidden[of] = !on.AtLeast(since[of])
			}
		}
	}
	return resource.For(on, func(gvr schema.GroupVersionResource) bool {
		if off, inTable := hidden[gvr]; inTable {
			return off
		}
		return !strings.Contains(gvr.Resource, "/") && !apis.serves(gvr, false)
	}, all...)
}
