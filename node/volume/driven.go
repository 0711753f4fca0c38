package volume

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/node/csi"
)

// driven mounts a volume of a CSI driver.
func (m *Mounter) driven(ctx context.Context, r *csi.Request) (string, error) {
	got, err := m.csi.Mount(ctx, m.Labels.ask(r))
	if err == nil {
		m.Labels.mounted(r, got)
	}
	if err != nil || !got.Own {
		return got.Path, err
	}
	return got.Path, m.give(r.Pod, r.Name, got.Path)
}

// inline is a volume that the pod defines itself.
func inline(pod *corev1.Pod, v *corev1.Volume) *csi.Request {
	return &csi.Request{Pod: pod, Name: v.Name, Inline: v.CSI, ReadOnly: v.CSI.ReadOnly != nil && *v.CSI.ReadOnly, Group: fsGroup(pod)}
}

// readOnly says that no container may write the pod's volume.
func readOnly(pod *corev1.Pod, name string) bool {
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Name == name {
			return ReadOnly(&pod.Spec.Volumes[i])
		}
	}
	return false
}

// How often volumes of drivers are looked at that did not say when.
const drivenEvery = time.Minute

// Look has the volumes of drivers looked at with the next Refresh: something that they depend on has changed.
func (m *Mounter) Look(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.pods[uid]; s != nil {
		s.look, s.settled = time.Time{}, false
	}
}

// refreshDriven keeps the volumes of drivers as their objects say, and local ones. After next it should be called again; 0: the pod has
// none, and nobody waits for a local one to grow.
func (m *Mounter) refreshDriven(ctx context.Context, pod *corev1.Pod) (next time.Duration, err error) {
	s, driven := m.state(pod.UID), m.csi.Has(pod.UID)
	m.mu.Lock()
	if !driven && s.settled {
		m.mu.Unlock()
		return 0, nil
	}
	left := time.Until(s.look)
	if left > 0 {
		m.mu.Unlock()
		return left, nil
	}
	next = drivenEvery
	began := time.Now().Add(next)
	s.look, s.settled = began, true // Look may say otherwise meanwhile
	m.mu.Unlock()
	var errs []error
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if !used(pod, v.Name) {
			continue
		}
		again, more, err := m.refreshOne(ctx, pod, v)
		if err != nil {
			errs = append(errs, fmt.Errorf("look after volume %q: %w", v.Name, err))
		}
		if again > 0 {
			next = min(next, again)
		}
		if more {
			m.mu.Lock()
			s.settled = false
			m.mu.Unlock()
		}
	}
	m.mu.Lock()
	switch {
	case !s.look.Equal(began):
		next = time.Millisecond
	case !driven && s.settled:
		next = 0
	default:
		s.look = time.Now().Add(next)
	}
	m.mu.Unlock()
	if err := errors.Join(errs...); err != nil { // the volume is as it was, and the pod runs
		m.log.Warn("look after volumes", "object", "pod/"+pod.Namespace+"/"+pod.Name, "again", next, "err", err)
	}
	return next, nil
}

// refreshOne looks after one volume. more: somebody waits for it to grow.
func (m *Mounter) refreshOne(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) (again time.Duration, more bool, err error) {
	r, err := m.request(ctx, pod, v)
	switch {
	case err != nil:
		return 0, false, err
	case r != nil:
		again, err = m.csi.Refresh(ctx, r)
	case core.ClaimName(pod, v) != "":
		more, err = m.growLocal(ctx, pod, v)
	}
	return again, more, err
}

// request returns a pod's request to a driver; nil: the volume is none of a driver's.
func (m *Mounter) request(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) (*csi.Request, error) {
	if v.CSI != nil {
		return inline(pod, v), nil
	}
	name := core.ClaimName(pod, v)
	if name == "" {
		return nil, nil
	}
	pvc, pv, err := m.bound(ctx, pod, v.Name, name)
	if err != nil || pv.Spec.CSI == nil {
		return nil, err
	}
	block, err := blockMode(pod, v.Name, pv)
	return &csi.Request{Pod: pod, Name: v.Name, PV: pv, Claim: pvc, Block: block, ReadOnly: ReadOnly(v), Group: fsGroup(pod)}, err
}

// driverToken gives a driver a token for a pod.
func (m *Mounter) driverToken(ctx context.Context, pod *corev1.Pod, audience string, life int64) (csi.Token, error) {
	t, err := m.token(ctx, pod, audience, life)
	if err != nil {
		return csi.Token{}, err
	}
	return csi.Token{Text: t.text, Expires: t.expiry}, nil
}
