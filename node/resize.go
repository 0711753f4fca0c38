package node

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kloop-dev/kloop/internal/coldsort"
	"github.com/kloop-dev/kloop/kinds/core"
)

// deferredEvery is the pause before a resize that found no room is tried again.
const deferredEvery = 5 * time.Second

// A resizer changes the resources of pods that run: it grants what the node has room for, and gives it to the runtime.
type resizer struct {
	*common
	alloc *allocations
	admit *admitter
}

// grant takes up what the pod's spec asks for now, if there is room beside what the others have been granted. again: ask anew then.
func (z *resizer) grant(pod *corev1.Pod) (again time.Duration, err error) {
	z.alloc.mu.Lock()
	a := z.alloc.load(pod)
	wants := !same(pod, a)
	if !wants {
		a.deferred, a.infeasible = "", ""
	}
	z.alloc.mu.Unlock()
	if !wants {
		return 0, nil
	}
	if why := z.hardware.fixed(pod); why != "" {
		z.infeasible(pod, why)
		return 0, nil
	}
	z.admit.mu.Lock()
	defer z.admit.mu.Unlock()
	pods := z.pods()
	r := z.room(pod, pods)
	for _, p := range pods {
		if r == nil && z.alloc.waits(p) && turn(p, pod) < 0 && z.room(p, pods) == nil {
			z.wake(p.Namespace, p.Name, "room for its resize") // it goes first
			return time.Second, nil
		}
	}
	z.alloc.mu.Lock()
	defer z.alloc.mu.Unlock()
	if r != nil {
		if a.deferred != r.Message {
			a.deferred = r.Message
			z.event(pod, "", corev1.EventTypeWarning, "ResizeDeferred", "Pod resize %s: %s", r.Reason, summary(pod, r.Message))
		}
		return deferredEvery, nil
	}
	a.grant(pod)
	a.deferred, a.failed, a.running = "", "", true
	z.event(pod, "", corev1.EventTypeNormal, "ResizeStarted", "Pod resize started: %s", summary(pod, ""))
	return 0, z.alloc.save(pod.UID)
}

// room says why the pod can't have what its spec asks for beside the others' grants; nil: it can. z.admit is locked.
func (z *resizer) room(pod *corev1.Pod, pods []*corev1.Pod) *Rejection {
	var others []*corev1.Pod
	for _, p := range pods {
		if p.UID != pod.UID && !core.Terminal(p) && (p.Status.StartTime != nil || z.admit.admitted[p.UID]) {
			others = append(others, z.alloc.granted(p))
		}
	}
	return Admit(pod, others, z.allocatable(), func(p *corev1.Pod) bool { return p.UID != pod.UID })
}

// turn orders pods that wait for room: by priority, then the guaranteed ones, then by the time that they wait.
func turn(a, b *corev1.Pod) int {
	key := func(p *corev1.Pod) (worth int, since int64) {
		since = math.MaxInt64
		if p.Status.QOSClass == corev1.PodQOSGuaranteed {
			worth = 1
		}
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodResizePending {
				since = c.LastTransitionTime.Unix()
			}
		}
		return worth, since
	}
	wa, sa := key(a)
	wb, sb := key(b)
	return cmp.Or(cmp.Compare(corev1helpers.PodPriority(b), corev1helpers.PodPriority(a)), cmp.Compare(wb, wa), cmp.Compare(sa, sb))
}

// infeasible notes that the pod can't be resized here at all, and says so once.
func (z *resizer) infeasible(pod *corev1.Pod, why string) {
	z.alloc.mu.Lock()
	defer z.alloc.mu.Unlock()
	if a := z.alloc.load(pod); a.infeasible != why {
		a.infeasible = why
		z.event(pod, "", corev1.EventTypeWarning, "ResizeInfeasible", "Pod resize Infeasible: %s", summary(pod, why))
	}
}

// summary tells a resize in the kubelet's form.
func summary(pod *corev1.Pod, failed string) string {
	type named struct {
		Name      string                      `json:"name"`
		Resources corev1.ResourceRequirements `json:"resources"`
	}
	s := struct {
		Containers []named `json:"containers"`
		Generation int64   `json:"generation"`
		Error      string  `json:"error,omitempty"`
	}{Generation: pod.Generation, Error: failed}
	for _, c := range pod.Spec.Containers {
		s.Containers = append(s.Containers, named{c.Name, c.Resources})
	}
	text, err := json.Marshal(s)
	if err != nil {
		return failed
	}
	return string(text)
}

