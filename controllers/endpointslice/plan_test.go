package endpointslice

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func service(edit ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s", UID: "svc", Labels: map[string]string{"x": "y"}},
		Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.1", Selector: map[string]string{"a": "b"},
			Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromInt32(8080)}}}}
	for _, f := range edit {
		f(s)
	}
	return s
}

func pod(i int, edit ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("p%d", i), UID: types.UID(fmt.Sprintf("u%d", i)),
		Labels: map[string]string{"a": "b"}},
		Spec: corev1.PodSpec{NodeName: "n1"},
		Status: corev1.PodStatus{PodIP: fmt.Sprintf("10.1.%d.%d", i/250, i%250+1),
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Unix(1000, 0)}}}}
	for _, f := range edit {
		f(p)
	}
	return p
}

func some(n int, edit ...func(*corev1.Pod)) (list []*corev1.Pod) {
	for i := range n {
		list = append(list, pod(i, edit...))
	}
	return list
}

func noZone(string) string { return "" }

// stored turns a plan into the slices that there would be then.
func stored(have []*discoveryv1.EndpointSlice, t todo) (out []*discoveryv1.EndpointSlice) {
	for _, es := range have {
		if slices.Contains(t.remove, es) {
			continue
		}
		for _, u := range t.update {
			if u.Name == es.Name {
				es = u
			}
		}
		out = append(out, es)
	}
	for i, es := range t.create {
		es.Name = fmt.Sprintf("%s%d-%d", es.GenerateName, len(have), i)
		out = append(out, es)
	}
	return out
}

func sizes(list []*discoveryv1.EndpointSlice) (n []int) {
	for _, es := range list {
		n = append(n, len(es.Endpoints))
	}
	slices.Sort(n)
	return n
}

func TestPlanFillsSlices(t *testing.T) {
	s := service()
	type step struct {
		pods                   []*corev1.Pod
		create, update, remove int
		sizes                  []int
	}
	unready := some(250)
	unready[7] = pod(7, func(p *corev1.Pod) { p.Status.Conditions = nil })
	replaced := append(some(249), pod(900))
	for name, steps := range map[string][]step{
		"none":            {{nil, 1, 0, 0, []int{0}}, {nil, 0, 0, 0, []int{0}}},
		"first pod":       {{nil, 1, 0, 0, []int{0}}, {some(1), 0, 1, 0, []int{1}}},
		"drain":           {{some(3), 1, 0, 0, []int{3}}, {nil, 0, 1, 0, []int{0}}},
		"hundred to each": {{some(250), 3, 0, 0, []int{50, 100, 100}}, {some(250), 0, 0, 0, []int{50, 100, 100}}},
		"one is new":      {{some(250), 3, 0, 0, []int{50, 100, 100}}, {some(251), 0, 1, 0, []int{51, 100, 100}}},
		"one changes":     {{some(250), 3, 0, 0, []int{50, 100, 100}}, {unready, 0, 1, 0, []int{50, 100, 100}}},
		"one is replaced": {{some(250), 3, 0, 0, []int{50, 100, 100}}, {replaced, 0, 1, 0, []int{50, 100, 100}}},
		"many go":         {{some(250), 3, 0, 0, []int{50, 100, 100}}, {some(60), 0, 1, 2, []int{60}}},
		"over a slice":    {{some(100), 1, 0, 0, []int{100}}, {some(101), 1, 0, 0, []int{1, 100}}},
	} {
		t.Run(name, func(t *testing.T) {
			var have []*discoveryv1.EndpointSlice
			for i, st := range steps {
				todo := plan(s, wanted(s, st.pods, noZone), have, nil)
				if len(todo.create) != st.create || len(todo.update) != st.update || len(todo.remove) != st.remove {
					t.Errorf("step %d: create %d, update %d, remove %d; want %d, %d, %d", i,
						len(todo.create), len(todo.update), len(todo.remove), st.create, st.update, st.remove)
				}
				have = stored(have, todo)
				if got := sizes(have); !slices.Equal(got, st.sizes) {
					t.Errorf("step %d: slices of %v endpoints, want %v", i, got, st.sizes)
				}
			}
		})
	}
}

