package pods

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

// Pods completes the kind.
var Pods = resource.Complete(core.Pods, func(d *resource.Def[*corev1.Pod]) {
	d.Quirks = resource.Quirks{PartsAsNew: true,
		DeleteReturnsObject: true, StatusResets: []string{"metadata.deletionTimestamp", "metadata.ownerReferences"}}
	d.Generation = true
	d.Gated = resource.Gated[*corev1.Pod]{Drop: resource.Serving(dropFromPod),
		Validate: resource.Serving(validatePod), ValidateStatus: resource.Serving(validatePodStatus),
		Default: func(on *features.Set, p *corev1.Pod) { podspec.DefaultWhole(on, &p.Spec) }}
	d.Default, d.Prepare = defaultPod, resource.Serving(preparePod)
	d.PrepareStatus, d.Grace = resource.Serving(preparePodStatus), podGrace
	d.Warn = resource.Serving(warnPod)
	d.Parts = []resource.Part[*corev1.Pod]{
		{Name: "ephemeralcontainers", Take: resource.Serving(takeEphemeralContainers),
			Validate: resource.Serving(validateEphemeralContainers)},
		{Name: "resize", Take: resource.Serving(takeResize), Validate: resource.Serving(validateResize)},
	}
	d.Columns, d.Marks, d.Share = podColumns, podMarks, sharePod
})

func defaultPod(p *corev1.Pod) {
	podspec.DefaultPod(&p.Spec)
	if t := p.Spec.TerminationGracePeriodSeconds; *t < 0 { // templates keep what they say
		p.Spec.TerminationGracePeriodSeconds = new(int64(1))
	}
	defaultPodIPs(&p.Status)
}

// defaultPodIPs keeps the first of the addresses and the old single field the same; the latter decides.
func defaultPodIPs(s *corev1.PodStatus) {
	switch {
	case s.PodIP == "" && len(s.PodIPs) > 0:
		s.PodIP = s.PodIPs[0].IP
	case s.PodIP != "" && (len(s.PodIPs) == 0 || s.PodIPs[0].IP != s.PodIP):
		s.PodIPs = []corev1.PodIP{{IP: s.PodIP}}
	}
}

// dropFromPod drops what features that are off would use, and completes the resources of the pod as a whole.
func dropFromPod(on *features.Set, p, old *corev1.Pod) {
	var before *corev1.PodSpec
	if old != nil {
		before = &old.Spec
	}
	podspec.DropDisabled(on, &p.Spec, before)
	podspec.DropAnnotations(&p.Annotations)
	podspec.CompleteWhole(on, &p.Spec, before)
	if old == nil && podspec.AsksNothing(on, &p.Spec) {
		p.Status.QOSClass = corev1.PodQOSBestEffort
	}
	if !on.On("CSIVolumeHealth") && (old == nil || old.Status.VolumeHealth == nil) {
		p.Status.VolumeHealth = nil
	}
	if !on.On("DRANodeAllocatableResources") && (old == nil || old.Status.NodeAllocatableResourceClaimStatuses == nil) {
		p.Status.NodeAllocatableResourceClaimStatuses = nil
	}
	if old != nil && on.AtLeast(37) {
		keepClaims(&p.Status, &old.Status)
	}
}

// keepClaims keeps what claims the pod has where the writer of a status does not say it: older agents know no such fields.
func keepClaims(s, old *corev1.PodStatus) {
	if s.ResourceClaimStatuses == nil {
		s.ResourceClaimStatuses = old.ResourceClaimStatuses
	}
	if s.ExtendedResourceClaimStatus == nil {
		s.ExtendedResourceClaimStatus = old.ExtendedResourceClaimStatus
	}
	if s.NodeAllocatableResourceClaimStatuses == nil {
		s.NodeAllocatableResourceClaimStatuses = old.NodeAllocatableResourceClaimStatuses
	}
}

// preparePod makes the status of a new pod, whatever the client sent: QoS class, and that gates hold up scheduling (KEP-3521).
func preparePod(p, old *corev1.Pod) {
	if old != nil {
		return
	}
	p.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: podspec.QOS(&p.Spec)}
	if len(p.Spec.SchedulingGates) > 0 {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
			LastTransitionTime: metav1.Now().Rfc3339Copy(), Reason: corev1.PodReasonSchedulingGated,
			Message: "Scheduling is blocked due to non-empty scheduling gates"}}
	}
	podspec.MergeMatchLabelKeys(&p.Spec, p.Labels)
	podspec.ConfineByAnnotation(p.Annotations, &p.Spec)
}

// preparePodStatus keeps what node agents may not touch.
func preparePodStatus(p, old *corev1.Pod) {
	p.DeletionTimestamp = old.DeletionTimestamp
	rule.FillZero(&p.Status.QOSClass, old.Status.QOSClass)
	keepGenerations(&p.Status, &old.Status)
}

// keepGenerations keeps what generation of the pod was seen where the writer does not say it anew.
func keepGenerations(s, old *corev1.PodStatus) {
	rule.FillZero(&s.ObservedGeneration, old.ObservedGeneration)
	was := map[corev1.PodConditionType][]int64{} // there may be several of a type
	for _, c := range old.Conditions {
		was[c.Type] = append(was[c.Type], c.ObservedGeneration)
	}
	for i := range s.Conditions {
		c := &s.Conditions[i]
		if list := was[c.Type]; len(list) > 0 {
			rule.FillZero(&c.ObservedGeneration, list[0])
			was[c.Type] = list[1:]
		}
	}
}

// takeEphemeralContainers lets nothing but the ephemeral containers change.
func takeEphemeralContainers(p, old *corev1.Pod) {
	list := p.Spec.EphemeralContainers
	metav1.ResetObjectMetaForStatus(p, old)
	p.Spec, p.Status = *old.Spec.DeepCopy(), old.Status
	p.Spec.EphemeralContainers = list
}

// podGrace leaves a pod its own time to end, unless no node holds it or it has ended.
func podGrace(p *corev1.Pod, asked *int64) int64 {
	var period int64
	switch {
	case p.Spec.NodeName == "", p.Status.Phase == corev1.PodFailed, p.Status.Phase == corev1.PodSucceeded:
		return 0
	case asked != nil:
		period = *asked
	case p.Spec.TerminationGracePeriodSeconds != nil:
		period = *p.Spec.TerminationGracePeriodSeconds
	}
	if period < 0 {
		return 1
	}
	return period
}
