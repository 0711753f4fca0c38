package endpointslice

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// machine makes a node of "a 4": its zone and its processors.
func machine(text string) *corev1.Node {
	n := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
	zone, cpu, _ := strings.Cut(text, " ")
	n.Labels = map[string]string{corev1.LabelTopologyZone: zone}
	if cpu != "" {
		n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: apiresource.MustParse(cpu)}
	}
	return n
}

// TestDivide has pods on nodes, named after their zones, get hints: how many are meant for each zone.
func TestDivide(t *testing.T) {
	for _, tt := range []struct {
		name, nodes string
		pods        string // zones of the ready pods
		want        string
	}{
		{"even", "a 4,b 4", "aabb", "a: 2 b: 2"},
		{"all in one zone", "a 4,b 4", "aaaa", "a: 2 b: 2"},
		{"a larger zone", "a 8,b 4", "aaabbb", "a: 4 b: 2"},
		{"rounding is no reason to move", "a 4,b 4", "aaaabbb", "a: 4 b: 3"},
		{"halves can't be had", "a 4,b 4", "aab",
			"Unable to allocate minimum required endpoints to each zone without exceeding overload threshold (3 endpoints, 2 zones)"},
		{"three", "a 4,b 4,c 4", "aaaaaa", "a: 2 b: 2 c: 2"},
		{"too few", "a 4,b 4,c 4", "ab", "Insufficient number of endpoints (2 endpoints, 3 zones)"},
		{"too uneven", "a 9,b 1", "ab",
			"Unable to allocate minimum required endpoints to each zone without exceeding overload threshold (2 endpoints, 2 zones)"},
		{"one zone", "a 4,a 4", "aa", "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes"},
		{"no processors known", "a 4,b", "ab", "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes"},
		{"no zone", "a 4,b 4", "a-b", "One or more endpoints do not have a zone specified"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var nodes []*corev1.Node
			for _, n := range strings.Split(tt.nodes, ",") {
				nodes = append(nodes, machine(n))
			}
			var list []*corev1.Pod
			for i, z := range tt.pods {
				list = append(list, pod(i, func(p *corev1.Pod) { p.Spec.NodeName = string(z) }))
			}
			list = append(list, pod(99, func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Conditions = "a", nil })) // not ready: gets none
			groups := wanted(service(), list, func(node string) string { return strings.Trim(node, "-") })
			before := map[string]string{}
			for range 2 { // what was given stays
				got := divide(groups, shares(nodes), before)
				if got == "" {
					count := map[string]int{}
					for _, e := range groups[0].endpoints {
						if e.Hints != nil {
							count[e.Hints.ForZones[0].Name]++
							if was := before[endpointKey(&e)]; was != "" && was != e.Hints.ForZones[0].Name {
								t.Errorf("%s: was given to %s, now to %s", tt.name, was, e.Hints.ForZones[0].Name)
							}
							before[endpointKey(&e)] = e.Hints.ForZones[0].Name
						}
					}
					got = strings.TrimSuffix(strings.TrimPrefix(fmt.Sprint(count), "map["), "]")
					got = strings.ReplaceAll(got, ":", ": ")
				}
				if got != tt.want {
					t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
				}
			}
		})
	}
}

func TestAutomatic(t *testing.T) {
	for _, tt := range []struct {
		mode, old string
		want      bool
	}{{"Auto", "", true}, {"auto", "", true}, {"Disabled", "", false}, {"", "Auto", true}, {"Auto", "Disabled", false}, {"", "", false}} {
		t.Run(tt.mode, func(t *testing.T) {
			s := service()
			for k, v := range map[string]string{corev1.AnnotationTopologyMode: tt.mode, corev1.DeprecatedAnnotationTopologyAwareHints: tt.old} {
				if v != "" {
					metav1.SetMetaDataAnnotation(&s.ObjectMeta, k, v)
				}
			}
			if got := automatic(s); got != tt.want {
				t.Errorf("%+v: %t", tt, got)
			}
		})
	}
}