// actuate gives running containers what has been granted: through the runtime, or by a restart where the container asks for one.
// pod is as it has been granted. restart are the containers to stop for it.
func (z *resizer) actuate(ctx context.Context, w world) (restart []kill, err error) {
	pod := w.pod
	had := z.alloc.hasPod(pod)
	whole := !equality.Semantic.DeepEqual(had, pod.Spec.Resources)
	var list []change
	for _, l := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range l {
			spec := &l[i]
			c := w.seen.newest(spec.Name)
			has, want := effective(had, z.alloc.has(pod, spec.Name)), effective(pod.Spec.Resources, spec.Resources)
			if c == nil || !c.running() || !differ(has, want) {
				continue
			}
			if mustRestart(spec, has, want) {
				restart = append(restart, kill{c: c, spec: spec, why: "Container " + spec.Name + " resize requires restart"})
				continue
			}
			list = append(list, change{spec, c, has, want})
		}
	}
	if len(list)+len(restart) > 0 || whole {
		z.begun(pod)
	}
	if len(list) > 0 || whole {
		err = z.update(ctx, w, had, list, len(restart) == 0)
	}
	z.conclude(pod, len(restart) > 0, err)
	return restart, err
}

// effective are a container's resources with the limits of the pod as a whole in the place of those that it has not (KEP-2837).
func effective(whole *corev1.ResourceRequirements, own corev1.ResourceRequirements) corev1.ResourceRequirements {
	if whole == nil {
		return own
	}
	own.Limits = maps.Clone(own.Limits)
	if own.Limits == nil {
		own.Limits = corev1.ResourceList{}
	}
	for _, n := range resizable {
		if q, ok := whole.Limits[n]; ok {
			if _, ok := own.Limits[n]; !ok {
				own.Limits[n] = q
			}
		}
	}
	return own
}

// A change is one container's way from what it has to what it was granted.
type change struct {
	spec      *corev1.Container
	c         *container
	has, want corev1.ResourceRequirements
}

// update changes the containers of a pod: what shrinks first, and the pod's own limits while they are the larger ones. had is the share of
// the pod as a whole before. last says that no container has to restart first for the pod to have what it was granted.
func (z *resizer) update(ctx context.Context, w world, had *corev1.ResourceRequirements, list []change, last bool) error {
	pod := w.pod
	if err := z.roomyPod(ctx, w, had); err != nil {
		return err
	}
	coldsort.StableFunc(list, func(x, y change) int { return growth(x) - growth(y) })
	for _, ch := range list {
		if err := z.roomy(ctx, ch); err != nil {
			return err
		}
	}
	if err := z.fit(w); err != nil {
		return err
	}
	for _, ch := range list {
		r := z.terms.container(pod, ch.spec)
		if _, err := z.cfg.Runtime.Containers.UpdateContainerResources(ctx, &cri.UpdateContainerResourcesRequest{ContainerId: ch.c.id,
			Linux: r}); err != nil {
			return fmt.Errorf("resize container %q: %w", ch.spec.Name, err)
		}
		if err := z.alloc.actuated(pod, ch.spec.Name, ch.spec.Resources); err != nil {
			return err
		}
	}
	if !last {
		return z.fit(w)
	}
	if err := z.cgroups.Set(z.cgroup(pod), z.terms.pod(pod)); err != nil {
		return err
	}
	return z.alloc.actuatedPod(pod)
}

// fit gives the pod's own cgroup what the pod was granted, and at least what those of its containers have that run: the kernel refuses a
// container more than its pod.
func (z *resizer) fit(w world) error {
	want := z.terms.pod(w.pod)
	l := loosest(want, podValues(z.alloc.inForce(w)))
	want.Shares, want.Quota, want.Memory = l.Shares, l.Quota, l.Memory
	return z.cgroups.Set(z.cgroup(w.pod), want)
}

// growth orders changes: memory that shrinks, then what stays, then what grows.
func growth(ch change) int {
	return ch.want.Limits.Memory().Cmp(*ch.has.Limits.Memory())
}

// roomy refuses to take memory that a container uses: the kernel would kill it.
func (z *resizer) roomy(ctx context.Context, ch change) error {
	want := ch.want.Limits.Memory().Value()
	if want == 0 || growth(ch) >= 0 {
		return nil
	}
	used, err := z.memory(ctx, ch.c)
	if err == nil && used >= uint64(want) {
		err = fmt.Errorf("cannot decrease memory limits: attempting to set container %q memory limit (%d) below current usage (%d)",
			ch.spec.Name, want, used)
	}
	return err
}

// roomyPod refuses to take memory from a pod as a whole that its containers use.
func (z *resizer) roomyPod(ctx context.Context, w world, had *corev1.ResourceRequirements) error {
	if w.pod.Spec.Resources == nil {
		return nil
	}
	want := w.pod.Spec.Resources.Limits.Memory().Value()
	if want == 0 || had != nil && !had.Limits.Memory().IsZero() && had.Limits.Memory().Value() <= want {
		return nil
	}
	var used uint64
	for _, l := range [][]corev1.Container{w.pod.Spec.InitContainers, w.pod.Spec.Containers} {
		for i := range l {
			c := w.seen.newest(l[i].Name)
			if c == nil || !c.running() {
				continue
			}
			n, err := z.memory(ctx, c)
			if err != nil {
				return err
			}
			used += n
		}
	}
	if used >= uint64(want) {
		return fmt.Errorf("cannot decrease memory limits: attempting to set pod memory limit (%d) below current usage (%d)", want, used)
	}
	return nil
}

