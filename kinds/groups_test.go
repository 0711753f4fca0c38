package kinds_test

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/kloop-dev/kloop/kinds"
)

func TestDefaultClassesSaySo(t *testing.T) {
	marked := func(key, value string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: "a", Annotations: map[string]string{key: value}}
	}
	const ingress, attributes = "ingressclass.kubernetes.io/is-default-class", "volumeattributesclass.alpha.kubernetes.io/is-default-class"
	for value, want := range map[string]string{"true": "a (default)", "false": "a", "": "a"} {
		t.Run(value, func(t *testing.T) {
			if got := kinds.IngressClasses.Rows(nil, nil)(&networkingv1.IngressClass{ObjectMeta: marked(ingress, value)})[0]; got != want {
				t.Errorf("ingress class called %q, want %q", got, want)
			}
			class := &storagev1.VolumeAttributesClass{ObjectMeta: marked(attributes, value)}
			if got := kinds.VolumeAttributesClasses.Rows(nil, nil)(class)[0]; got != want {
				t.Errorf("class of attributes called %q, want %q", got, want)
			}
		})
	}
}

func TestUnavailableWithoutReason(t *testing.T) {
	a := &apiregistrationv1.APIService{Spec: apiregistrationv1.APIServiceSpec{Service: &apiregistrationv1.ServiceReference{}}}
	a.Status.Conditions = []apiregistrationv1.APIServiceCondition{{Type: apiregistrationv1.Available,
		Status: apiregistrationv1.ConditionFalse}}
	if got := kinds.APIServices.Rows(nil, nil)(a)[2]; got != "False" {
		t.Errorf("available: %q", got)
	}
	a.Status.Conditions[0].Reason = "Gone"
	if got := kinds.APIServices.Rows(nil, nil)(a)[2]; got != "False (Gone)" {
		t.Errorf("available: %q", got)
	}
}

// Of names of hosts there is one warning, when they are new; of addresses there is none if a controller wrote them.
func TestWarningsOfSlices(t *testing.T) {
	slice := func(by string, typ discoveryv1.AddressType, addresses ...string) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{discoveryv1.LabelManagedBy: by}},
			AddressType: typ, Endpoints: []discoveryv1.Endpoint{{Addresses: addresses}}}
	}
	for _, c := range []struct {
		name     string
		now, was *discoveryv1.EndpointSlice
		want     int
	}{
		{"new names", slice("", discoveryv1.AddressTypeFQDN), nil, 1},
		{"old names", slice("", discoveryv1.AddressTypeFQDN), slice("", discoveryv1.AddressTypeFQDN), 0},
		{"addresses of somebody", slice("me", discoveryv1.AddressTypeIPv6, "FD00::1"), nil, 1},
		{"addresses of the controller", slice("endpointslice-controller.k8s.io", discoveryv1.AddressTypeIPv6, "FD00::1"), nil, 0},
		{"addresses that were mirrored", slice("endpointslicemirroring-controller.k8s.io", discoveryv1.AddressTypeIPv6, "FD00::1"), nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			if c.was == nil {
				got = kinds.EndpointSlices.Warnings(nil, c.now, nil)
			} else {
				got = kinds.EndpointSlices.Warnings(nil, c.now, c.was)
			}
			if len(got) != c.want {
				t.Errorf("%s: %q, want %d", c.name, got, c.want)
			}
		})
	}
}

// Through the status a decision can't be changed: it stays as it was. That it came or went is refused.
func TestDecisionsStay(t *testing.T) {
	k := kinds.CertificateSigningRequests
	decided := func(list ...certificatesv1.CertificateSigningRequestCondition) *certificatesv1.CertificateSigningRequest {
		return &certificatesv1.CertificateSigningRequest{Status: certificatesv1.CertificateSigningRequestStatus{Conditions: list}}
	}
	approved := certificatesv1.CertificateSigningRequestCondition{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue,
		Reason: "A", LastUpdateTime: metav1.Now().Rfc3339Copy(), LastTransitionTime: metav1.Now().Rfc3339Copy()}
	other := approved
	other.Reason, other.LastUpdateTime = "B", metav1.Time{}
	failed := certificatesv1.CertificateSigningRequestCondition{Type: certificatesv1.CertificateFailed, Status: corev1.ConditionTrue}
	r := settled(k, "status", decided(failed, other), decided(approved), false)
	if got := r.Status.Conditions[1]; got != approved {
		t.Errorf("the decision became %v", got)
	}
	if errs := k.Check(nil, nil, "status", r, decided(approved)); len(errs) > 0 {
		t.Error(errs)
	}
	for _, r := range []*certificatesv1.CertificateSigningRequest{decided(), decided(failed)} {
		if got := said(k.Check(nil, nil, "status", settled(k, "status", r, decided(approved), false), decided(approved))); len(got) != 1 ||
			got[0] != "Forbidden status.conditions" {
			t.Errorf("taking a decision back: %v", got)
		}
	}
}

func TestScopeOfRulesHasItsDefault(t *testing.T) {
	p := &admissionregistrationv1.MutatingAdmissionPolicy{Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
		MatchConstraints: &admissionregistrationv1.MatchResources{
			ExcludeResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{}}}}}
	kinds.MutatingAdmissionPolicies.SetDefaults(nil, p)
	if s := p.Spec.MatchConstraints.ExcludeResourceRules[0].Scope; s == nil || *s != admissionregistrationv1.AllScopes {
		t.Errorf("scope %v", s)
	}
	if p.Spec.ReinvocationPolicy != "" {
		t.Errorf("reinvocation %q: that must be said", p.Spec.ReinvocationPolicy)
	}
}
