package apiservice

import (
	"fmt"
	"net"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/kloop-dev/kloop/kinds"
)

func TestPlan(t *testing.T) {
	apps := schema.GroupVersion{Group: "apps", Version: "v1"}
	changed := wanted(apps, false)
	changed.Spec.GroupPriorityMinimum = 5
	users := changed.DeepCopy()
	users.Labels = nil
	for _, tt := range []struct {
		name               string
		svc                *apiregistrationv1.APIService
		own, fresh, custom bool
		want               string
	}{
		{"as it should be", wanted(apps, false), true, true, false, ""},
		{"changed before the start", changed, true, true, false, "update"},
		{"changed since", changed, true, false, false, ""},
		{"the users'", users, true, true, false, ""},
		{"not served any more", changed, false, false, false, "delete"},
		{"of a definition", wanted(apps, true), true, true, true, ""},
		{"of a definition, changed", changed, true, true, true, "update"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			switch d := plan(tt.svc, apps, tt.own, tt.fresh, tt.custom); {
			case d.delete:
				got = "delete"
			case d.spec != nil:
				got = "update"
			}
			if got != tt.want {
				t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
			}
		})
	}
}

// A connection that is cut is told of in the same words each time.
func TestSteady(t *testing.T) {
	addr := func(port int) net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: port} }
	for _, port := range []int{40001, 40002} {
		err := fmt.Errorf("ask it: %w", &net.OpError{Op: "read", Net: "tcp", Source: addr(port), Addr: addr(443), Err: syscall.ECONNRESET})
		if got, want := steady(err), "ask it: read tcp 10.0.0.1:443: connection reset by peer"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestBuiltin(t *testing.T) {
	list := builtin(kinds.NewSet())
	for name, want := range map[string][2]int32{"v1.": {18000, 1}, "v1.apps": {17800, 15}, "v2.autoscaling": {17500, 30},
		"v1.resource.k8s.io":              {16200, 21},
		"v1.admissionregistration.k8s.io": {16700, 15}, "v1.apiregistration.k8s.io": {}} {
		t.Run(name, func(t *testing.T) {
			gv, ok := list[name]
			if !ok != (want[0] == 0) {
				t.Errorf("%s: listed %v", name, ok)
				return
			}
			if s := wanted(gv, false).Spec; ok && (s.GroupPriorityMinimum != want[0] || s.VersionPriority != want[1]) {
				t.Errorf("%s: %+v", name, s)
			}
		})
	}
}

func TestObstacle(t *testing.T) {
	svc := &apiregistrationv1.APIService{Spec: apiregistrationv1.APIServiceSpec{Service: &apiregistrationv1.ServiceReference{Namespace: "ns",
		Name: "s"}}}
	service := &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "https", Port: 443}}}}
	slice := func(port string, ready bool) []*discoveryv1.EndpointSlice {
		n := int32(8443)
		return []*discoveryv1.EndpointSlice{{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Ports: []discoveryv1.EndpointPort{{Name: &port, Port: &n}},
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}}}}
	}
	for want, tt := range map[string]struct {
		service *corev1.Service
		behind  []*discoveryv1.EndpointSlice
	}{
		"ServiceNotFound":   {nil, slice("https", true)},
		"ServicePortError":  {&corev1.Service{}, slice("https", true)},
		"EndpointsNotFound": {service, nil},
		"MissingEndpoints":  {service, append(slice("https", false), slice("http", true)...)},
		"":                  {service, slice("https", true)},
	} {
		t.Run(want, func(t *testing.T) {
			got := ""
			if c := obstacle(svc, tt.service, tt.behind); c != nil {
				got = c.Reason
				if c.Status != apiregistrationv1.ConditionFalse || c.Message == "" {
					t.Errorf("%+v", c)
				}
			}
			if got != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
	if c := obstacle(svc, &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName}}, nil); c != nil {
		t.Errorf("an external name: %+v", c)
	}
}
