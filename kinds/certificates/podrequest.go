package certificates

import (
	v1 "k8s.io/api/certificates/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

type pcr = *v1.PodCertificateRequest

// The bounds of lifetimes in seconds, and of the signing request in bytes.
const (
	minPodExpiration = 3600
	maxPodExpiration = 91 * 24 * 3600
	maxStubRequest   = 10 << 10
)

// PodCertificateRequests declares the kind.
var PodCertificateRequests = &resource.Def[pcr]{
	GVK: gvk("PodCertificateRequest"), Plural: "podcertificaterequests", Namespaced: true, Status: true,
	Default:  func(r pcr) { rule.Fill(&r.Spec.MaxExpirationSeconds, 86400) },
	Validate: validatePodRequest, ValidateStatus: validatePodRequestStatus,
	Columns: []resource.Column[pcr]{
		resource.Col("PodName", "string", func(r pcr) any { return r.Spec.PodName }),
		resource.Col("ServiceAccountName", "string", func(r pcr) any { return r.Spec.ServiceAccountName }),
		resource.Col("NodeName", "string", func(r pcr) any { return string(r.Spec.NodeName) }),
		resource.Col("SignerName", "string", func(r pcr) any { return r.Spec.SignerName }),
		resource.Col("State", "string", func(r pcr) any {
			for _, c := range r.Status.Conditions {
				return c.Type
			}
			return "Pending"
		}),
	},
	Select: []resource.Field[pcr]{
		{Label: "spec.signerName", Value: func(r pcr) string { return r.Spec.SignerName }},
		{Label: "spec.podName", Value: func(r pcr) string { return r.Spec.PodName }},
		{Label: "spec.nodeName", Value: func(r pcr) string { return string(r.Spec.NodeName) }},
	},
}

func validatePodRequest(r, old pcr) (errs field.ErrorList) {
	s, spec := &r.Spec, field.NewPath("spec")
	if old != nil {
		return rule.Frozen(*s, old.Spec, spec)
	}
	errs = append(errs, signer(s.SignerName, spec.Child("signerName"))...)
	for _, n := range []struct{ name, value string }{{"podName", s.PodName}, {"serviceAccountName", s.ServiceAccountName},
		{"nodeName", string(s.NodeName)}} {
		errs = append(errs, rule.Format(n.value, spec.Child(n.name), rule.Subdomain)...)
	}
	for _, n := range []struct{ name, value string }{{"podUID", string(s.PodUID)}, {"serviceAccountUID", string(s.ServiceAccountUID)},
		{"nodeUID", string(s.NodeUID)}} {
		errs = append(errs, rule.Needed(n.value, spec.Child(n.name))...)
	}
	if s.MaxExpirationSeconds == nil {
		errs = append(errs, field.Required(spec.Child("maxExpirationSeconds"), "must be set"))
	} else {
		errs = append(errs, rule.Within(*s.MaxExpirationSeconds, minPodExpiration, maxPodExpiration, spec.Child("maxExpirationSeconds"))...)
	}
	switch stub := spec.Child("stubPKCS10Request"); {
	case len(s.StubPKCS10Request) == 0:
		errs = append(errs, field.Required(stub, ""))
	case len(s.StubPKCS10Request) > maxStubRequest:
		errs = append(errs, field.TooLong(stub, "", maxStubRequest))
	}
	return errs
}

func validatePodRequestStatus(r, old pcr) field.ErrorList {
	path := field.NewPath("status")
	errs := metavalidation.ValidateConditions(r.Status.Conditions, path.Child("conditions"))
	if chain := old.Status.CertificateChain; chain != "" && chain != r.Status.CertificateChain {
		errs = append(errs, field.Invalid(path.Child("certificateChain"), "<value omitted>", "field is immutable"))
	}
	if r.Status.CertificateChain != "" && r.Status.CertificateChain != old.Status.CertificateChain {
		if _, err := parseCertificates([]byte(r.Status.CertificateChain)); err != nil {
			errs = append(errs, field.Invalid(path.Child("certificateChain"), "<value omitted>", err.Error()))
		}
	}
	return errs
}