func TestEndpoint(t *testing.T) {
	deleted := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }
	unready := func(p *corev1.Pod) { p.Status.Conditions = nil }
	publish := func(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = true }
	for _, tt := range []struct {
		name                        string
		s                           *corev1.Service
		p                           *corev1.Pod
		ready, serving, terminating bool
	}{
		{"ready", service(), pod(1), true, true, false},
		{"not ready", service(), pod(1, unready), false, false, false},
		{"terminating", service(), pod(1, deleted), false, true, true},
		{"published all the same", service(publish), pod(1, unready, deleted), true, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := endpoint(tt.s, tt.p, []string{"10.1.0.2"}, func(string) string { return "z" })
			if *e.Conditions.Ready != tt.ready || *e.Conditions.Serving != tt.serving || *e.Conditions.Terminating != tt.terminating {
				t.Errorf("%s: ready %t, serving %t, terminating %t", tt.name, *e.Conditions.Ready, *e.Conditions.Serving, *e.Conditions.Terminating)
			}
			if *e.NodeName != "n1" || *e.Zone != "z" || e.TargetRef.Name != "p1" {
				t.Errorf("%s: %+v", tt.name, e)
			}
		})
	}
	near := corev1.ServiceTrafficDistributionPreferSameNode
	e := endpoint(service(func(s *corev1.Service) { s.Spec.TrafficDistribution = &near }),
		pod(1, func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = "h", "s" }), nil, func(string) string { return "z" })
	if bare := endpoint(service(func(s *corev1.Service) { s.Spec.TrafficDistribution = &near }), pod(1), nil,
		noZone); bare.Hints == nil || bare.Hints.ForNodes[0].Name != "n1" || bare.Hints.ForZones != nil {
		t.Errorf("without a zone: %+v", bare.Hints)
	}
	if e.Hints == nil || e.Hints.ForNodes[0].Name != "n1" || e.Hints.ForZones[0].Name != "z" || *e.Hostname != "h" {
		t.Errorf("hints %+v, hostname %v", e.Hints, e.Hostname)
	}
}

func TestWantedGroups(t *testing.T) {
	named := service(func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromString("web") })
	web := func(n int32) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: n, Protocol: corev1.ProtocolTCP}}}}
		}
	}
	side := func(always bool) func(*corev1.Pod) { // a port of an init container; that of a sidecar counts
		return func(p *corev1.Pod) {
			web(2)(p)
			p.Spec.InitContainers, p.Spec.Containers = p.Spec.Containers, nil
			if always {
				p.Spec.InitContainers[0].RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
			}
		}
	}
	got := wanted(named, []*corev1.Pod{pod(1, web(1)), pod(2, web(2)), pod(3, web(1)), pod(4), pod(5, side(true)), pod(6, side(false))},
		noZone)
	if len(got) != 3 || len(got[1].endpoints) != 2 {
		t.Fatalf("named ports: %d groups: %+v", len(got), got)
	}
	if len(got[0].endpoints) != 2 || *got[0].ports[0].Port != 1 || *got[1].ports[0].Port != 2 || len(got[2].ports) != 0 {
		t.Errorf("named ports: %d groups: %+v", len(got), got)
	}
	dual := service(func(s *corev1.Service) { s.Spec.IPFamilies = []corev1.IPFamily{"IPv4", "IPv6"} })
	six := pod(1, func(p *corev1.Pod) { p.Status.PodIPs = []corev1.PodIP{{IP: "10.1.0.2"}, {IP: "fd00::1"}} })
	got = wanted(dual, []*corev1.Pod{six, pod(2)}, noZone)
	if len(got) != 2 || len(got[0].endpoints) != 2 || len(got[1].endpoints) != 1 || got[1].endpoints[0].Addresses[0] != "fd00::1" {
		t.Errorf("two families: %+v", got)
	}
}

