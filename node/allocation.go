package node

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// allocations remember what resources the node has granted to pods, and what the runtime was last given: an in-place resize
// (KEP-1287) brings the second to the first, and the first to what the spec asks for. Both are kept on disk beside the pod's files, so
// that an agent that starts anew neither forgets a grant nor takes what was asked for as given. Safe for concurrent use.
type allocations struct {
	*common

	mu sync.Mutex
	of map[types.UID]*allocation
}

// An allocation is one pod's. Only CPU and memory can change while a pod runs.
type allocation struct {
	Pod        *corev1.ResourceRequirements           `json:"pod,omitempty"` // granted to the pod as a whole
	Granted    map[string]corev1.ResourceRequirements `json:"granted"`       // by container
	Actuated   map[string]corev1.ResourceRequirements `json:"actuated"`      // last given to the runtime
	Generation int64                                  `json:"generation"`    // of the pod whose spec was granted last

	PodActuated *corev1.ResourceRequirements `json:"podActuated,omitempty"` // last given to the pod's own cgroup

	deferred string // why what the spec asks for can't be had yet
	// infeasible says why it can never be had here.
	infeasible string
	failed     string // why the runtime did not take it
	running    bool   // a resize has been granted and is not yet actuated
}

// granted returns the pod as it has been granted: its spec, with the resources that it may have now.
func (l *allocations) granted(pod *corev1.Pod) *corev1.Pod {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.load(pod)
	if same(pod, a) {
		return pod
	}
	out := resource.Clone(pod)
	for _, list := range [][]corev1.Container{out.Spec.InitContainers, out.Spec.Containers} {
		for i := range list {
			if r, ok := a.Granted[list[i].Name]; ok {
				list[i].Resources = *r.DeepCopy()
			}
		}
	}
	out.Spec.Resources = a.Pod.DeepCopy()
	return out
}

// waits says that a resize of the pod waits for room.
func (l *allocations) waits(pod *corev1.Pod) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return pod.DeletionTimestamp == nil && !core.Terminal(pod) && l.load(pod).deferred != ""
}

// load returns the pod's allocation: from memory, from disk, or a new one that grants what the spec says. l is locked.
func (l *allocations) load(pod *corev1.Pod) *allocation {
	if a := l.of[pod.UID]; a != nil {
		return a
	}
	a := &allocation{}
	text, err := os.ReadFile(l.file(pod.UID))
	if err != nil || json.Unmarshal(text, a) != nil || a.Granted == nil {
		a = &allocation{Granted: map[string]corev1.ResourceRequirements{}, Actuated: map[string]corev1.ResourceRequirements{}}
		a.grant(pod)
		a.PodActuated = a.Pod.DeepCopy()
	}
	if a.Actuated == nil {
		a.Actuated = map[string]corev1.ResourceRequirements{}
	}
	l.of[pod.UID] = a
	return a
}

func (a *allocation) grant(pod *corev1.Pod) {
	a.Pod, a.Generation = pod.Spec.Resources.DeepCopy(), pod.Generation
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			a.Granted[list[i].Name] = *list[i].Resources.DeepCopy()
		}
	}
}

// same says that the pod asks for what it has been granted.
func same(pod *corev1.Pod, a *allocation) bool {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if g, ok := a.Granted[list[i].Name]; ok && !equality.Semantic.DeepEqual(g, list[i].Resources) {
				return false
			}
		}
	}
	return equality.Semantic.DeepEqual(a.Pod, pod.Spec.Resources)
}

func (l *allocations) file(uid types.UID) string {
	return filepath.Join(l.podDir(uid), "resources.json")
}

// save keeps an allocation for the next agent. l is locked.
func (l *allocations) save(uid types.UID) error {
	text, err := json.Marshal(l.of[uid])
	if err != nil {
		return err
	}
	tmp := l.file(uid) + ".new"
	if err := os.MkdirAll(l.podDir(uid), 0o750); err != nil {
		return fmt.Errorf("keep the pod's allocation: %w", err)
	}
	if err = os.WriteFile(tmp, text, 0o600); err == nil { // on a full disk the former one stays
		err = os.Rename(tmp, l.file(uid))
	}
	if err != nil {
		return fmt.Errorf("keep the pod's allocation: %w", err)
	}
	return nil
}

// actuated notes what the runtime has been given for a container.
func (l *allocations) actuated(pod *corev1.Pod, name string, r corev1.ResourceRequirements) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.load(pod)
	if was, ok := a.Actuated[name]; ok && equality.Semantic.DeepEqual(was, r) {
		return nil
	}
	a.Actuated[name] = *r.DeepCopy()
	return l.save(pod.UID)
}

// has returns what the runtime was last given for a container; what was granted, if it was given nothing yet.
func (l *allocations) has(pod *corev1.Pod, name string) corev1.ResourceRequirements {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.load(pod)
	if r, ok := a.Actuated[name]; ok {
		return r
	}
	return a.Granted[name]
}

// actuatedPod notes what the pod's own cgroup has been given.
func (l *allocations) actuatedPod(pod *corev1.Pod) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.load(pod).PodActuated = pod.Spec.Resources.DeepCopy()
	return l.save(pod.UID)
}

// hasPod returns what the pod's own cgroup was last given, of what the pod asks for as a whole.
func (l *allocations) hasPod(pod *corev1.Pod) *corev1.ResourceRequirements {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.load(pod).PodActuated
}

// inForce is the pod with the resources that its own cgroup and its running containers have, whatever it was granted since.
func (l *allocations) inForce(w world) *corev1.Pod {
	out := *w.pod
	out.Spec.Resources = l.hasPod(w.pod)
	out.Spec.InitContainers, out.Spec.Containers = slices.Clone(out.Spec.InitContainers), slices.Clone(out.Spec.Containers)
	for _, list := range [][]corev1.Container{out.Spec.InitContainers, out.Spec.Containers} {
		for i := range list {
			if c := w.seen.newest(list[i].Name); c != nil && c.running() {
				list[i].Resources = l.has(w.pod, list[i].Name)
			}
		}
	}
	return &out
}

// keep forgets all pods but those.
func (l *allocations) keep(used map[types.UID]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.of, func(uid types.UID, _ *allocation) bool { return !used[uid] })
}

func (l *allocations) forget(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.of, uid)
}
