// Package selinuxwarning tells pods that want one volume with different labels of SELinux: a node can mount it for one of them.
//
//	reads   Pod, PersistentVolumeClaim, PersistentVolume, CSIDriver
//	writes  nothing but events
//	rule    two pods that conflict have each been told so once; it takes no part in what becomes of them
//
// Nobody here knows the nodes' policies: what a pod leaves open may be what another one names, except for the level.
package selinuxwarning

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// Name is the loop's.
const Name = "selinux-warning"

// one is the only key: the cluster.
const one = "conflicts"

// Controller returns the loop: wake on what pods have which volumes.
func Controller() *loop.Controller[*corev1.Pod] {
	t := &teller{}
	return &loop.Controller[*corev1.Pod]{
		Name: Name,
		For:  kinds.Pods,
		Lone: one,
		Wake: []loop.Wake{{Kind: kinds.Pods, Keys: pods}, {Kind: kinds.PersistentVolumeClaims, Keys: claims},
			{Kind: kinds.PersistentVolumes, Keys: volumes}, {Kind: kinds.CSIDrivers, Keys: drivers}},
		Rest: time.Second,
		Gone: t.reconcile,
	}
}

// teller is the loop at work.
type teller struct {
	mu   sync.Mutex
	told map[Conflict]bool
	many map[Many]bool
}

func (t *teller) reconcile(_ context.Context, c *loop.Ctx, _ loop.Key) (time.Duration, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	conflicts, many := map[Conflict]bool{}, map[Many]bool{}
	Conflicts(c, func(x Conflict) {
		if conflicts[x] = true; !t.told[x] {
			if p := resource.Get(c, kinds.Pods, x.Namespace, x.Pod); p != nil {
				c.Event(kinds.Pods, p, corev1.EventTypeNormal, x.Property+"Conflict", "%s", x.text())
			}
		}
	}, func(x Many) {
		if many[x] = true; !t.many[x] {
			if p := resource.Get(c, kinds.Pods, x.Namespace, x.Pod); p != nil {
				c.Event(kinds.Pods, p, corev1.EventTypeWarning, "MultipleSELinuxLabels",
					"Volume %q is mounted twice with different SELinux labels inside this pod", x.Volume)
			}
		}
	})
	t.told, t.many = conflicts, many
	return 0, nil
}

// pods: what volumes a pod has, and how, is fixed while it runs.
func pods(c client.Change, _ resource.Reader, wake func(ns, name string)) {
	if c.Old == nil || c.New == nil || core.Terminal(c.Old.(*corev1.Pod)) != core.Terminal(c.New.(*corev1.Pod)) {
		wake("", one)
	}
}

func claims(c client.Change, _ resource.Reader, wake func(ns, name string)) {
	if c.Old == nil || c.New == nil ||
		c.Old.(*corev1.PersistentVolumeClaim).Spec.VolumeName != c.New.(*corev1.PersistentVolumeClaim).Spec.VolumeName {
		wake("", one)
	}
}

func volumes(c client.Change, _ resource.Reader, wake func(ns, name string)) {
	if c.Old == nil || c.New == nil || claimOf(c.Old.(*corev1.PersistentVolume)) != claimOf(c.New.(*corev1.PersistentVolume)) {
		wake("", one)
	}
}

func drivers(c client.Change, _ resource.Reader, wake func(ns, name string)) {
	if c.Old == nil || c.New == nil || mounts(c.Old.(*storagev1.CSIDriver)) != mounts(c.New.(*storagev1.CSIDriver)) {
		wake("", one)
	}
}
