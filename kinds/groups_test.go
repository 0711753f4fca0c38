package kinds_test

import (
	"testing"

	admission "k8s.io/api/admissionregistration/v1"
	certificates "k8s.io/api/certificates/v1"
	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	networking "k8s.io/api/networking/v1"
	storage "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/kloop-dev/kloop/kinds"
)

func TestDefaultClassesSaySo(t *testing.T) {
	marked := func(key, value string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: "a", Annotations: map[string]string{key: value}}
	}
	const ingress, attributes = "ingressclass.kubernetes.io/is-default-class", "volumeattributesclass.alpha.kubernetes.io/is-default-class"
	for value, want := range map[string]string{"true": "a (default)", "false": "a", "": "a"} {
		if got := kinds.IngressClasses.Row(&networking.IngressClass{ObjectMeta: marked(ingress, value)})[0]; got != want {
			t.Errorf("ingress class called %q, want %q", got, want)
		}
		if got := kinds.VolumeAttributesClasses.Row(&storage.VolumeAttributesClass{ObjectMeta: marked(attributes, value)})[0]; got != want {
			t.Errorf("class of attributes called %q, want %q", got, want)
		}
	}
}

func TestUnavailableWithoutReason(t *testing.T) {
	a := &apiregistration.APIService{Spec: apiregistration.APIServiceSpec{Service: &apiregistration.ServiceReference{}}}
	a.Status.Conditions = []apiregistration.APIServiceCondition{{Type: apiregistration.Available, Status: apiregistration.ConditionFalse}}
	if got := kinds.APIServices.Row(a)[2]; got != "False" {
		t.Errorf("available: %q", got)
	}
	a.Status.Conditions[0].Reason = "Gone"
	if got := kinds.APIServices.Row(a)[2]; got != "False (Gone)" {
		t.Errorf("available: %q", got)
	}
}

// Of names of hosts there is one warning, when they are new; of addresses there is none if a controller wrote them.
func TestWarningsOfSlices(t *testing.T) {
	slice := func(by string, typ discovery.AddressType, addresses ...string) *discovery.EndpointSlice {
		return &discovery.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{discovery.LabelManagedBy: by}},
			AddressType: typ, Endpoints: []discovery.Endpoint{{Addresses: addresses}}}
	}
	for _, c := range []struct {
		name     string
		now, was *discovery.EndpointSlice
		want     int
	}{
		{"new names", slice("", discovery.AddressTypeFQDN), nil, 1},
		{"old names", slice("", discovery.AddressTypeFQDN), slice("", discovery.AddressTypeFQDN), 0},
		{"addresses of somebody", slice("me", discovery.AddressTypeIPv6, "FD00::1"), nil, 1},
		{"addresses of the controller", slice("endpointslice-controller.k8s.io", discovery.AddressTypeIPv6, "FD00::1"), nil, 0},
		{"addresses that were mirrored", slice("endpointslicemirroring-controller.k8s.io", discovery.AddressTypeIPv6, "FD00::1"), nil, 0},
	} {
		var got []string
		if c.was == nil {
			got = kinds.EndpointSlices.Warnings(c.now, nil)
		} else {
			got = kinds.EndpointSlices.Warnings(c.now, c.was)
		}
		if len(got) != c.want {
			t.Errorf("%s: %q, want %d", c.name, got, c.want)
		}
	}
}

// Through the status a decision can't be changed: it stays as it was. That it came or went is refused.
func TestDecisionsStay(t *testing.T) {
	k := kinds.CertificateSigningRequests
	decided := func(list ...certificates.CertificateSigningRequestCondition) *certificates.CertificateSigningRequest {
		return &certificates.CertificateSigningRequest{Status: certificates.CertificateSigningRequestStatus{Conditions: list}}
	}
	approved := certificates.CertificateSigningRequestCondition{Type: certificates.CertificateApproved, Status: core.ConditionTrue,
		Reason: "A", LastUpdateTime: metav1.Now().Rfc3339Copy(), LastTransitionTime: metav1.Now().Rfc3339Copy()}
	other := approved
	other.Reason, other.LastUpdateTime = "B", metav1.Time{}
	failed := certificates.CertificateSigningRequestCondition{Type: certificates.CertificateFailed, Status: core.ConditionTrue}
	r := settled(k, "status", decided(failed, other), decided(approved), false)
	if got := r.Status.Conditions[1]; got != approved {
		t.Errorf("the decision became %v", got)
	}
	if errs := k.Check("status", r, decided(approved)); len(errs) > 0 {
		t.Error(errs)
	}
	for _, r := range []*certificates.CertificateSigningRequest{decided(), decided(failed)} {
		if got := said(k.Check("status", settled(k, "status", r, decided(approved), false), decided(approved))); len(got) != 1 || got[0] != "Forbidden status.conditions" {
			t.Errorf("taking a decision back: %v", got)
		}
	}
}

func TestScopeOfRulesHasItsDefault(t *testing.T) {
	p := &admission.MutatingAdmissionPolicy{Spec: admission.MutatingAdmissionPolicySpec{MatchConstraints: &admission.MatchResources{
		ExcludeResourceRules: []admission.NamedRuleWithOperations{{}}}}}
	kinds.MutatingAdmissionPolicies.SetDefaults(p)
	if s := p.Spec.MatchConstraints.ExcludeResourceRules[0].Scope; s == nil || *s != admission.AllScopes {
		t.Errorf("scope %v", s)
	}
	if p.Spec.ReinvocationPolicy != "" {
		t.Errorf("reinvocation %q: that must be said", p.Spec.ReinvocationPolicy)
	}
}