// memory returns the use of a container, in bytes.
func (z *resizer) memory(ctx context.Context, c *container) (uint64, error) {
	st, err := z.cfg.Runtime.Containers.ContainerStats(ctx, &cri.ContainerStatsRequest{ContainerId: c.id})
	if err != nil {
		return 0, fmt.Errorf("read the memory that container %q uses: %w", c.name, err)
	}
	m := st.GetStats().GetMemory()
	return max(m.GetUsageBytes().GetValue(), m.GetWorkingSetBytes().GetValue()), nil
}

// begun notes that the pod has not yet what it was granted: an agent that starts anew finds it so.
func (z *resizer) begun(pod *corev1.Pod) {
	z.alloc.mu.Lock()
	defer z.alloc.mu.Unlock()
	z.alloc.load(pod).running = true
}

// conclude notes how far the pod's resize is, and says so once.
func (z *resizer) conclude(pod *corev1.Pod, busy bool, err error) {
	z.alloc.mu.Lock()
	defer z.alloc.mu.Unlock()
	a := z.alloc.load(pod)
	if err != nil {
		if a.failed != err.Error() {
			z.event(pod, "", corev1.EventTypeWarning, "ResizeError", "Pod resize error: %s", summary(pod, err.Error()))
		}
		a.failed, a.running = err.Error(), true
		return
	}
	if a.running && !busy {
		a.running = false
		z.event(pod, "", corev1.EventTypeNormal, "ResizeCompleted", "Pod resize completed: %s", summary(pod, ""))
	}
	a.failed = ""
}

// resizable are the resources that can change while a container runs.
var resizable = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

func differ(a, b corev1.ResourceRequirements) bool {
	return slices.ContainsFunc(resizable, func(n corev1.ResourceName) bool { return differIn(a, b, n) })
}

func differIn(a, b corev1.ResourceRequirements, n corev1.ResourceName) bool {
	x, y := a.Requests[n], b.Requests[n]
	u, v := a.Limits[n], b.Limits[n]
	return x.Cmp(y) != 0 || u.Cmp(v) != 0
}

// mustRestart says that the container wants to be started anew for one of the resources that change.
func mustRestart(c *corev1.Container, has, want corev1.ResourceRequirements) bool {
	return slices.ContainsFunc(c.ResizePolicy, func(p corev1.ContainerResizePolicy) bool {
		return p.RestartPolicy == corev1.RestartContainer && differIn(has, want, p.ResourceName)
	})
}

// conditions tells of a resize that waits for room, and of one that is under way.
//
// Unlike Kubernetes, only its events tell of one that is done by the time the pod is reported.
func (l *allocations) conditions(w world, st *corev1.PodStatus) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.load(w.pod)
	tell := func(t corev1.PodConditionType, is bool, reason, message string, gen int64) {
		if is {
			sinceWhen(st, t, w.now, func() { setCondition(st, t, true, reason, message, gen, w.now) })
			return
		}
		st.Conditions = slices.DeleteFunc(st.Conditions, func(c corev1.PodCondition) bool { return c.Type == t })
	}
	pending, text := corev1.PodReasonDeferred, a.deferred
	if a.infeasible != "" {
		pending, text = corev1.PodReasonInfeasible, a.infeasible
	}
	tell(corev1.PodResizePending, text != "", pending, text, w.pod.Generation)
	reason := ""
	if a.failed != "" {
		reason = corev1.PodReasonError
	}
	tell(corev1.PodResizeInProgress, a.running, reason, a.failed, a.Generation)
}

// sinceWhen has a condition of a resize tell when it last said something new, and since when it has had its reason.
func sinceWhen(st *corev1.PodStatus, t corev1.PodConditionType, now time.Time, set func()) {
	at := func() int {
		return slices.IndexFunc(st.Conditions, func(c corev1.PodCondition) bool { return c.Type == t })
	}
	was := corev1.PodCondition{}
	if i := at(); i >= 0 {
		was = st.Conditions[i]
	}
	set()
	c := &st.Conditions[at()]
	c.LastProbeTime = was.LastProbeTime
	if c.Reason != was.Reason || c.Message != was.Message || c.ObservedGeneration != was.ObservedGeneration {
		c.LastProbeTime = seconds(now)
	}
	if c.Reason != was.Reason {
		c.LastTransitionTime = seconds(now)
	}
}
