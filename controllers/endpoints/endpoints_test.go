package endpoints

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func service(edit ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}, Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.1",
		Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromString("web")}}}}
	for _, f := range edit {
		f(s)
	}
	return s
}

func pod(i int, port int32, ready bool) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("p", i), UID: types.UID(fmt.Sprint("u", i))},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{
			{Name: "web", ContainerPort: port, Protocol: corev1.ProtocolTCP}}}}},
		Status: corev1.PodStatus{PodIP: fmt.Sprintf("10.1.%d.%d", i/250, i%250+1)}}
	if ready {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	return p
}

func TestSubsets(t *testing.T) {
	gone := pod(4, 1, true)
	gone.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	publish := service(func(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = true })
	two := service(func(s *corev1.Service) {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "more", Protocol: corev1.ProtocolTCP, Port: 81,
			TargetPort: intstr.FromString("more")})
	})
	more := pod(2, 1, true)
	more.Spec.Containers[0].Ports = append(more.Spec.Containers[0].Ports, corev1.ContainerPort{Name: "more", ContainerPort: 9,
		Protocol: corev1.ProtocolTCP})
	bare := service(func(s *corev1.Service) { s.Spec.Ports = nil })
	for _, tt := range []struct {
		name string
		s    *corev1.Service
		pods []*corev1.Pod
		want string // port: ready+others
	}{
		{"ready and not", service(), []*corev1.Pod{pod(1, 1, true), pod(2, 1, false)}, "1: 1+1 "},
		{"two ports of one name", service(), []*corev1.Pod{pod(1, 1, true), pod(2, 2, true)}, "1: 1+0 2: 1+0 "},
		{"terminating", service(), []*corev1.Pod{gone}, ""},
		{"terminating but published", publish, []*corev1.Pod{gone, pod(1, 1, false)}, "1: 2+0 "},
		{"a port that one of them lacks", two, []*corev1.Pod{pod(1, 1, true), more}, "1: 2+0 9: 1+0 "},
		{"ports that all have", two, []*corev1.Pod{more}, "9: 1+0 "},
		{"no ports", bare, []*corev1.Pod{pod(1, 1, true)}, "0: 1+0 "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			list, _ := subsets(tt.s, tt.pods)
			for _, sub := range list {
				port := int32(0)
				if len(sub.Ports) > 0 {
					port = sub.Ports[0].Port
				}
				got += fmt.Sprintf("%d: %d+%d ", port, len(sub.Addresses), len(sub.NotReadyAddresses))
			}
			if got != tt.want {
				t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
			}
		})
	}
}

func TestSubsetsAreBounded(t *testing.T) {
	var list []*corev1.Pod
	for i := range 1200 {
		list = append(list, pod(i, 1, i >= 300))
	}
	got, over := subsets(service(), list)
	if !over || len(got) != 1 || len(got[0].Addresses) != 900 || len(got[0].NotReadyAddresses) != 100 {
		t.Errorf("over %t: %d+%d", over, len(got[0].Addresses), len(got[0].NotReadyAddresses))
	}
}

func TestPlanIsQuiet(t *testing.T) {
	s := service()
	list, over := subsets(s, []*corev1.Pod{pod(1, 1, true)})
	first := plan(s, nil, list, over, nil)
	if first == nil || first.Labels["endpoints.kubernetes.io/managed-by"] != managedBy {
		t.Fatalf("first: %+v", first)
	}
	if again := plan(s, first, list, over, nil); again != nil {
		t.Errorf("nothing changed, and yet: %+v", again)
	}
	if next := plan(s, first, nil, true, nil); next == nil || next.Annotations[corev1.EndpointsOverCapacity] != "truncated" {
		t.Errorf("next: %+v", next)
	}
}

// The order of ports is upstream's, as a kube-controller-manager 1.36.3 wrote it.
func TestOrderOfPorts(t *testing.T) {
	app := func(name string) *string { return &name }
	list := []corev1.EndpointPort{{Name: "http", Port: 8080, Protocol: corev1.ProtocolTCP, AppProtocol: app("http")},
		{Name: "grpc", Port: 9090, Protocol: corev1.ProtocolTCP, AppProtocol: app("kubernetes.io/h2c")}}
	shared := []corev1.EndpointPort{{Name: "t", Port: 53, Protocol: corev1.ProtocolTCP, AppProtocol: app("example.com/x")},
		{Name: "u", Port: 5353, Protocol: corev1.ProtocolUDP}}
	slices.SortFunc(list, byPort)
	slices.SortFunc(shared, byPort)
	if list[0].Name != "grpc" || shared[0].Name != "u" {
		t.Errorf("%v %v", list, shared)
	}
}

// A change of labels alone is no time at which something became ready.
func TestLabelsAloneAreNoTrigger(t *testing.T) {
	s := service()
	was := plan(s, nil, nil, false, nil)
	if was.Annotations[corev1.EndpointsLastChangeTriggerTime] == "" {
		t.Fatalf("a new object has no time: %+v", was.ObjectMeta)
	}
	s.Labels = map[string]string{"a": "b"}
	next := plan(s, was, nil, false, nil)
	if _, ok := next.Annotations[corev1.EndpointsLastChangeTriggerTime]; ok || next.Labels["a"] != "b" {
		t.Errorf("%+v", next.ObjectMeta)
	}
}

// A trigger is the first of the pods that became ready, or not, since the last write. Pods that go are none, and neither are ports.
func TestTrigger(t *testing.T) {
	since := func(i int, ready corev1.ConditionStatus, at int64) *corev1.Pod {
		p := pod(i, 1, false)
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.Unix(at, 0)}}
		return p
	}
	ended := func(p *corev1.Pod) *corev1.Pod {
		p.Status.Phase, p.Status.PodIP = corev1.PodFailed, ""
		return p
	}
	was := []*corev1.Pod{since(1, corev1.ConditionTrue, 10), since(2, corev1.ConditionTrue, 20), pod(3, 1, false)}
	for name, test := range map[string]struct {
		now  []*corev1.Pod
		port string
		want string
	}{
		"two more": {append([]*corev1.Pod{since(4, corev1.ConditionTrue, 40), since(5, corev1.ConditionTrue, 30)}, was...), "http",
			"1970-01-01T00:00:30Z"},
		"one less":        {was[1:], "http", ""},
		"one ended":       {append([]*corev1.Pod{ended(since(1, corev1.ConditionFalse, 60))}, was[1:]...), "http", "1970-01-01T00:01:00Z"},
		"another port":    {was, "other", ""},
		"not ready again": {[]*corev1.Pod{since(1, corev1.ConditionFalse, 50), was[1], was[2]}, "http", "1970-01-01T00:00:50Z"},
		"never ready":     {append([]*corev1.Pod{pod(6, 1, false)}, was...), "http", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := service()
			before, _ := subsets(s, slices.Clone(was))
			first := plan(s, nil, before, false, was)
			s.Spec.Ports[0].Name = test.port
			after, _ := subsets(s, slices.Clone(test.now))
			if got := plan(s, first, after, false, test.now).Annotations[corev1.EndpointsLastChangeTriggerTime]; got != test.want {
				t.Errorf("%s: %q", name, got)
			}
		})
	}
}
