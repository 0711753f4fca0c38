package simulation

import (
	"slices"
	"strconv"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

// rules are the promises that the cluster has to keep, and since when.
type rules struct {
	since   map[string]time.Time // by kind and name: what stands
	evicted string               // the pod whose eviction is asked for
}

// of tells old and new object of a change by their type; nil: there is none.
func of[T resource.Object](x view.Change) (was, is T) {
	if x.Old != nil {
		was, _ = x.Old.Object.(T)
	}
	if x.New != nil {
		is, _ = x.New.Object.(T)
	}
	return was, is
}

// stand notes since when a rule stands.
func (c *checks) stand(x view.Change) {
	switch {
	case x.Old == nil:
		c.rules.since[x.Kind.Info().Singular+"/"+x.New.Object.GetName()] = time.Now()
	case x.New == nil:
		delete(c.rules.since, x.Kind.Info().Singular+"/"+x.Old.Object.GetName())
	}
}

// stands says that a rule has stood for so long that nobody can have been let past it since before.
func (c *checks) stands(rule string) bool {
	at, ok := c.rules.since[rule]
	return ok && time.Since(at) > stale
}

// ruled checks that webhooks and policies were asked.
func (c *checks) ruled(m moment, x view.Change) {
	obj := object(x.New)
	if obj == nil || obj.GetNamespace() != ns {
		return
	}
	switch o := obj.(type) {
	case *corev1.Pod:
		if x.Old == nil && c.stands("mutatingwebhookconfiguration/mark") && o.Annotations[hookedKey] == "" && failsClosed(m) {
			c.w.fail("%s made pod %s past the webhook", c.mover, o.Name)
		}
	case *corev1.ConfigMap:
		if c.stands("validatingwebhookconfiguration/check") && o.Labels[forbiddenKey] != "" && x.Old == nil {
			c.w.fail("%s made ConfigMap %s, which the webhook forbids", c.mover, o.Name)
		}
	case *appsv1.Deployment:
		if c.stands("validatingadmissionpolicybinding/size") && *o.Spec.Replicas > mostReplicas {
			c.w.fail("%s gave deployment %s %d replicas, which the policy forbids", c.mover, o.Name, *o.Spec.Replicas)
		}
	}
}

func failsClosed(m moment) bool {
	cfg := resource.Get(m.snap, kinds.MutatingWebhookConfigurations, "", "mark")
	return cfg != nil && *cfg.Webhooks[0].FailurePolicy == admissionregistrationv1.Fail
}

// overdue says that a pod should have been gone twice over: quotas charge nothing for it any more.
func overdue(p *corev1.Pod) bool {
	if p.DeletionTimestamp == nil || p.DeletionGracePeriodSeconds == nil {
		return false
	}
	return time.Since(p.DeletionTimestamp.Time) > time.Duration(*p.DeletionGracePeriodSeconds)*time.Second
}

// quota checks that a namespace has no more than it may. What is created is charged first and written then; in between
// the loop that counts does not see it. It waits half a second before it lowers a sum, so this holds while writes are not
// later than that, and the loop that counts does not lag behind or misread the time.
func (c *checks) quota(m moment, p *corev1.Pod) {
	if !c.w.exact {
		return
	}
	for _, q := range resource.List(m.snap, kinds.ResourceQuotas, p.Namespace) {
		var pods, cpu int64
		for _, o := range resource.List(m.snap, kinds.Pods, p.Namespace) {
			if over(o) || overdue(o) {
				continue
			}
			pods++
			cpu += asks(o)
		}
		if mostPods, mostCPU := int64(c.limit(q.UID).most()), int64(c.limit(q.UID+cpuOf).most()); pods > mostPods || cpu > mostCPU {
			c.w.fail("%s: namespace %s has %d pods that ask for %dm CPU; its quota is %d and %dm", c.mover, p.Namespace, pods, cpu,
				mostPods, mostCPU)
		}
	}
}

// cpuOf marks the limit of CPU beside that of pods.
const cpuOf types.UID = "/cpu"

func asks(p *corev1.Pod) (cpu int64) {
	for i := range p.Spec.Containers {
		cpu += p.Spec.Containers[i].Resources.Requests.Cpu().MilliValue()
	}
	return cpu
}

func (c *checks) quotaSet(x view.Change) {
	if _, q := of[*corev1.ResourceQuota](x); q != nil {
		c.limit(q.UID).ask(int32(q.Spec.Hard.Pods().Value()))
		cpu := q.Spec.Hard[corev1.ResourceRequestsCPU]
		c.limit(q.UID + cpuOf).ask(int32(cpu.MilliValue()))
	}
}

// bounds checks that an autoscaler keeps between its bounds.
func (c *checks) bounds(m moment, x view.Change) {
	was, is := of[*appsv1.Deployment](x)
	if c.mover != "horizontal-pod-autoscaler" || was == nil || is == nil || *was.Spec.Replicas == *is.Spec.Replicas {
		return
	}
	var h *autoscalingv2.HorizontalPodAutoscaler
	if h = resource.Get(m.snap, kinds.HorizontalPodAutoscalers, is.Namespace, is.Name); h == nil {
		return
	}
	if n := *is.Spec.Replicas; n < *h.Spec.MinReplicas || n > h.Spec.MaxReplicas {
		c.w.fail("the autoscaler gives %s %d replicas; it may have %d to %d", is.Name, n, *h.Spec.MinReplicas, h.Spec.MaxReplicas)
	}
}

// budget checks that what lets pods go takes one from the budget each time, and that nobody has what is not there.
func (c *checks) budget(x view.Change) {
	was, is := of[*policyv1.PodDisruptionBudget](x)
	if is == nil {
		return
	}
	if is.Status.DisruptionsAllowed < 0 || is.Status.DisruptionsAllowed > max(0, is.Status.CurrentHealthy-is.Status.DesiredHealthy) {
		c.w.fail("%s: budget %s lets %d go with %d healthy of %d", c.mover, is.Name, is.Status.DisruptionsAllowed,
			is.Status.CurrentHealthy, is.Status.DesiredHealthy)
	}
	if was == nil || c.mover == "disruption" || c.rules.evicted == "" {
		return
	}
	_, known := is.Status.DisruptedPods[c.rules.evicted]
	if is.Status.DisruptionsAllowed != was.Status.DisruptionsAllowed-1 || !known {
		c.w.fail("%s: to evict %s, budget %s went from %d to %d", c.mover, c.rules.evicted, is.Name, was.Status.DisruptionsAllowed,
			is.Status.DisruptionsAllowed)
	}
}

// evicted checks that a pod that was well was charged to its budget before it was evicted.
func (c *checks) evicted(m moment, was, is *corev1.Pod) {
	if was == nil || was.Name != c.rules.evicted || c.mover != "user" || was.DeletionTimestamp != nil ||
		is != nil && is.DeletionTimestamp == nil ||
		!isReady(was) || !active(was) {
		return
	}
	for _, b := range resource.List(m.snap, kinds.PodDisruptionBudgets, was.Namespace) {
		s, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil || !s.Matches(labels.Set(was.Labels)) {
			continue
		}
		if _, known := b.Status.DisruptedPods[was.Name]; !known {
			c.w.fail("pod %s is evicted, and budget %s does not know", was.Name, b.Name)
		}
	}
}

// preempted checks that nobody has to make room for those who are not more urgent.
func (c *checks) preempted(was, is *corev1.Pod) {
	if c.mover == "scheduler" && was != nil && was.Spec.PriorityClassName == urgent && was.DeletionTimestamp == nil &&
		(is == nil || is.DeletionTimestamp != nil) {
		c.w.fail("the scheduler removes pod %s, and none is more urgent", was.Name)
	}
}

// device checks that no device is given twice, and that none is taken away from a pod that may use it.
func (c *checks) device(m moment, x view.Change) {
	was, is := of[*resourcev1.ResourceClaim](x)
	if was != nil && was.Status.Allocation != nil && (is == nil || is.Status.Allocation == nil) {
		for _, p := range resource.List(m.snap, kinds.Pods, was.Namespace) {
			if claimed(p, was.Name) && p.Spec.NodeName != "" && !over(p) && p.Status.Phase != corev1.PodPending {
				c.w.fail("%s takes devices away from pod %s", c.mover, p.Name)
			}
		}
	}
	if is == nil || is.Status.Allocation == nil {
		return
	}
	for _, o := range resource.List(m.snap, kinds.ResourceClaims, "") {
		if o.UID == is.UID || o.Status.Allocation == nil {
			continue
		}
		for _, r := range o.Status.Allocation.Devices.Results {
			if slices.ContainsFunc(is.Status.Allocation.Devices.Results, func(s resourcev1.DeviceRequestAllocationResult) bool {
				return s.Driver == r.Driver && s.Pool == r.Pool && s.Device == r.Device
			}) {
				c.w.fail("%s: claims %s and %s both have device %s of %s", c.mover, o.Name, is.Name, r.Device, r.Pool)
			}
		}
	}
}

func claimed(p *corev1.Pod, claim string) bool {
	if e := p.Status.ExtendedResourceClaimStatus; e != nil && e.ResourceClaimName == claim {
		return true
	}
	return slices.ContainsFunc(p.Status.ResourceClaimStatuses, func(s corev1.PodResourceClaimStatus) bool {
		return s.ResourceClaimName != nil && *s.ResourceClaimName == claim
	})
}

// equipped checks that a pod that is bound has its devices there.
func (c *checks) equipped(m moment, p *corev1.Pod) {
	var claims []string
	for _, s := range p.Status.ResourceClaimStatuses {
		if s.ResourceClaimName != nil {
			claims = append(claims, *s.ResourceClaimName)
		}
	}
	if asked := p.Spec.Containers[0].Resources.Requests[deviceResource]; !asked.IsZero() {
		told := p.Status.ExtendedResourceClaimStatus
		if told == nil {
			told = &corev1.PodExtendedResourceClaimStatus{}
		}
		claims = append(claims, told.ResourceClaimName)
	}
	for _, name := range claims {
		o := resource.Get(m.snap, kinds.ResourceClaims, p.Namespace, name)
		if o == nil || o.Status.Allocation == nil || o.Status.Allocation.Devices.Results[0].Pool != p.Spec.NodeName ||
			!slices.ContainsFunc(o.Status.ReservedFor, func(r resourcev1.ResourceClaimConsumerReference) bool { return r.UID == p.UID }) {
			c.w.fail("pod %s is bound to %s without its devices", p.Name, p.Spec.NodeName)
		}
	}
}

// deviceResource is the resource of a pod that wants a device and makes no claim of its own.
const deviceResource = "proof.dev/gpu"

// renamed checks that a pod that was told its claim is not told another as long as that one is there.
func (c *checks) renamed(m moment, x view.Change) {
	was, is := of[*corev1.Pod](x)
	if was == nil || is == nil {
		return
	}
	for _, s := range was.Status.ResourceClaimStatuses {
		if s.ResourceClaimName != nil && !claimed(is, *s.ResourceClaimName) && resource.Get(m.snap, kinds.ResourceClaims, was.Namespace,
			*s.ResourceClaimName) != nil {
			c.w.fail("%s: pod %s loses its claim %s", c.mover, was.Name, *s.ResourceClaimName)
		}
	}
}

// condemned checks that a pod that a stateful set has no place for any more is not removed before its claim is to go with
// it. The claim of a pod that others had removed by then stays, as in Kubernetes.
func (c *checks) condemned(m moment, x view.Change) {
	was, is := of[*corev1.Pod](x)
	if c.mover != "statefulset" || was == nil || was.DeletionTimestamp != nil || is != nil && is.DeletionTimestamp == nil {
		return
	}
	ref := metav1.GetControllerOfNoCopy(was)
	if ref == nil {
		return
	}
	set := resource.Get(m.snap, kinds.StatefulSets, was.Namespace, ref.Name)
	if set == nil || set.UID != ref.UID || !shrinks(set) || ordinal(was.Name) < int(*set.Spec.Replicas) {
		return
	}
	if over(was) || set.Status.ObservedGeneration < set.Generation-1 ||
		was.Labels[appsv1.StatefulSetRevisionLabel] != set.Status.UpdateRevision {
		return // it is replaced, by a loop that does not know yet that its place is to go
	}
	claim := resource.Get(m.snap, kinds.PersistentVolumeClaims, was.Namespace, "data-"+was.Name)
	if claim != nil && claim.DeletionTimestamp == nil &&
		!slices.ContainsFunc(claim.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == was.UID }) {
		c.w.fail("pod %s is removed, and its claim does not go with it", was.Name)
	}
}

