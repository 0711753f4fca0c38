package certificates

import (
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds/cell"
	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

type pcr = *certificatesv1.PodCertificateRequest

// PodCertificateRequests declares the kind.
var PodCertificateRequests = &resource.Def[pcr]{
	GVK: gvk("PodCertificateRequest"), Plural: "podcertificaterequests", Namespaced: true, Status: true,
	Quirks:   resource.Quirks{NeedsRevision: true, StatusResets: []string{"metadata"}},
	Default:  func(r pcr) { rule.Fill(&r.Spec.MaxExpirationSeconds, 86400) },
	Validate: resource.Serving(validatePodRequest), ValidateStatus: resource.Serving(validatePodRequestStatus),
	PrepareStatus: resource.Serving(keepConditions),
	Columns: []resource.Column[pcr]{
		resource.Col("PodName", "string", func(r pcr) any { return r.Spec.PodName }),
		resource.Col("ServiceAccountName", "string", func(r pcr) any { return r.Spec.ServiceAccountName }),
		resource.Col("NodeName", "string", func(r pcr) any { return string(r.Spec.NodeName) }),
		resource.Col("SignerName", "string", func(r pcr) any { return r.Spec.SignerName }),
		resource.Col("State", "string", func(r pcr) any { return podRequestState(r) }),
		resource.Col("UnverifiedUserAnnotations", "string", func(r pcr) any { return cell.Labels(r.Spec.UnverifiedUserAnnotations) }),
	},
	Select: []resource.Field[pcr]{
		{Label: "spec.signerName", Value: func(r pcr) string { return r.Spec.SignerName }},
		{Label: "spec.podName", Value: func(r pcr) string { return r.Spec.PodName }},
		{Label: "spec.nodeName", Value: func(r pcr) string { return string(r.Spec.NodeName) }},
	},
}

// podRequestState names the last of the conditions that end a request.
func podRequestState(r pcr) string {
	state := "Pending"
	for _, c := range r.Status.Conditions {
		if slices.Contains(finals, c.Type) {
			state = c.Type
		}
	}
	return state
}

// keepConditions keeps a condition that ended the request as it was, and says of a new one when it came.
func keepConditions(r, old pcr) {
	now := metav1.Now().Rfc3339Copy()
	for i := range r.Status.Conditions {
		c := &r.Status.Conditions[i]
		same := func(o metav1.Condition) bool { return o.Type == c.Type }
		if at := slices.IndexFunc(old.Status.Conditions, same); at >= 0 && slices.Contains(finals, c.Type) {
			*c = old.Status.Conditions[at]
		} else if c.LastTransitionTime.IsZero() {
			c.LastTransitionTime = now
		}
	}
}
