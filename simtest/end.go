package simtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/resource"
)

// ending is a state without what chance and time have put into it, one line for each field, sorted: runs
// that end alike have the same lines.
func ending(set *resource.Set, r resource.Reader, ignore func(*unstructured.Unstructured) bool) (lines []string) {
	var objects []*unstructured.Unstructured
	var hashes []string          // of templates: a collision with an old one changes them
	names := map[string]string{} // chosen by the server, and what stands for them
	for _, k := range set.All() {
		if i := k.Info(); i.Virtual || slices.Contains(idle, i.Plural) {
			continue
		}
		for obj := range r.Each(k, "") {
			u := loose(k, obj)
			if u == nil || ignore != nil && ignore(u) {
				continue
			}
			objects = append(objects, u)
			for _, label := range []string{appsv1.DefaultDeploymentUniqueLabelKey, appsv1.ControllerRevisionHashLabelKey} {
				if h := u.GetLabels()[label]; len(h) >= 5 && !slices.Contains(hashes, h) {
					hashes = append(hashes, h, "HASH")
				}
			}
			if g := u.GetGenerateName(); g != "" && strings.HasPrefix(u.GetName(), g) {
				names[u.GetName()] = g + "*"
			}
		}
	}
	hash := strings.NewReplacer(hashes...)
	for _, u := range objects {
		who := hash.Replace(fmt.Sprintf("%s %s/%s", u.GetKind(), u.GetNamespace(), tidy(u.GetName(), names)))
		plain(u)
		lines = append(lines, who)
		flatten(u.Object, "", func(at, value string) { lines = append(lines, who+" "+at+" = "+hash.Replace(tidy(value, names))) })
	}
	slices.Sort(lines)
	return lines
}

// plain removes the fields that differ from run to run.
func plain(u *unstructured.Unstructured) {
	for _, f := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "selfLink", "name", "namespace"} {
		unstructured.RemoveNestedField(u.Object, "metadata", f)
	}
	kind := u.GetKind()
	delete(u.Object, "apiVersion")
	delete(u.Object, "kind")
	if kind == "Pod" {
		phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
		u.Object["status"] = map[string]any{"phase": phase}
		spec, _ := u.Object["spec"].(map[string]any)
		delete(spec, "nodeName")
	}
}

// flatten calls f for each leaf.
func flatten(v any, at string, f func(at, value string)) {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if k != "observedGeneration" && k != "collisionCount" {
				flatten(v[k], at+"."+k, f)
			}
		}
	case []any:
		for i, x := range v {
			mark := strconv.Itoa(i)
			if c, ok := x.(map[string]any); ok && strings.HasSuffix(at, ".conditions") {
				mark = fmt.Sprint(c["type"]) // in the order in which they came to be
			}
			flatten(x, at+"["+mark+"]", f)
		}
	default:
		text, _ := json.Marshal(v) // leaves of JSON
		f(strings.TrimPrefix(at, "."), string(text))
	}
}

// chance lists how values look that chance and time choose. Texts with fewer marks hold none, and most do not.
var chance = []struct {
	re    *regexp.Regexp
	is    string
	mark  string
	marks int
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UID", "-", 4},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`), "TIME", ":", 2},
	{regexp.MustCompile(`\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b`), "ADDRESS", ".", 3},
	{regexp.MustCompile(`kube-api-access-[a-z0-9]{5}`), "kube-api-access-*", "kube-api-access-", 1},
}

// tidy replaces in a value what chance has chosen.
func tidy(s string, names map[string]string) string {
	for _, c := range chance {
		if strings.Count(s, c.mark) >= c.marks {
			s = c.re.ReplaceAllString(s, c.is)
		}
	}
	if n, ok := names[strings.Trim(s, `"`)]; ok {
		return n
	}
	return s
}

// difference lists what one end has and the other has not, at most 40 lines.
func difference(calm, stormy []string) (list []string) {
	count := map[string]int{}
	for _, l := range stormy {
		count[l]++
	}
	for _, l := range calm {
		count[l]--
	}
	for _, l := range slices.Sorted(maps.Keys(count)) {
		switch n := count[l]; {
		case n > 0:
			list = append(list, "  + "+l)
		case n < 0:
			list = append(list, "  - "+l)
		}
	}
	if len(list) > 40 {
		list = append(list[:40], fmt.Sprintf("  … and %d more", len(list)-40))
	}
	return list
}

// leaked finds what should be gone.
func leaked(set *resource.Set, r resource.Reader) (list []string) {
	for _, k := range set.All() {
		for obj := range r.Each(k, "") {
			who := fmt.Sprintf("%s %s/%s", k.Info().GVK.Kind, obj.GetNamespace(), obj.GetName())
			if obj.GetDeletionTimestamp() != nil {
				list = append(list, fmt.Sprintf("%s is still being deleted; its finalizers are %v", who, obj.GetFinalizers()))
			}
			for _, ref := range obj.GetOwnerReferences() {
				gv, err := schema.ParseGroupVersion(ref.APIVersion)
				if err != nil {
					continue
				}
				owners, served := set.Kind(gv.WithKind(ref.Kind))
				if !served {
					continue
				}
				ns := obj.GetNamespace()
				if !owners.Info().Namespaced {
					ns = ""
				}
				if o := r.Lookup(owners, ns, ref.Name); o == nil || o.GetUID() != ref.UID {
					list = append(list, fmt.Sprintf("%s outlived its owner %s %s", who, ref.Kind, ref.Name))
				}
			}
		}
	}
	return list
}