func TestSliceObject(t *testing.T) {
	s := service(func(s *corev1.Service) {
		s.Spec.ClusterIP = corev1.ClusterIPNone
		s.Spec.IPFamilies = []corev1.IPFamily{"IPv4"}
	})
	es := plan(s, wanted(s, some(1), noZone), nil, nil).create[0]
	want := map[string]string{"x": "y", "kubernetes.io/service-name": "s", "service.kubernetes.io/headless": "",
		"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}
	for k, v := range want {
		t.Run(k, func(t *testing.T) {
			if have, ok := es.Labels[k]; !ok || have != v {
				t.Errorf("label %s is %q", k, have)
			}
		})
	}
	if es.GenerateName != "s-" || !metav1.IsControlledBy(es, s) || es.Annotations[corev1.EndpointsLastChangeTriggerTime] == "" {
		t.Errorf("metadata: %+v", es.ObjectMeta)
	}
}

// A trigger is the first of the pods that became ready, or not, since the last write; a pod that ended is one.
// Pods that are gone are none, and neither are ports.
func TestTrigger(t *testing.T) {
	at := func(seconds int64, status corev1.ConditionStatus) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Conditions[0].LastTransitionTime, p.Status.Conditions[0].Status = metav1.Unix(seconds, 0), status
		}
	}
	was := some(3)
	for name, test := range map[string]struct {
		now   []*corev1.Pod
		port  int32
		ended []*corev1.Pod
		want  string
	}{
		"two more":        {append(some(3), pod(4, at(4000, "True")), pod(5, at(3000, "True"))), 80, nil, "1970-01-01T00:50:00Z"},
		"one less":        {was[1:], 80, nil, ""},
		"one ended":       {was[1:], 80, []*corev1.Pod{pod(0, at(6000, "False")), pod(9, at(5000, "False"))}, "1970-01-01T01:40:00Z"},
		"another port":    {was, 81, nil, ""},
		"not ready again": {[]*corev1.Pod{was[0], was[1], pod(2, at(5000, "False"))}, 80, nil, "1970-01-01T01:23:20Z"},
	} {
		t.Run(name, func(t *testing.T) {
			s := service()
			have := stored(nil, plan(s, wanted(s, was, noZone), nil, nil))
			s.Spec.Ports[0].TargetPort = intstr.FromInt32(8000 + test.port)
			got := plan(s, wanted(s, test.now, noZone), have, test.ended).update
			if len(got) != 1 || got[0].Annotations[corev1.EndpointsLastChangeTriggerTime] != test.want {
				t.Errorf("%s: %+v", name, got)
			}
		})
	}
}

func BenchmarkPlan5000(b *testing.B) {
	s, list := service(), some(5000)
	have := stored(nil, plan(s, wanted(s, list, noZone), nil, nil))
	for b.Loop() {
		plan(s, wanted(s, list, noZone), have, nil)
	}
}

// The order of ports is upstream's, as a kube-controller-manager 1.36.3 wrote it.
func TestOrderOfPorts(t *testing.T) {
	app := func(name string) *string { return &name }
	s := service(func(s *corev1.Service) {
		s.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 8080, AppProtocol: app("http")},
			{Name: "grpc", Port: 9090, AppProtocol: app("kubernetes.io/h2c")}, {Name: "u", Port: 5353, Protocol: corev1.ProtocolUDP},
			{Name: "t", Port: 53, AppProtocol: app("example.com/x")}}
		for i := range s.Spec.Ports {
			p := &s.Spec.Ports[i]
			p.TargetPort = intstr.FromInt32(p.Port)
			if p.Protocol == "" {
				p.Protocol = corev1.ProtocolTCP
			}
		}
	})
	var got []string
	for _, p := range portsOf(s, pod(1)) {
		got = append(got, *p.Name)
	}
	if want := []string{"u", "grpc", "http", "t"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
