package resourcequota

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds/quota"
)

// unsure is the time for which a use that is too high, for no reason that was seen, must stand still before it is lowered: longer than the
// store lets a write take. Admission charges a quota before the object is written, so what looks like too much may be on its way.
const unsure = 15 * time.Second

// A ledger tells what has been freed, which can be given back at once, from what may only not be there yet. It remembers
// what it saw since the last write of each quota; of what it did not see, or forgot with the process, it is unsure.
type ledger struct {
	mu       sync.Mutex
	accounts map[types.NamespacedName]*account
}

// account holds the knowledge of a quota beside its status.
type account struct {
	uid      types.UID
	freed    map[change]corev1.ResourceList
	revision string    // of the quota when it was looked at,
	since    time.Time // and since when it has been that
}

// change names a change of an object, so that one that comes twice counts once.
type change struct {
	uid      types.UID
	revision string // after the change; empty when the object is gone
}

// note takes down what a change freed.
func (l *ledger) note(q *corev1.ResourceQuota, c client.Change, freed corev1.ResourceList) {
	if len(freed) == 0 {
		return
	}
	key := change{uid: c.Old.GetUID()}
	if c.New != nil {
		key.revision = c.New.GetResourceVersion()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.account(q).freed[key] = freed
}

func (l *ledger) account(q *corev1.ResourceQuota) *account {
	a := l.accounts[name(q)]
	if a == nil || a.uid != q.UID {
		a = &account{uid: q.UID, freed: map[change]corev1.ResourceList{}}
		l.accounts[name(q)] = a
	}
	return a
}

func name(q *corev1.ResourceQuota) types.NamespacedName {
	return types.NamespacedName{Namespace: q.Namespace, Name: q.Name}
}

// credit is the use to write of a quota whose objects add up to sum: not less than what may be on its way. With it come the
// changes that it accounts for, and how long to wait before it can be said better.
func (l *ledger) credit(q *corev1.ResourceQuota, sum corev1.ResourceList, now time.Time) (use corev1.ResourceList, seen []change,
	wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(q)
	if a.revision != q.ResourceVersion {
		a.revision, a.since = q.ResourceVersion, now
	}
	freed := corev1.ResourceList{}
	for c, f := range a.freed {
		seen = append(seen, c)
		quota.Add(freed, f)
	}
	use = sum
	if equal(q.Status.Hard, q.Spec.Hard) {
		use = atLeast(q.Status.Used, freed, sum)
	}
	if equal(use, sum) {
		return sum, seen, 0
	}
	if wait = a.since.Add(unsure).Sub(now); wait <= 0 {
		return sum, seen, 0
	}
	return use, seen, wait
}

// atLeast is sum, or used without what was freed where that is more.
func atLeast(used, freed, sum corev1.ResourceList) corev1.ResourceList {
	use := sum.DeepCopy()
	for name, n := range used {
		n = n.DeepCopy()
		n.Sub(freed[name])
		if have, ok := use[name]; ok && n.Cmp(have) > 0 {
			use[name] = n
		}
	}
	return use
}

// settled forgets the changes that the status accounts for now.
func (l *ledger) settled(q *corev1.ResourceQuota, seen []change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(q)
	for _, c := range seen {
		delete(a.freed, c)
	}
}

func (l *ledger) forget(of types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.accounts, of)
}