// shrinks says whether the set's claims go with the places of their pods.
func shrinks(s *appsv1.StatefulSet) bool {
	p := s.Spec.PersistentVolumeClaimRetentionPolicy
	return p != nil && p.WhenScaled == appsv1.DeletePersistentVolumeClaimRetentionPolicyType && len(s.Spec.VolumeClaimTemplates) > 0
}

// ordinal is the place in the set that a pod's or claim's name says.
func ordinal(name string) int {
	n, err := strconv.Atoi(name[strings.LastIndex(name, "-")+1:])
	if err != nil {
		return -1
	}
	return n
}

// collected checks that nothing goes whose owner lives, and that owners wait for those they must wait for.
func (c *checks) collected(m moment, x view.Change) {
	was, is := object(x.Old), object(x.New)
	if was == nil {
		return
	}
	if c.mover == "garbage-collector" && was.GetDeletionTimestamp() == nil && (is == nil || is.GetDeletionTimestamp() != nil) {
		for _, ref := range was.GetOwnerReferences() {
			if owner := found(c.w.set, m.snap, was.GetNamespace(), &ref); owner != nil && !waitsFor(owner) {
				c.w.fail("%s %s is collected, and its owner %s lives", x.Kind.Info().Singular, was.GetName(), ref.Name)
			}
		}
	}
	if is != nil || x.Kind != resource.Kind(kinds.ConfigMaps) {
		return
	}
	foreground, orphan := waitsFor(was), slices.Contains(was.GetFinalizers(), metav1.FinalizerOrphanDependents)
	for _, o := range resource.List(m.snap, kinds.ConfigMaps, was.GetNamespace()) {
		for _, ref := range o.OwnerReferences {
			if ref.UID == was.GetUID() && (orphan || foreground && ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion) {
				c.w.fail("%s: ConfigMap %s went before %s, which it had to see to", c.mover, was.GetName(), o.Name)
			}
		}
	}
}

