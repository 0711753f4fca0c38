package health

import (
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/internal/corefile"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// WantsMore says that an autoscaler would have more replicas than it may.
func WantsMore(h *autoscalingv2.HorizontalPodAutoscaler) *autoscalingv2.HorizontalPodAutoscalerCondition {
	for i, c := range h.Status.Conditions {
		if c.Type == autoscalingv2.ScalingLimited && c.Status == corev1.ConditionTrue && c.Reason == "TooManyReplicas" {
			return &h.Status.Conditions[i]
		}
	}
	return nil
}

// configMapHealth finds a gap in the ConfigMap by which people add to the cluster DNS, when kloop serves that and does not understand it.
func configMapHealth(w *converge.World, m *corev1.ConfigMap) converge.Health {
	if m.Namespace != corefile.Namespace || m.Name != corefile.Name {
		return converge.Health{}
	}
	s := resource.Get(w.Read, kinds.Services, corefile.Namespace, "kube-dns")
	if s == nil || s.Labels["app.kubernetes.io/managed-by"] != "kloop" || len(s.Spec.Selector) > 0 {
		return converge.Health{} // somebody else's CoreDNS reads it
	}
	_, faults := corefile.Parse(m.Data)
	if len(faults) == 0 {
		return converge.Health{}
	}
	return converge.Health{Says: "has " + words.Count(len(faults), "fault") + " that the cluster DNS leaves out",
		Want: "data that kloop's DNS knows",
		Have: corefile.Summary(faults)}
}

func autoscalerHealth(_ *converge.World, h *autoscalingv2.HorizontalPodAutoscaler) converge.Health {
	for _, c := range h.Status.Conditions {
		if c.Status != corev1.ConditionFalse || c.Reason == "ScalingDisabled" || c.Type == autoscalingv2.ScalingLimited {
			continue
		}
		says := "can't compute how many replicas there should be"
		if c.Type == autoscalingv2.AbleToScale {
			says = "can't scale its target"
		}
		return converge.Health{Says: says, Want: fmt.Sprintf("status.conditions[%s]=True", c.Type),
			Have: fmt.Sprintf("status.conditions[%s]=False", c.Type), Since: c.LastTransitionTime.Time}
	}
	if c := WantsMore(h); c != nil {
		return converge.Health{Says: "wants more replicas than it may have", Want: "status.conditions[ScalingLimited]=False",
			Have: "status.conditions[ScalingLimited]=True", Since: c.LastTransitionTime.Time}
	}
	if len(h.Status.Conditions) == 0 {
		return converge.Health{Says: "was never looked at", Want: "status.conditions[AbleToScale]=True", Have: "status.conditions empty",
			Since: h.CreationTimestamp.Time}
	}
	return converge.Health{}
}

func csrHealth(_ *converge.World, r *certificatesv1.CertificateSigningRequest) converge.Health {
	var approved bool
	for _, c := range r.Status.Conditions {
		switch c.Type {
		case certificatesv1.CertificateDenied:
			return converge.Health{Says: "was denied", Want: "status.certificate", Have: "status.conditions[Denied]=True",
				Since: c.LastTransitionTime.Time}
		case certificatesv1.CertificateFailed:
			return converge.Health{Says: "could not be signed", Want: "status.certificate", Have: "status.conditions[Failed]=True",
				Since: c.LastTransitionTime.Time}
		case certificatesv1.CertificateApproved:
			approved = true
		}
	}
	switch {
	case !approved:
		return converge.Health{Says: "is not approved", Want: "status.conditions[Approved]=True", Have: "no approval",
			Since: r.CreationTimestamp.Time}
	case len(r.Status.Certificate) == 0:
		return converge.Health{Says: "is approved and not signed", Want: "status.certificate set", Have: "status.certificate empty"}
	}
	return converge.Health{}
}
