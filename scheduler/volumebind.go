package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// A volumeBinder has the claims of decided pods bound before the pods are.
type volumeBinder struct {
	r       *runner
	waiting map[*task]bool // decided, but their volumes are not bound yet
}

// bind has the claims of a decided pod bound, then those to devices allocated, then the pod bound.
func (b *volumeBinder) bind(t *task, node string) {
	if t.plan == nil {
		b.r.devices.bind(t, node)
		return
	}
	for _, g := range t.plan.static {
		b.r.st.volumes.assumed[g.volume.Name] = keyOfClaim(g.claim)
	}
	b.r.st.volumes.epoch++
	plan, p := t.plan, t.pod
	b.r.writes = append(b.r.writes, func(ctx context.Context) func() {
		ctx = because(ctx, p)
		b.r.announceNode(ctx, p, node)
		err := b.writePlan(ctx, plan, node)
		return func() {
			if err != nil {
				b.r.bindFailed(t, fmt.Errorf(preBind, "VolumeBinding", err))
			} else if !t.gone {
				t.bindBy = b.r.env.Now().Add(t.class.profile.bindTime())
				b.waiting[t] = true
				b.check()
			}
		}
	})
}

// writePlan gives volumes to claims and names the node to those who provide volumes. The loop that binds volumes
// does the rest.
func (b *volumeBinder) writePlan(ctx context.Context, p *volumePlan, node string) error {
	for _, g := range p.static {
		if g.volume.Spec.ClaimRef != nil && g.volume.Spec.ClaimRef.UID != "" {
			continue
		}
		pv := resource.Clone(g.volume)
		if pv.Annotations == nil {
			pv.Annotations = map[string]string{}
		}
		if pv.Spec.ClaimRef == nil {
			pv.Annotations[boundByLoop] = "yes"
		}
		pv.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: g.claim.Namespace,
			Name: g.claim.Name, UID: g.claim.UID, ResourceVersion: g.claim.ResourceVersion}
		if _, err := b.r.env.Client.Update(ctx, kinds.PersistentVolumes, pv, ""); err != nil {
			return err
		}
	}
	for _, pvc := range p.provision {
		if pvc.Annotations[selectedNode] == node {
			continue
		}
		data, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pvc.UID,
			"annotations": map[string]string{selectedNode: node}}})
		if err != nil {
			return err
		}
		if _, err := b.r.env.Client.Patch(ctx, kinds.PersistentVolumeClaims, pvc.Namespace, pvc.Name,
			client.Patch{Type: types.MergePatchType, Data: data}); err != nil {
			return err
		}
	}
	return nil
}

// check binds the decided pods whose volumes are bound by now and gives up those that waited too long or
// whose node was refused by the provider.
func (b *volumeBinder) check() {
	for _, t := range inOrder(b.waiting) {
		ready, err := b.ready(t)
		if !ready && err == nil && b.r.env.Now().After(t.bindBy) {
			err = context.DeadlineExceeded
		}
		switch {
		case ready:
			delete(b.waiting, t)
			t.plan = nil
			b.r.devices.bind(t, b.r.st.nodes[t.node].name)
		case err != nil:
			delete(b.waiting, t)
			b.r.bindFailed(t, fmt.Errorf(preBind, "VolumeBinding", fmt.Errorf("binding volumes: %w", err)))
		}
	}
}

// ready says whether all claims are bound, or why they won't be.
func (b *volumeBinder) ready(t *task) (bool, error) {
	what := "binding"
	if len(t.plan.provision) > 0 {
		what = "provisioning pvc"
	}
	ready := true
	for _, k := range t.plan.claims {
		pvc := resource.Get(b.r.st.read, kinds.PersistentVolumeClaims, k.Namespace, k.Name)
		if pvc == nil {
			return false, fmt.Errorf("failed to check %s: persistentvolumeclaims \"%s/%s\" not found", what, k.Namespace, k.Name)
		}
		if !isBound(pvc) {
			ready = false
			continue
		}
		if n := b.r.st.nodes[t.node]; n.node != nil { // another volume than the plan's may have become its own
			pv := resource.Get(b.r.st.read, kinds.PersistentVolumes, "", pvc.Spec.VolumeName)
			if pv != nil && !near(n.node, pv) {
				return false, fmt.Errorf("pv %q node affinity doesn't match node %q: no matching NodeSelectorTerms", pv.Name, n.name)
			}
		}
	}
	if ready {
		return true, nil
	}
	for _, c := range t.plan.provision { // the provider may have taken the node off again
		pvc := resource.Get(b.r.st.read, kinds.PersistentVolumeClaims, c.Namespace, c.Name)
		switch {
		case isBound(pvc) || pvc.Annotations[selectedNode] != "" || pvc.ResourceVersion == c.ResourceVersion:
		case pvc.Annotations == nil:
			return false, fmt.Errorf("selectedNode annotation reset for PVC %q", c.Name)
		default:
			return false, fmt.Errorf("provisioning failed for PVC %q", c.Name)
		}
	}
	return false, nil
}

// settle keeps of what is assumed that of volumes which nobody has yet: after a gap the feed has not told of each change.
func (x *volumeIndex) settle(read resource.Reader) {
	maps.DeleteFunc(x.assumed, func(name string, _ key) bool {
		pv := resource.Get(read, kinds.PersistentVolumes, "", name)
		return pv == nil || pv.Spec.ClaimRef != nil
	})
	x.epoch++
}

// forget takes volumes back from a task that did not come to use them.
func (b *volumeBinder) forget(t *task) {
	if t.plan == nil {
		return
	}
	for _, g := range t.plan.static {
		delete(b.r.st.volumes.assumed, g.volume.Name)
	}
	t.plan = nil
	b.r.st.volumes.epoch++
}
