package general

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/mentions"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// endpointLists are the lists of a spec that name ports of what its selector selects, as those of a ServiceMonitor and a PodMonitor.
var endpointLists = []string{"endpoints", "podMetricsEndpoints"}

// portless remarks on a port that a spec names and nothing of what it selects has, with the name that is there in its place.
func portless(s *mentions.Search, tree map[string]any) (list []Remark) {
	spec, _ := tree["spec"].(map[string]any)
	want, _, _ := unstructured.NestedStringMap(spec, "selector", "matchLabels") // none where they are of another form
	ns := s.Obj.GetNamespace()
	if spec["namespaceSelector"] != nil {
		ns = ""
	}
	for _, field := range endpointLists {
		endpoints, _ := spec[field].([]any)
		if len(endpoints) == 0 || len(want) == 0 {
			continue
		}
		has := portNames(s.World, field, ns, labels.SelectorFromSet(want))
		for i, item := range endpoints {
			one, _ := item.(map[string]any)
			port := words.String(one, "port")
			if port == "" || len(has) == 0 || has[port] {
				continue
			}
			names := slices.Sorted(maps.Keys(has))
			r := Remark{Says: fmt.Sprintf("names the port %s in spec.%s, and what it selects has %s", port, field, words.List(names, 3))}
			if advice := converge.Choices(port, names, func(name string) string {
				return converge.Patched(converge.RefTo(s.Kind, s.Obj), converge.Put(fmt.Sprintf("/spec/%s/%d/port", field, i), name))
			}); len(advice) > 0 {
				r.Advice = strings.Join(advice[:1], "")
			}
			list = append(list, r)
		}
	}
	return list
}

// portNames are the names of the ports of selected services or pods.
func portNames(w *converge.World, field, ns string, sel labels.Selector) map[string]bool {
	names := map[string]bool{}
	if field == "podMetricsEndpoints" {
		for _, p := range resource.List(w.Read, core.Pods, ns) {
			for i := range p.Spec.Containers {
				for _, port := range p.Spec.Containers[i].Ports {
					names[port.Name] = names[port.Name] || sel.Matches(labels.Set(p.Labels))
				}
			}
		}
	} else {
		for _, svc := range resource.List(w.Read, core.Services, ns) {
			for _, port := range svc.Spec.Ports {
				names[port.Name] = names[port.Name] || sel.Matches(labels.Set(svc.Labels))
			}
		}
	}
	maps.DeleteFunc(names, func(name string, is bool) bool { return !is || name == "" })
	return names
}
