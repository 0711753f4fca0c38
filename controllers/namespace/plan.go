package namespace

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// item is one object that is still in the namespace.
type item struct {
	kind resource.Kind
	obj  resource.Object
}

// survey lists what the namespace holds, kind by kind.
func survey(read resource.Reader, all []resource.Kind, ns string) (seen []item) {
	for _, k := range all {
		i := k.Info()
		if !i.Namespaced || i.Virtual || !slices.Contains(i.Verbs, "delete") {
			continue
		}
		for obj := range read.Each(k, ns) {
			seen = append(seen, item{k, obj})
		}
	}
	return seen
}

// plan says what to delete now: pods first and alone, so that nothing they rely on goes before them
// (KEP-5080), then everything that is not on its way out already.
func plan(seen []item) (todo []item) {
	pods := holdsPods(seen)
	for _, it := range seen {
		if pods && it.kind != resource.Kind(core.Pods) {
			continue
		}
		if it.obj.GetDeletionTimestamp() == nil {
			todo = append(todo, it)
		}
	}
	return todo
}

func holdsPods(seen []item) bool {
	return slices.ContainsFunc(seen, func(it item) bool { return it.kind == resource.Kind(core.Pods) })
}

// remaining says in words what is left: "pods. has 3 resource instances, configmaps. has 1 …".
func remaining(seen []item, far map[string]int) string {
	counts := map[string]int{}
	maps.Copy(counts, far)
	for _, it := range seen {
		counts[it.kind.Info().Plural+"."+it.kind.Info().GVK.Group]++
	}
	var parts []string
	for _, gr := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s has %d resource instances", gr, counts[gr]))
	}
	return "Some resources are remaining: " + strings.Join(parts, ", ")
}

// undiscovered says in words which groups nobody could be asked about.
func undiscovered(dead []string) string {
	return fmt.Sprintf("Discovery failed for some groups, %d failing: unable to retrieve the complete list of server APIs: %s",
		len(dead), strings.Join(dead, ", "))
}

// finalizers says in words which finalizers hold what is left.
func finalizers(seen []item) string {
	counts := map[string]int{}
	for _, it := range seen {
		for _, f := range it.obj.GetFinalizers() {
			counts[f]++
		}
	}
	var parts []string
	for _, f := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s in %d resource instances", f, counts[f]))
	}
	if len(parts) == 0 {
		return ""
	}
	return "Some content in the namespace has finalizers remaining: " + strings.Join(parts, ", ")
}

// conditions is the namespace's status with its five conditions as they are now.
func conditions(ns *corev1.Namespace, seen []item, far elsewhere, failed error, now time.Time) corev1.NamespaceStatus {
	st := corev1.NamespaceStatus{Phase: corev1.NamespaceTerminating, Conditions: slices.Clone(ns.Status.Conditions)}
	set := func(t corev1.NamespaceConditionType, bad bool, reasonBad, reasonGood, msgBad, msgGood string) {
		c := corev1.NamespaceCondition{Type: t, Status: corev1.ConditionFalse, Reason: reasonGood, Message: msgGood,
			LastTransitionTime: metav1.NewTime(now)}
		if bad {
			c.Status, c.Reason, c.Message = corev1.ConditionTrue, reasonBad, msgBad
		}
		at := slices.IndexFunc(st.Conditions, func(o corev1.NamespaceCondition) bool { return o.Type == t })
		switch {
		case at < 0:
			st.Conditions = append(st.Conditions, c)
		case st.Conditions[at].Status != c.Status || st.Conditions[at].Reason != c.Reason || st.Conditions[at].Message != c.Message:
			if st.Conditions[at].Status == c.Status {
				c.LastTransitionTime = st.Conditions[at].LastTransitionTime
			}
			st.Conditions[at] = c
		}
	}
	why := ""
	if failed != nil {
		why = "Failed to delete all resource types, 1 remaining: " + failed.Error()
	}
	if holdsPods(seen) { // as upstream, which looks at the rest when the pods are gone
		seen, far.left = nil, nil
	}
	held := finalizers(seen)
	set(corev1.NamespaceDeletionDiscoveryFailure, len(far.dead) > 0, "DiscoveryFailed", "ResourcesDiscovered", undiscovered(far.dead),
		"All resources successfully discovered")
	set(corev1.NamespaceDeletionGVParsingFailure, false, "", "ParsedGroupVersions", "", "All legacy kube types successfully parsed")
	set(corev1.NamespaceDeletionContentFailure, failed != nil, "ContentDeletionFailed", "ContentDeleted", why,
		"All content successfully deleted, may be waiting on finalization")
	set(corev1.NamespaceContentRemaining, len(seen)+len(far.left) > 0, "SomeResourcesRemain", "ContentRemoved",
		remaining(seen, far.left), "All content successfully removed")
	set(corev1.NamespaceFinalizersRemaining, held != "", "SomeFinalizersRemain", "ContentHasNoFinalizers", held,
		"All content-preserving finalizers finished")
	return st
}
