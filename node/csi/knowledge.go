package csi

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// knowledge holds facts beside the disk. All of it can be had again.
type knowledge struct {
	files  sync.Mutex // held while the record of a staged volume is written, or is judged to be none
	mu     sync.Mutex
	locks  map[volumeID]*turn                // volumes that somebody works on
	wanted map[volumeID]map[types.UID]string // pods that have asked for a volume, with the label that they need
	staged map[volumeID]bool                 // by this agent
	done   map[types.UID]map[string]settled  // pods' volumes that this agent has published
	attach map[volumeID]bool                 // wanted ones that have to be attached
	usage  map[types.UID]map[string]Usage
	bad    map[types.UID]map[string]struct{} // growths that wait until the pod has let go of the volume
	sizes  map[volumeID]int64                // of wanted ones, as far as this agent has enlarged them
}

// settled is a volume that was published for a pod.
type settled struct {
	Mounted
	again time.Time // when it is published once more, if its driver asks for that
}

// A turn is held by the goroutine that works on a volume.
type turn struct {
	held  chan struct{}
	users int // who holds it or waits for it
}

// lock waits until nobody else works on the volume. Work on other volumes goes on beside.
func (k *knowledge) lock(ctx context.Context, v volumeID) (unlock func(), err error) {
	k.mu.Lock()
	t := k.locks[v]
	if t == nil {
		t = &turn{held: make(chan struct{}, 1)}
		k.locks[v] = t
	}
	t.users++
	k.mu.Unlock()
	leave := func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if t.users--; t.users == 0 {
			delete(k.locks, v)
		}
	}
	select {
	case t.held <- struct{}{}:
		return func() { <-t.held; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, fmt.Errorf("wait for other work on the volume %s: %w", v, ctx.Err())
	}
}

// want notes that a pod asks for a volume, unless another one needs it with another label, which it returns. It is in use from then on
// until unwant. first: it was not before.
func (k *knowledge) want(v volumeID, uid types.UID, attach bool, need label) (other *string, first bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	first = len(k.wanted[v]) == 0
	for pod, has := range k.wanted[v] {
		if need.matters && pod != uid && has != need.text {
			return &has, false
		}
	}
	if k.wanted[v] == nil {
		k.wanted[v] = map[types.UID]string{}
	}
	k.wanted[v][uid] = need.text
	if attach {
		k.attach[v] = true
	}
	return nil, first
}

// unask forgets that a pod asks for a volume.
func (k *knowledge) unask(v volumeID, uid types.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.drop(v, uid)
}

// drop is unask under the lock.
func (k *knowledge) drop(v volumeID, uid types.UID) {
	if delete(k.wanted[v], uid); len(k.wanted[v]) == 0 {
		delete(k.wanted, v)
		delete(k.sizes, v)
	}
}

// unwant forgets that a pod asks for volumes, and returns them.
func (k *knowledge) unwant(uid types.UID) (list []volumeID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for v, pods := range k.wanted {
		if _, ok := pods[uid]; ok {
			list = append(list, v)
			k.drop(v, uid)
		}
	}
	delete(k.done, uid)
	delete(k.bad, uid)
	delete(k.usage, uid)
	return list
}

// isWanted says that a pod has asked for the volume.
func (k *knowledge) isWanted(v volumeID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.wanted[v]) > 0
}

func (k *knowledge) isStaged(v volumeID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.staged[v]
}

func (k *knowledge) setStaged(v volumeID, is bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.staged[v] = is; !is {
		delete(k.staged, v)
	}
}

func (k *knowledge) settled(r *Request) (settled, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s, ok := k.done[r.Pod.UID][r.Name]
	return s, ok
}

func (k *knowledge) settle(r *Request, s settled) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.done[r.Pod.UID] == nil {
		k.done[r.Pod.UID] = map[string]settled{}
	}
	k.done[r.Pod.UID][r.Name] = s
}
