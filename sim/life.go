package sim

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds/podspec"
)

// A life is one look at a pod: what its status becomes now, and when it changes next.
type life struct {
	pod  *corev1.Pod
	fate fate
	now  metav1.Time
	st   *corev1.PodStatus
	next time.Duration // 0: nothing is due
	at   place
	mute bool // nobody listens
	said []saying
}

// live is pure: it returns the status that a pod on a simulated node has now, after which time to look again, and what
// the node says of it. at holds what the pod finds there, its address among it.
func live(p *corev1.Pod, f fate, now metav1.Time, at place) (*corev1.PodStatus, time.Duration, []saying) {
	l := &life{pod: p, fate: f, now: now, st: p.Status.DeepCopy(), at: at, mute: at.mute}
	l.live()
	return l.st, l.next, l.said
}

func (l *life) live() {
	if l.fate.still {
		return
	}
	switch l.st.Phase {
	case corev1.PodSucceeded, corev1.PodFailed:
		return
	case corev1.PodPending, "":
		if l.fate.hold {
			return
		}
	}
	if l.st.StartTime == nil {
		if why, text := l.at.refuse(l.pod); why != "" {
			l.tell(corev1.EventTypeWarning, "", why, text)
			l.st.Phase, l.st.Reason, l.st.Message, l.st.StartTime = corev1.PodFailed, why, text, &l.now
			return
		}
		l.begin()
	}
	if l.deadline() {
		return
	}
	if l.mounted() {
		if since, ok := l.inits(); ok {
			l.mains(since)
		}
	}
	if l.st.Phase == corev1.PodRunning || l.st.Phase == corev1.PodPending {
		l.readiness()
	}
}

// mounted says whether the pod's volumes are there: once one of its containers ran they are.
func (l *life) mounted() bool {
	for _, list := range [][]corev1.ContainerStatus{l.st.InitContainerStatuses, l.st.ContainerStatuses} {
		for i := range list {
			if list[i].State.Waiting == nil || list[i].RestartCount > 0 {
				return true
			}
		}
	}
	why := l.at.mount(l.pod)
	if why != "" {
		l.tell(corev1.EventTypeWarning, "", "FailedMount", why)
		l.lookSoon()
	}
	return why == ""
}

// lookSoon looks again for what is missing, less often the longer it is.
func (l *life) lookSoon() {
	l.due(min(max(l.now.Sub(l.st.StartTime.Time)/4, 500*time.Millisecond), 10*time.Second))
}

// due asks for a look after d.
func (l *life) due(d time.Duration) {
	if d = max(d, time.Millisecond); l.next == 0 || d < l.next {
		l.next = d
	}
}

// begin is the time at which the agent hears of the pod.
func (l *life) begin() {
	l.st.Phase, l.st.StartTime = corev1.PodPending, &l.now
	l.st.HostIP, l.st.HostIPs = hostIP, []corev1.HostIP{{IP: hostIP}}
	if len(l.at.hosts) > 0 {
		l.st.HostIP, l.st.HostIPs = l.at.hosts[0], nil
		for _, a := range l.at.hosts {
			l.st.HostIPs = append(l.st.HostIPs, corev1.HostIP{IP: a})
		}
	}
	reason := "ContainerCreating"
	if len(l.pod.Spec.InitContainers) > 0 {
		reason = "PodInitializing"
	}
	l.st.ContainerStatuses, l.st.InitContainerStatuses = waiting(l.pod.Spec.Containers, reason),
		waiting(l.pod.Spec.InitContainers, "PodInitializing")
}

// hostIP and hostIPv6 are the addresses of all simulated nodes: of ranges for documentation.
const (
	hostIP   = "203.0.113.10"
	hostIPv6 = "2001:db8::cb00:710a"
)

func waiting(list []corev1.Container, reason string) (out []corev1.ContainerStatus) {
	for _, c := range list {
		out = append(out, corev1.ContainerStatus{Name: c.Name, Image: c.Image, Started: new(bool),
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}})
	}
	return out
}

// inits runs the init containers one after another. It says whether all are done, and since when.
func (l *life) inits() (at time.Time, done bool) {
	at = l.st.StartTime.Time
	for i := range l.pod.Spec.InitContainers {
		if i >= len(l.st.InitContainerStatuses) {
			break
		}
		c, s := &l.pod.Spec.InitContainers[i], &l.st.InitContainerStatuses[i]
		if !l.started(c, s, at) {
			return at, false
		}
		switch r := s.State.Running; {
		case podspec.Sidecar(c) && r != nil:
			if !l.probe(c, s) {
				l.restart(c, s)
				return at, false
			}
			if !*s.Started {
				return at, false
			}
			at = r.StartedAt.Time
			continue
		case r != nil && !l.passed(r.StartedAt.Time, l.fate.init):
			return at, false
		case r != nil:
			l.end(s, l.fate.initExit)
		}
		t := s.State.Terminated
		if t != nil && t.ExitCode != 0 {
			l.failedInit(c, s)
			return at, false
		}
		s.Ready = true
		at = t.FinishedAt.Time
	}
	return at, true
}

