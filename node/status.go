package node

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// podStatus is the pod's status as the runtime shows it. It is pure but for the files of last words.
func (a *Agent) podStatus(w world) corev1.PodStatus {
	pod := w.pod
	st := *pod.Status.DeepCopy()
	st.ObservedGeneration = pod.Generation
	st.HostIP, st.HostIPs = a.cfg.Address.String(), []corev1.HostIP{{IP: a.cfg.Address.String()}}
	if st.StartTime == nil {
		now := metav1.NewTime(w.now)
		st.StartTime = &now
	}
	a.addresses(w, &st)
	st.InitContainerStatuses = a.containerStatuses(w, pod.Spec.InitContainers, true)
	st.ContainerStatuses = a.containerStatuses(w, pod.Spec.Containers, false)
	st.EphemeralContainerStatuses = a.containerStatuses(w, ephemeral(pod), false)
	if !finished(pod) {
		a.settle(w, &st)
	}
	conditions(w, &st)
	return st
}

// settle sets the phase. A pod has not ended while a process of it runs: a sidecar may, after the main containers;
// and when it has, nothing waits for a restart any more.
func (a *Agent) settle(w world, st *corev1.PodStatus) {
	pod := *w.pod
	was := pod.Status.Phase
	pod.Status.Phase = phase(w.pod, *st)
	if st.Phase = pod.Status.Phase; !finished(&pod) {
		return
	}
	if w.seen.anyRunning() {
		if st.Phase = corev1.PodRunning; was == corev1.PodPending || was == "" && !initialized(w.pod, st) {
			st.Phase = corev1.PodPending
		}
		return
	}
	w.pod = &pod
	st.InitContainerStatuses = a.containerStatuses(w, pod.Spec.InitContainers, true)
	st.ContainerStatuses = a.containerStatuses(w, pod.Spec.Containers, false)
}

func (a *Agent) addresses(w world, st *corev1.PodStatus) {
	var ips []string
	if box := w.seen.box(w.pod.UID); box != nil {
		ips = box.ips
		if w.pod.Spec.HostNetwork {
			ips = []string{a.cfg.Address.String()}
		}
	}
	if len(ips) == 0 {
		return // the last known address stays: the containers' end does not undo it
	}
	st.PodIP, st.PodIPs = ips[0], nil
	for _, ip := range ips {
		st.PodIPs = append(st.PodIPs, corev1.PodIP{IP: ip})
	}
}

// containerStatuses are the statuses of the spec's containers, in its order.
func (a *Agent) containerStatuses(w world, specs []corev1.Container, init bool) (list []corev1.ContainerStatus) {
	for i := range specs {
		list = append(list, a.containerStatus(w, &specs[i], init))
	}
	return list
}

