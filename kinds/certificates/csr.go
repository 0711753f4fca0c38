// Package certificates declares the kinds by which certificates are asked for, approved, issued and trusted.
package certificates

import (
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/kloop-dev/kloop/kinds/cell"
	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

func gvk(kind string) schema.GroupVersionKind {
	return certificatesv1.SchemeGroupVersion.WithKind(kind)
}

type csr = *certificatesv1.CertificateSigningRequest

// CertificateSigningRequests declares the kind. The front door fills in who made the request (username, uid, groups, extra).
var CertificateSigningRequests = &resource.Def[csr]{
	GVK: gvk("CertificateSigningRequest"), Plural: "certificatesigningrequests", Short: []string{"csr"}, Status: true,
	Quirks: resource.Quirks{MetaNewFirst: true, NameErrorsLast: true, PartsAsNew: true, StatusAsNew: true, Resets: []string{"spec"},
		StatusResets: []string{"status.conditions"}, Declared: []string{"Invalid status.conditions"}},
	Name: rule.Unchecked, Prepare: resource.Serving(prepareRequest),
	Validate:      resource.Serving(validateRequest),
	PrepareStatus: resource.Serving(takeStatus),
	Gated:         resource.Gated[csr]{ValidateStatus: resource.Serving(validateRequestStatus)},
	Parts: []resource.Part[csr]{{Name: "approval", Resets: []string{"spec", "status.certificate"},
		Take:     resource.Serving(takeApproval),
		Validate: resource.Serving(validateApproval)}},
	Columns: []resource.Column[csr]{
		resource.Age[csr](),
		resource.Col("SignerName", "string", func(r csr) any { return cell.Or(r.Spec.SignerName, cell.None) }),
		resource.Col("Requestor", "string", func(r csr) any { return r.Spec.Username }),
		resource.Col("RequestedDuration", "string", func(r csr) any {
			if r.Spec.ExpirationSeconds == nil {
				return cell.None
			}
			return duration.HumanDuration(time.Duration(*r.Spec.ExpirationSeconds) * time.Second)
		}),
		resource.Col("Condition", "string", func(r csr) any { return state(r) }),
	},
	Select: []resource.Field[csr]{{Label: "spec.signerName", Value: func(r csr) string { return r.Spec.SignerName }}},
}

func has(r csr, t certificatesv1.RequestConditionType) bool {
	for _, c := range r.Status.Conditions {
		if c.Type == t {
			return true
		}
	}
	return false
}

// state is the column CONDITION: what was decided, and what came of it.
func state(r csr) string {
	words := []string{"Pending"}
	switch {
	case has(r, certificatesv1.CertificateDenied):
		words[0] = "Denied"
	case has(r, certificatesv1.CertificateApproved):
		words[0] = "Approved"
	}
	if has(r, certificatesv1.CertificateFailed) {
		words = append(words, "Failed")
	}
	if len(r.Status.Certificate) > 0 {
		words = append(words, "Issued")
	}
	return strings.Join(words, ",")
}

// prepareRequest keeps the spec: a request that changed would not be what was approved.
func prepareRequest(r, old csr) {
	if old != nil {
		r.Spec = old.Spec
	}
}

// takeStatus restores what was decided: that is for those who approve. Where a decision came or went, it is left for
// validation to refuse.
func takeStatus(r, old csr) {
	for _, t := range decisions {
		now, was := indexes(r, t), indexes(old, t)
		if len(now) != len(was) {
			continue
		}
		for i := range now {
			r.Status.Conditions[now[i]] = old.Status.Conditions[was[i]]
		}
	}
	stampConditions(r, old)
}

// indexes says which of the conditions are of a type.
func indexes(r csr, t certificatesv1.RequestConditionType) (list []int) {
	for i, c := range r.Status.Conditions {
		if c.Type == t {
			list = append(list, i)
		}
	}
	return list
}

// takeApproval restores all but the conditions.
func takeApproval(r, old csr) {
	r.Spec, r.Status.Certificate = old.Spec, old.Status.Certificate
	stampConditions(r, old)
}

// stampConditions says of new conditions when they came, and keeps the times of old ones that did not change.
func stampConditions(r, old csr) {
	now := metav1.Now().Rfc3339Copy()
	for i := range r.Status.Conditions {
		c := &r.Status.Conditions[i]
		if c.LastUpdateTime.IsZero() {
			c.LastUpdateTime = now
		}
		if !c.LastTransitionTime.IsZero() {
			continue
		}
		c.LastTransitionTime = now
		for _, o := range old.Status.Conditions {
			if o.Type == c.Type && o.Status == c.Status && !o.LastTransitionTime.IsZero() {
				c.LastTransitionTime = o.LastTransitionTime
				break
			}
		}
	}
}
