package node

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kloop-dev/kloop/internal/coldsort"
)

// The labels and annotations that tie sandboxes and containers to pods. Their names are the kubelet's, so that
// other tools understand what they see.
const (
	labelPod       = "io.kubernetes.pod.name"
	labelNamespace = "io.kubernetes.pod.namespace"
	labelUID       = "io.kubernetes.pod.uid"
	labelContainer = "io.kubernetes.container.name"

	noteRestarts = "io.kubernetes.container.restartCount"
	noteHash     = "io.kubernetes.container.hash"
	noteMessage  = "io.kubernetes.container.terminationMessagePath"
	notePolicy   = "io.kubernetes.container.terminationMessagePolicy"
	noteGrace    = "io.kubernetes.pod.terminationGracePeriod"
)

// A runtimeState holds what the runtime has under one pod's name: sandboxes and containers, the newest first.
type runtimeState struct {
	sandboxes  []sandbox
	containers []container
}

type sandbox struct {
	id    string
	uid   types.UID
	ready bool
	lost  string // why it can't serve although it is ready; "": it can
	made  time.Time
	ips   []string
	try   uint32
}

type container struct {
	id, name, sandbox string
	uid               types.UID
	state             cri.ContainerState
	made, began, done time.Time
	exit              int32
	reason, message   string
	image, imageRef   string
	restarts          int32
	hash              string
	notes             map[string]string
	log               string
	user              *cri.LinuxContainerUser // that it began as; nil: the runtime does not tell
}

func (c *container) running() bool { return c.state == cri.ContainerState_CONTAINER_RUNNING }
func (c *container) created() bool { return c.state == cri.ContainerState_CONTAINER_CREATED }
func (c *container) ended() bool   { return c.state == cri.ContainerState_CONTAINER_EXITED }

// ran is for how long it did; one that could not be started did not.
func (c *container) ran() time.Duration {
	if c.began.IsZero() {
		return 0
	}
	return c.done.Sub(c.began)
}

// unsure says that the runtime does not know the container's state, as one that began on a busy machine and got no answer from a shim.
func (c *container) unsure() bool { return c.state == cri.ContainerState_CONTAINER_UNKNOWN }

// mayRun says that a process of it may run: another must not be started beside it.
func (c *container) mayRun() bool { return c.running() || c.unsure() }

// observe asks the runtime for everything under a pod's name.
func (a *Agent) observe(ctx context.Context, ns, name string) (runtimeState, error) {
	var s runtimeState
	who := podName{ns, name}
	list, err := a.seen.list(ctx, who)
	if err != nil {
		return s, err
	}
	known, err := a.seen.look(ctx, who, list)
	if err != nil {
		return s, err
	}
	for _, b := range list.boxes {
		s.sandboxes = append(s.sandboxes, a.sandbox(b, known.boxes[b.Id]))
	}
	for _, item := range list.containers {
		s.containers = append(s.containers, newContainer(item, known.containers[item.Id]))
	}
	coldsort.Func(s.sandboxes, func(a, b sandbox) int { return b.made.Compare(a.made) })
	s.twice()
	coldsort.Func(s.containers, func(a, b container) int {
		return cmp.Or(cmp.Compare(b.restarts, a.restarts), b.made.Compare(a.made))
	})
	return s, nil
}

func (a *Agent) sandbox(b *cri.PodSandbox, st *cri.PodSandboxStatus) sandbox {
	box := sandbox{id: b.Id, uid: types.UID(b.Labels[labelUID]), ready: b.State == cri.PodSandboxState_SANDBOX_READY,
		made: time.Unix(0, b.CreatedAt), try: b.Metadata.GetAttempt()}
	if !box.ready {
		return box
	}
	if n := st.GetNetwork(); n.GetIp() != "" {
		box.ips = append(box.ips, n.Ip)
		for _, more := range n.AdditionalIps {
			box.ips = append(box.ips, more.Ip)
		}
	}
	box.ips = a.cfg.inOrder(box.ips)
	switch o := st.GetLinux().GetNamespaces().GetOptions(); {
	case a.misplaced(box.ips): // nobody reaches it
		box.lost = notReady
	case len(box.ips) == 0 && o != nil && o.Network == cri.NamespaceMode_POD && st.Network != nil:
		box.lost = noAddress
	}
	return box
}

// What a pod says of a sandbox that can't serve.
const (
	notReady  = "pod sandbox is not ready"
	noAddress = "pod sandbox has no IP address"
)

// twice marks the sandboxes of a pod that has several, as after a call whose answer was lost: nobody knows what runs in which.
func (s runtimeState) twice() {
	count := map[types.UID]int{}
	for _, b := range s.sandboxes {
		if b.ready {
			count[b.uid]++
		}
	}
	for i := range s.sandboxes {
		if b := &s.sandboxes[i]; b.ready && count[b.uid] > 1 {
			b.lost = "multiple pod sandboxes are ready and need to be reconciled"
		}
	}
}

func newContainer(item *cri.Container, st *cri.ContainerStatus) container {
	restarts, _ := strconv.ParseInt(st.Annotations[noteRestarts], 10, 32) // absent counts as none
	c := container{id: item.Id, name: st.Labels[labelContainer], sandbox: item.PodSandboxId, uid: types.UID(st.Labels[labelUID]),
		state: st.State, made: time.Unix(0, st.CreatedAt), exit: st.ExitCode, reason: st.Reason, message: st.Message,
		image: st.GetImage().GetImage(), imageRef: st.ImageRef, restarts: int32(restarts), hash: st.Annotations[noteHash],
		notes: st.Annotations, log: st.LogPath, user: st.GetUser().GetLinux()}
	if st.StartedAt > 0 {
		c.began = time.Unix(0, st.StartedAt)
	}
	if st.FinishedAt > 0 {
		c.done = time.Unix(0, st.FinishedAt)
	}
	return c
}

// box is the pod's sandbox that serves, or nil.
func (s runtimeState) box(uid types.UID) *sandbox {
	for i := range s.sandboxes {
		if s.sandboxes[i].uid == uid && s.sandboxes[i].ready && s.sandboxes[i].lost == "" {
			return &s.sandboxes[i]
		}
	}
	return nil
}

// of returns the containers of one name, the newest first.
func (s runtimeState) of(name string) (list []*container) {
	for i := range s.containers {
		if s.containers[i].name == name {
			list = append(list, &s.containers[i])
		}
	}
	return list
}

// newest is the last container of the name, or nil.
func (s runtimeState) newest(name string) *container {
	if list := s.of(name); len(list) > 0 {
		return list[0]
	}
	return nil
}

// strangers are the parts that belong to another pod of the same name.
func (s runtimeState) strangers(uid types.UID) (out runtimeState) {
	for _, b := range s.sandboxes {
		if b.uid != uid {
			out.sandboxes = append(out.sandboxes, b)
		}
	}
	for _, c := range s.containers {
		if c.uid != uid {
			out.containers = append(out.containers, c)
		}
	}
	return out
}

// nextTry is the number of the next sandbox: above that of every one there is, also of those whose set-up failed half way, or the
// runtime refuses the name.
func (s runtimeState) nextTry() (n uint32) {
	for i := range s.sandboxes {
		n = max(n, s.sandboxes[i].try+1)
	}
	return n
}

func (s runtimeState) empty() bool { return len(s.sandboxes) == 0 && len(s.containers) == 0 }

// anyRunning says whether a process of the pod may still run.
func (s runtimeState) anyRunning() bool {
	return slices.ContainsFunc(s.containers, func(c container) bool { return c.mayRun() })
}