func waitsFor(owner metav1.Object) bool {
	return owner.GetDeletionTimestamp() != nil && slices.Contains(owner.GetFinalizers(), metav1.FinalizerDeleteDependents)
}

// attached checks that a volume for one node is attached to one.
func (c *checks) attached(m moment, x view.Change) {
	was, is := of[*storagev1.VolumeAttachment](x)
	if was != nil || is == nil {
		return
	}
	for _, o := range resource.List(m.snap, kinds.VolumeAttachments, "") {
		if o.UID != is.UID && *o.Spec.Source.PersistentVolumeName == *is.Spec.Source.PersistentVolumeName {
			c.w.fail("volume %s is to be attached to %s and %s", *is.Spec.Source.PersistentVolumeName, o.Spec.NodeName, is.Spec.NodeName)
		}
	}
}

// cronJob checks that its clock does not run backwards.
func (c *checks) cronJob(x view.Change) {
	was, is := of[*batchv1.CronJob](x)
	if was == nil || is == nil || was.Status.LastScheduleTime == nil {
		return
	}
	if is.Status.LastScheduleTime == nil || is.Status.LastScheduleTime.Before(was.Status.LastScheduleTime) {
		c.w.fail("cron job %s was last due at %s, and now at %s", is.Name, was.Status.LastScheduleTime, is.Status.LastScheduleTime)
	}
}

// cronRun checks that a run waits for the last one, where it has to.
func (c *checks) cronRun(m moment, j *batchv1.Job) {
	ref := metav1.GetControllerOfNoCopy(j)
	if ref == nil || ref.Kind != "CronJob" || c.mover != "cronjob" || c.doubtful(c.mover) {
		return
	}
	cron := resource.Get(m.snap, kinds.CronJobs, j.Namespace, ref.Name)
	if cron == nil || cron.Spec.ConcurrencyPolicy == batchv1.AllowConcurrent {
		return
	}
	for _, o := range resource.List(m.snap, kinds.Jobs, j.Namespace) {
		if r := metav1.GetControllerOfNoCopy(o); r != nil && r.UID == ref.UID && o.UID != j.UID && ended(o) == "" && o.DeletionTimestamp == nil {
			c.w.fail("cron job %s runs %s beside %s", cron.Name, j.Name, o.Name)
		}
	}
}

// ended returns how a job ended; "": it has not.
func ended(j *batchv1.Job) (done string) {
	for _, x := range j.Status.Conditions {
		if x.Status == corev1.ConditionTrue && (x.Type == batchv1.JobComplete || x.Type == batchv1.JobFailed) {
			done += string(x.Type)
		}
	}
	return done
}
