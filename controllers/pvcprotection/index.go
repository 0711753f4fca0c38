package pvcprotection

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// An index knows which pods name a claim, so that no look at one reads all pods of its namespace. What it says follows the changes that
// wake the loop, and so may be behind what a pass reads: it is good enough for a condition, not for a deletion.
type index struct {
	mu   sync.Mutex
	pods map[types.NamespacedName]map[string]bool
}

func (x *index) note(c client.Change) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if old, ok := c.Old.(*corev1.Pod); ok && c.New == nil {
		for _, name := range core.ClaimNames(old) {
			at := types.NamespacedName{Namespace: old.Namespace, Name: name}
			if delete(x.pods[at], old.Name); len(x.pods[at]) == 0 {
				delete(x.pods, at)
			}
		}
	}
	if p, ok := c.New.(*corev1.Pod); ok {
		x.add(p)
	}
}

func (x *index) add(p *corev1.Pod) {
	for _, name := range core.ClaimNames(p) {
		at := types.NamespacedName{Namespace: p.Namespace, Name: name}
		if x.pods == nil {
			x.pods = map[types.NamespacedName]map[string]bool{}
		}
		if x.pods[at] == nil {
			x.pods[at] = map[string]bool{}
		}
		x.pods[at][p.Name] = true
	}
}

func (x *index) rebuild(read resource.Reader) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.pods = nil
	for obj := range read.Each(kinds.Pods, "") {
		x.add(obj.(*corev1.Pod))
	}
}

// of are the pods that may use a claim.
func (x *index) of(read resource.Reader, claim *corev1.PersistentVolumeClaim) (list []*corev1.Pod) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for name := range x.pods[types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}] {
		if p := resource.Get(read, kinds.Pods, claim.Namespace, name); p != nil {
			list = append(list, p)
		}
	}
	return list
}