// ephemeral are the pod's ephemeral containers as containers.
func ephemeral(pod *corev1.Pod) (list []corev1.Container) {
	for i := range pod.Spec.EphemeralContainers {
		list = append(list, corev1.Container(pod.Spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
	return list
}

func (a *Agent) containerStatus(w world, spec *corev1.Container, init bool) corev1.ContainerStatus {
	s := corev1.ContainerStatus{Name: spec.Name, Image: spec.Image, Started: new(bool)}
	all := w.seen.of(spec.Name)
	if len(all) == 0 {
		s.State.Waiting = a.whyWaiting(w, spec, init)
		if old := previous(w.pod, spec.Name); old != nil && (old.State.Terminated != nil || old.RestartCount > 0) && finished(w.pod) {
			return *old // its container is cleaned up; the status is all that is left of it
		}
		return s
	}
	c := all[0]
	s.RestartCount, s.ContainerID, s.Image, s.ImageID = c.restarts, "containerd://"+c.id, c.image, c.imageRef
	if s.Image == "" || strings.HasPrefix(s.Image, "sha256:") {
		s.Image = spec.Image
	}
	s.Resources = allocated(spec)
	s.AllocatedResources = spec.Resources.Requests
	s.VolumeMounts = mountStatuses(spec)
	if len(all) > 1 {
		s.LastTerminationState.Terminated = a.terminated(w.pod, all[1])
	}
	switch {
	case c.running():
		p := w.probed(spec.Name)
		s.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(c.began)}
		*s.Started, s.Ready = p.started, p.started && p.ready && (!init || sidecar(spec))
	case c.state == cri.ContainerState_CONTAINER_CREATED:
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
	default:
		a.ended(w, spec, c, &s, init)
	}
	return s
}

// ended tells of a container that stopped: as terminated, or as waiting for its next start.
func (a *Agent) ended(w world, spec *corev1.Container, c *container, s *corev1.ContainerStatus, init bool) {
	term := a.terminated(w.pod, c)
	policy := w.pod.Spec.RestartPolicy
	if sidecar(spec) {
		policy = corev1.RestartPolicyAlways
	}
	again := restarts(policy, c)
	if init && !sidecar(spec) {
		again = c.exit != 0 && policy != corev1.RestartPolicyNever
		s.Ready = c.exit == 0
	}
	left, length := a.backoff.left(w.pod.UID, spec.Name, w.now)
	if !again || left <= 0 || w.pod.DeletionTimestamp != nil || finished(w.pod) {
		s.State.Terminated = term
		return
	}
	s.LastTerminationState.Terminated = term
	s.State.Waiting = &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: fmt.Sprintf(
		"back-off %v restarting failed container=%s pod=%s_%s(%s)", length, spec.Name, w.pod.Name, w.pod.Namespace, w.pod.UID)}
}

func (a *Agent) whyWaiting(w world, spec *corev1.Container, init bool) *corev1.ContainerStateWaiting {
	if r, ok := a.images.refusal(w.pod.UID, spec.Name); ok {
		return &corev1.ContainerStateWaiting{Reason: r.reason, Message: r.message}
	}
	reason := "ContainerCreating"
	if len(w.pod.Spec.InitContainers) > 0 {
		reason = "PodInitializing"
		if init && w.seen.box(w.pod.UID) == nil {
			reason = "PodInitializing"
		}
	}
	return &corev1.ContainerStateWaiting{Reason: reason}
}

func previous(pod *corev1.Pod, name string) *corev1.ContainerStatus {
	for _, list := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses, pod.Status.EphemeralContainerStatuses} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

func (a *Agent) terminated(pod *corev1.Pod, c *container) *corev1.ContainerStateTerminated {
	t := &corev1.ContainerStateTerminated{ExitCode: c.exit, Reason: c.reason, StartedAt: metav1.NewTime(c.began),
		FinishedAt: metav1.NewTime(c.done), ContainerID: "containerd://" + c.id, Message: a.words(pod, c)}
	if t.Reason == "" {
		t.Reason = "Error"
		if c.exit == 0 {
			t.Reason = "Completed"
		}
	}
	if t.Message == "" && c.message != "" {
		t.Message = c.message
	}
	return t
}

// The limits of last words (API doc of terminationMessagePath), and of the log tail that may stand in for them.
const (
	maxWords    = 4096
	maxTail     = 2048
	maxTailLine = 80
)

// words is what the container left in its termination message file; or the end of its log, if it failed without
// a word and the policy says so.
func (a *Agent) words(pod *corev1.Pod, c *container) string {
	text, err := os.ReadFile(a.lastWords(pod, c.name, c.restarts))
	if err == nil && len(text) > 0 {
		return string(text[:min(len(text), maxWords)])
	}
	if c.exit == 0 || c.notes[notePolicy] != string(corev1.TerminationMessageFallbackToLogsOnError) {
		return ""
	}
	return logTail(c.log)
}

// logTail is the end of a CRI log: its lines are «time stream tag text».
func logTail(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	const window = 64 << 10
	buf := make([]byte, min(info.Size(), window))
	if _, err := f.ReadAt(buf, info.Size()-int64(len(buf))); err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimRight(string(buf), "\n"), "\n")
	lines = lines[max(0, len(lines)-maxTailLine):]
	var b strings.Builder
	for _, l := range lines {
		if parts := strings.SplitN(l, " ", 4); len(parts) == 4 {
			b.WriteString(parts[3] + "\n")
		}
	}
	out := b.String()
	return out[max(0, len(out)-maxTail):]
}

func allocated(spec *corev1.Container) *corev1.ResourceRequirements {
	if len(spec.Resources.Requests) == 0 && len(spec.Resources.Limits) == 0 {
		return &corev1.ResourceRequirements{}
	}
	return &corev1.ResourceRequirements{Requests: spec.Resources.Requests, Limits: spec.Resources.Limits}
}

func mountStatuses(spec *corev1.Container) (list []corev1.VolumeMountStatus) {
	for _, m := range spec.VolumeMounts {
		s := corev1.VolumeMountStatus{Name: m.Name, MountPath: m.MountPath, ReadOnly: m.ReadOnly}
		if m.ReadOnly {
			disabled := corev1.RecursiveReadOnlyDisabled
			if m.RecursiveReadOnly != nil && *m.RecursiveReadOnly != corev1.RecursiveReadOnlyIfPossible {
				disabled = *m.RecursiveReadOnly
			}
			s.RecursiveReadOnly = &disabled
		}
		list = append(list, s)
	}
	return list
}

// phase sums up the containers.
func phase(pod *corev1.Pod, st corev1.PodStatus) corev1.PodPhase {
	for i, s := range st.InitContainerStatuses {
		if sidecar(&pod.Spec.InitContainers[i]) {
			continue
		}
		switch {
		case s.State.Terminated != nil && s.State.Terminated.ExitCode == 0:
		case s.State.Terminated != nil && pod.Spec.RestartPolicy == corev1.RestartPolicyNever:
			return corev1.PodFailed
		case len(st.ContainerStatuses) > 0 && st.ContainerStatuses[0].ContainerID != "": // they ran: it was cleaned up
		default:
			return corev1.PodPending
		}
	}
	var running, waiting, failed, succeeded int
	for _, s := range st.ContainerStatuses {
		switch {
		case s.State.Running != nil:
			running++
		case s.State.Terminated != nil && s.State.Terminated.ExitCode == 0:
			succeeded++
		case s.State.Terminated != nil:
			failed++
		case s.LastTerminationState.Terminated != nil: // between two runs
			running++
		default:
			waiting++
		}
	}
	switch {
	case waiting > 0 && pod.Status.Phase != corev1.PodRunning:
		return corev1.PodPending
	case running > 0 || waiting > 0:
		return corev1.PodRunning
	case pod.Spec.RestartPolicy == corev1.RestartPolicyAlways && pod.DeletionTimestamp == nil:
		return corev1.PodRunning
	case failed > 0 && pod.Spec.RestartPolicy == corev1.RestartPolicyOnFailure && pod.DeletionTimestamp == nil:
		return corev1.PodRunning
	case failed > 0:
		return corev1.PodFailed
	}
	return corev1.PodSucceeded
}