// failedInit has an init container tried again, or the pod fail.
func (l *life) failedInit(c *corev1.Container, s *corev1.ContainerStatus) {
	if l.pod.Spec.RestartPolicy == corev1.RestartPolicyNever {
		l.finish(corev1.PodFailed)
		return
	}
	l.restart(c, s)
}

// mains runs the containers side by side.
func (l *life) mains(at time.Time) {
	running, failed := 0, false
	for i := range l.pod.Spec.Containers {
		if i >= len(l.st.ContainerStatuses) {
			break
		}
		c, s := &l.pod.Spec.Containers[i], &l.st.ContainerStatuses[i]
		if s.State.Waiting != nil && s.State.Waiting.Reason == "PodInitializing" {
			s.State.Waiting.Reason = "ContainerCreating"
		}
		fresh := s.State.Running == nil
		if !l.started(c, s, at) {
			running++
			continue
		}
		if r := s.State.Running; r != nil && !fresh { // that it ran is to be seen before that it ended
			if l.mayEnd(s, r.StartedAt.Time); s.State.Running != nil {
				l.probe(c, s)
			}
		} else if r != nil && (l.fate.ends || l.crashes(s)) {
			l.due(l.fate.run)
		}
		if t := s.State.Terminated; t == nil {
			running++
		} else if (!l.fate.ends || l.crashes(s)) && l.restarts(t.ExitCode) {
			running++
			l.restart(c, s)
		} else {
			failed = failed || t.ExitCode != 0
		}
	}
	switch {
	case running == 0 && failed:
		l.finish(corev1.PodFailed)
		return
	case running == 0:
		l.finish(corev1.PodSucceeded)
		return
	}
	if l.st.PodIP == "" {
		list := l.at.ips()
		l.st.PodIP, l.st.PodIPs = list[0], nil
		for _, a := range list {
			l.st.PodIPs = append(l.st.PodIPs, corev1.PodIP{IP: a})
		}
	}
	for i := range l.st.ContainerStatuses {
		if s := &l.st.ContainerStatuses[i]; s.State.Running != nil || s.LastTerminationState.Terminated != nil {
			l.st.Phase = corev1.PodRunning
		}
	}
}

// mayEnd ends a container whose time has come.
func (l *life) mayEnd(s *corev1.ContainerStatus, since time.Time) {
	switch {
	case !l.crashes(s) && !l.fate.ends, !l.passed(since, l.fate.run):
	case l.crashes(s):
		l.end(s, l.fate.crash)
	default:
		l.end(s, l.fate.exit)
	}
}

// crashes says whether a container's next end is a crash.
func (l *life) crashes(s *corev1.ContainerStatus) bool { return int(s.RestartCount) < l.fate.crashes }

// passed says whether a time is over, or asks for a look when it is.
func (l *life) passed(since time.Time, d time.Duration) bool {
	left := since.Add(d).Sub(l.now.Time)
	if left > 0 {
		l.due(left)
	}
	return left <= 0
}

// started brings a container to its start: its image is pulled and it has paused as long as it must. It says whether
// the container runs, or has run.
func (l *life) started(c *corev1.Container, s *corev1.ContainerStatus, at time.Time) bool {
	w := s.State.Waiting
	if w == nil {
		return true
	}
	if w.Reason == "CrashLoopBackOff" {
		if t := s.LastTerminationState.Terminated; t != nil && !l.passed(t.FinishedAt.Time, pauseAfter(s.RestartCount+1)) {
			return false
		}
		s.RestartCount++
		l.run(c, s, true)
		return true
	}
	if w.Reason == configError {
		at = l.now.Time // its image was pulled
	}
	if l.fate.cantPull(c.Image) || w.Reason == "ImagePullBackOff" || w.Reason == "ErrImagePull" {
		_, failing, again := pulling(l.now.Sub(at))
		if l.fate.cantPull(c.Image) || !failing { // it will be pulled when it is tried again
			l.unpulled(c, s, failing)
			l.due(again)
			return false
		}
	} else if w.Reason != configError && !l.pulled(c, at) {
		return false
	}
	if why := l.at.environment(l.pod.Namespace, c); why != "" {
		l.tell(corev1.EventTypeWarning, c.Name, "Failed", "Error: "+why)
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: configError, Message: why}
		l.lookSoon()
		return false
	}
	l.run(c, s, l.fate.pull == 0)
	return true
}

// configError is why a container waits whose variables can't be made.
const configError = "CreateContainerConfigError"

// pulled says whether the pull of an image that began at a time has ended.
func (l *life) pulled(c *corev1.Container, at time.Time) bool {
	if l.fate.pull > 0 && at.Equal(l.now.Time) {
		l.tell(corev1.EventTypeNormal, c.Name, "Pulling", fmt.Sprintf("Pulling image %q", c.Image))
	}
	return l.passed(at, l.fate.pull)
}

