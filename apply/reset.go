package apply

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/kloop-dev/kloop/resource"
)

// resetPaths returns the fields that a write through the subresource can't own: what it can't change.
func resetPaths(i *resource.Info, sub string) []string {
	if sub != "" {
		part, _ := i.Sub(sub)
		return part.Resets
	}
	if _, status := i.Sub("status"); status {
		return append([]string{"status"}, i.Resets...)
	}
	return i.Resets
}

// resets makes the filters of a path, for every version of the kind.
func resets(i *resource.Info, sub string) map[fieldpath.APIVersion]fieldpath.Filter {
	filter := resetFilter(i, sub)
	if filter == nil {
		return nil
	}
	m := map[fieldpath.APIVersion]fieldpath.Filter{}
	for _, gvk := range append([]schema.GroupVersionKind{i.GVK}, i.Also...) {
		m[fieldpath.APIVersion(gvk.GroupVersion().String())] = filter
	}
	return m
}

func resetFilter(i *resource.Info, sub string) fieldpath.Filter {
	paths := resetPaths(i, sub)
	if len(paths) == 0 {
		return nil
	}
	set := fieldpath.NewSet()
	for _, p := range paths {
		set.Insert(fieldpath.MakePathOrDie(pathParts(p)...))
	}
	return fieldpath.NewExcludeSetFilter(set)
}

func pathParts(p string) (parts []any) {
	for _, s := range strings.Split(p, ".") {
		if s == "*" {
			parts = append(parts, fieldpath.MatchAnyPathElement())
		} else {
			parts = append(parts, s)
		}
	}
	return parts
}