// conditions sets the four conditions that the node owns.
func conditions(w world, st *corev1.PodStatus) {
	pod := w.pod
	box := w.seen.box(pod.UID)
	set := func(t corev1.PodConditionType, ok bool, reason, message string) {
		setCondition(st, t, ok, reason, message, pod.Generation, w.now)
	}
	set(corev1.PodReadyToStartContainers, box != nil, "", "")
	if finished := st.Phase == corev1.PodSucceeded || st.Phase == corev1.PodFailed; finished {
		reason := "PodCompleted"
		if st.Phase == corev1.PodFailed {
			reason = "PodFailed"
		}
		set(corev1.PodInitialized, st.Phase == corev1.PodSucceeded || initialized(pod, st), choose(st.Phase == corev1.PodSucceeded, reason, ""), "")
		set(corev1.ContainersReady, false, reason, "")
		set(corev1.PodReady, false, reason, "")
		return
	}
	ok := initialized(pod, st)
	set(corev1.PodInitialized, ok, choose(ok, "", "ContainersNotInitialized"), choose(ok, "", notInitialized(pod, st)))
	unready := unreadyNames(pod, st)
	text := ""
	if len(unready) > 0 {
		text = fmt.Sprintf("containers with unready status: [%s]", strings.Join(unready, " "))
	}
	set(corev1.ContainersReady, text == "", choose(text == "", "", "ContainersNotReady"), text)
	reason, message := choose(text == "", "", "ContainersNotReady"), text
	if gate := closedGate(pod, st); text == "" && gate != "" {
		reason, message = "ReadinessGatesNotReady", gate
	}
	set(corev1.PodReady, message == "", reason, message)
}

func choose(ok bool, a, b string) string {
	if ok {
		return a
	}
	return b
}

func initialized(pod *corev1.Pod, st *corev1.PodStatus) bool { return notInitialized(pod, st) == "" }

func notInitialized(pod *corev1.Pod, st *corev1.PodStatus) string {
	var names []string
	for i, s := range st.InitContainerStatuses {
		switch {
		case sidecar(&pod.Spec.InitContainers[i]):
			if s.Started == nil || !*s.Started {
				names = append(names, s.Name)
			}
		case s.State.Terminated == nil || s.State.Terminated.ExitCode != 0:
			names = append(names, s.Name)
		}
	}
	if len(names) == 0 || (len(st.ContainerStatuses) > 0 && st.ContainerStatuses[0].ContainerID != "") {
		return ""
	}
	return fmt.Sprintf("containers with incomplete status: [%s]", strings.Join(names, " "))
}

func unreadyNames(pod *corev1.Pod, st *corev1.PodStatus) (names []string) {
	for i, s := range st.InitContainerStatuses {
		if sidecar(&pod.Spec.InitContainers[i]) && !s.Ready {
			names = append(names, s.Name)
		}
	}
	for _, s := range st.ContainerStatuses {
		if !s.Ready {
			names = append(names, s.Name)
		}
	}
	return names
}

func closedGate(pod *corev1.Pod, st *corev1.PodStatus) string {
	for _, g := range pod.Spec.ReadinessGates {
		i := slices.IndexFunc(st.Conditions, func(c corev1.PodCondition) bool { return c.Type == g.ConditionType })
		switch {
		case i < 0:
			return fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", g.ConditionType)
		case st.Conditions[i].Status != corev1.ConditionTrue:
			return fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %v", g.ConditionType, st.Conditions[i].Status)
		}
	}
	return ""
}

// setCondition writes one condition; its time moves only when its status does.
func setCondition(st *corev1.PodStatus, t corev1.PodConditionType, ok bool, reason, message string, gen int64, now time.Time) {
	c := corev1.PodCondition{Type: t, Status: corev1.ConditionFalse, Reason: reason, Message: message, ObservedGeneration: gen, LastTransitionTime: metav1.NewTime(now)}
	if ok {
		c.Status = corev1.ConditionTrue
	}
	i := slices.IndexFunc(st.Conditions, func(o corev1.PodCondition) bool { return o.Type == t })
	if i < 0 {
		st.Conditions = append(st.Conditions, c)
		return
	}
	if st.Conditions[i].Status == c.Status {
		c.LastTransitionTime = st.Conditions[i].LastTransitionTime
	}
	st.Conditions[i] = c
}
