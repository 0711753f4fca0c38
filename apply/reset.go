package apply

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/kloop-dev/kloop/resource"
)

// What a write through a path can't change, it can't own. Most kinds follow the rule: the object itself leaves
// status alone, the status subresource leaves spec alone. These are the exceptions; paths are joined by dots.
var (
	// mainResets: nil means that the kind has no rule at all.
	mainResets = map[schema.GroupResource][]string{
		{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}: {"spec", "status"},
		{Group: "networking.k8s.io", Resource: "networkpolicies"}:              nil,
	}
	statusResets = map[schema.GroupResource][]string{
		{Resource: "pods"}:                       {"spec", "metadata.deletionTimestamp", "metadata.ownerReferences"},
		{Group: "apps", Resource: "deployments"}: {"spec", "metadata.labels"},
		{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}:           {"spec", "status.conditions"},
		{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"}: {"spec", "metadata"},
		{Group: "apiregistration.k8s.io", Resource: "apiservices"}:                       {"spec", "metadata"},
		{Group: "certificates.k8s.io", Resource: "podcertificaterequests"}:               {"spec", "metadata"},
		{Group: "flowcontrol.apiserver.k8s.io", Resource: "flowschemas"}:                 {"spec", "metadata"},
		{Group: "flowcontrol.apiserver.k8s.io", Resource: "prioritylevelconfigurations"}: {"spec", "metadata"},
		{Group: "internal.apiserver.k8s.io", Resource: "storageversions"}:                {"spec", "metadata"},
		{Group: "networking.k8s.io", Resource: "servicecidrs"}:                           {"spec", "metadata"},
		{Group: "storage.k8s.io", Resource: "volumeattachments"}:                         {"spec", "metadata"},
		{Group: "storagemigration.k8s.io", Resource: "storageversionmigrations"}:         {"spec", "metadata"},
	}
	// partResets are those of further subresources, by resource/subresource.
	partResets = map[string][]string{
		"certificatesigningrequests/approval": {"spec", "status.certificate"},
		"namespaces/finalize":                 {"status"},
	}
	// partOwns are subresources through which nothing but the given fields can be owned; * is any element.
	partOwns = map[string][]string{
		"pods/ephemeralcontainers": {"spec.ephemeralContainers"},
		"pods/resize": {"spec.containers.*.resources", "spec.containers.*.resizePolicy",
			"spec.initContainers.*.resources", "spec.initContainers.*.resizePolicy"},
	}
)

// resetPaths returns the fields that a write through the subresource can't own.
func resetPaths(i *resource.Info, sub string) []string {
	_, status := i.Sub("status")
	switch {
	case sub == "status" && i.Custom:
		return []string{"metadata", "spec"}
	case sub == "status":
		if r, ok := statusResets[i.GR()]; ok {
			return r
		}
		return []string{"spec"}
	case sub != "":
		return partResets[i.Plural+"/"+sub]
	case !status:
		return nil
	}
	if r, ok := mainResets[i.GR()]; ok {
		return r
	}
	return []string{"status"}
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
	if owns := partOwns[i.Plural+"/"+sub]; owns != nil {
		var list []*fieldpath.SetMatcher
		for _, p := range owns {
			list = append(list, fieldpath.MakePrefixMatcherOrDie(pathParts(p)...))
		}
		return fieldpath.NewIncludeMatcherFilter(list...)
	}
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