func (l *life) unpulled(c *corev1.Container, s *corev1.ContainerStatus, failing bool) {
	w := &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: fmt.Sprintf("Back-off pulling image %q: ErrImagePull: %s",
		c.Image, unfound)}
	if failing {
		w.Reason, w.Message = "ErrImagePull", unfound
	}
	if was := s.State.Waiting; was == nil || was.Reason != w.Reason {
		if failing {
			l.tell(corev1.EventTypeNormal, c.Name, "Pulling", fmt.Sprintf("Pulling image %q", c.Image))
			l.tell(corev1.EventTypeWarning, c.Name, "Failed", fmt.Sprintf("Failed to pull image %q: %s", c.Image, w.Message))
		} else {
			l.tell(corev1.EventTypeNormal, c.Name, "BackOff", w.Message)
		}
		l.tell(corev1.EventTypeWarning, c.Name, "Failed", "Error: "+w.Reason)
	}
	s.State = corev1.ContainerState{Waiting: w}
}

const unfound = "not found in the simulation"

// run starts a container. present says that its image need not be pulled.
func (l *life) run(c *corev1.Container, s *corev1.ContainerStatus, present bool) {
	s.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: l.now}}
	if n := l.at.node; n != nil && n.Annotations[Agent] != "" {
		s.ContainerID, s.ImageID = containerID(l.pod, s), imageID(c.Image)
	}
	if l.mute {
		return
	}
	if present {
		l.tell(corev1.EventTypeNormal, c.Name, "Pulled",
			fmt.Sprintf("Container image %q already present on machine and can be accessed by the pod", c.Image))
	} else {
		l.tell(corev1.EventTypeNormal, c.Name, "Pulled",
			fmt.Sprintf("Successfully pulled image %q in %v (%v including waiting). Image size: %d bytes.",
				c.Image, l.fate.pull, l.fate.pull, imageSize))
	}
	l.tell(corev1.EventTypeNormal, c.Name, "Created", "Container created")
	l.tell(corev1.EventTypeNormal, c.Name, "Started", "Container started")
}

// imageSize is that of all images.
const imageSize = 10 << 20

// containerID is another one for every run of a container, and the same whenever it is asked for.
func containerID(p *corev1.Pod, s *corev1.ContainerStatus) string {
	sum := sha256.Sum256([]byte(string(p.UID) + "/" + s.Name + "/" + strconv.Itoa(int(s.RestartCount))))
	return "sim://" + hex.EncodeToString(sum[:])
}

func imageID(image string) string {
	sum := sha256.Sum256([]byte(image))
	return "sim://sha256:" + hex.EncodeToString(sum[:])
}

// end ends a container.
func (l *life) end(s *corev1.ContainerStatus, exit int32) {
	reason, began := "Error", l.now
	if exit == 0 {
		reason = "Completed"
	}
	if s.State.Running != nil {
		began = s.State.Running.StartedAt
	}
	s.Ready, s.Started = false, new(false)
	s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: exit, Reason: reason, StartedAt: began,
		FinishedAt:  l.now,
		ContainerID: s.ContainerID}}
}

// restarts says whether the pod's policy has a container that ended run again.
func (l *life) restarts(exit int32) bool {
	switch l.pod.Spec.RestartPolicy {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		return exit != 0
	}
	return true
}

// restart runs a container again: at once the first time, then after growing pauses.
func (l *life) restart(c *corev1.Container, s *corev1.ContainerStatus) {
	t := s.State.Terminated
	s.LastTerminationState = corev1.ContainerState{Terminated: t}
	pause := pauseAfter(s.RestartCount + 1)
	if t.FinishedAt.Sub(t.StartedAt.Time) >= cured {
		pause = 0
	}
	if pause > 0 {
		name := fmt.Sprintf("%s_%s(%s)", l.pod.Name, l.pod.Namespace, l.pod.UID)
		s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff",
			Message: fmt.Sprintf("back-off %s restarting failed container=%s pod=%s", pause, c.Name, name)}}
		l.tell(corev1.EventTypeWarning, c.Name, "BackOff", fmt.Sprintf("Back-off restarting failed container %s in pod %s", c.Name, name))
		l.due(t.FinishedAt.Add(pause).Sub(l.now.Time))
		return
	}
	s.RestartCount++
	l.run(c, s, true)
	l.due(l.fate.run)
}

// finish ends the pod.
func (l *life) finish(phase corev1.PodPhase) {
	l.st.Phase, l.next = phase, 0
	reason := "PodFailed"
	if phase == corev1.PodSucceeded {
		reason = "PodCompleted"
	}
	for i := range l.st.InitContainerStatuses { // sidecars end with the pod
		if s := &l.st.InitContainerStatuses[i]; s.State.Running != nil {
			l.end(s, 0)
		}
	}
	l.st.Conditions = condition(l.st.Conditions, corev1.PodReady, corev1.ConditionFalse, reason, l.now)
	l.st.Conditions = condition(l.st.Conditions, corev1.ContainersReady, corev1.ConditionFalse, reason, l.now)
}
