package volume

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/node/csi"
	"github.com/kloop-dev/kloop/node/selinux"
)

// Labels knows which volumes' files get a label of SELinux, and how.
type Labels struct {
	policy *selinux.Policy
	mu     sync.Mutex
	asIs   map[types.UID]map[string]bool // volumes of claims and drivers: whether the runtime leaves their files their labels
}

// keep notes whether the files of a volume that a claim or a driver made are to keep their labels.
func (l *Labels) keep(uid types.UID, volume string, asIs bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asIs == nil {
		l.asIs = map[types.UID]map[string]bool{}
	}
	if l.asIs[uid] == nil {
		l.asIs[uid] = map[string]bool{}
	}
	l.asIs[uid][volume] = asIs
}

func (l *Labels) forget(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.asIs, uid)
}

// ask puts into a request what its pod's containers need the files' label to be.
func (l *Labels) ask(r *csi.Request) *csi.Request {
	r.Labels, r.Recursive = l.policy.Uses(r.Pod, r.Name)
	return r
}

// mounted notes what became of a request.
func (l *Labels) mounted(r *csi.Request, got csi.Mounted) {
	l.keep(r.Pod.UID, r.Name, r.ReadOnly || r.Block || got.Labelled || !l.policy.Labels(got.Path))
}

// Relabel says that the runtime is to give the volume's files the container's label: those that the agent made, and volumes of drivers and
// local ones that the pod may write. Paths of the host keep theirs, and so does what was mounted with a label.
func (l *Labels) Relabel(pod *corev1.Pod, volume string) bool {
	if !l.policy.Enabled() {
		return false
	}
	for i := range pod.Spec.Volumes {
		switch v := &pod.Spec.Volumes[i]; {
		case v.Name != volume:
		case plugin(v) != "":
			return true
		case v.CSI != nil, core.ClaimName(pod, v) != "":
			l.mu.Lock()
			defer l.mu.Unlock()
			asIs, known := l.asIs[pod.UID][volume]
			return known && !asIs
		}
	}
	return false
}

// Enabled says that files have labels on this machine.
func (l *Labels) Enabled() bool { return l.policy.Enabled() }
