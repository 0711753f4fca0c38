package scheduler

import (
	"context"
	"encoding/json"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// writePlan gives volumes to claims and names the node to those who provide volumes. The loop that binds volumes
// does the rest.
func (r *runner) writePlan(ctx context.Context, p *volumePlan, node string) error {
	for _, g := range p.give {
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
		if _, err := r.env.Client.Update(ctx, kinds.PersistentVolumes, pv, ""); err != nil {
			return err
		}
	}
	for _, pvc := range p.provide {
		if pvc.Annotations[selectedNode] == node {
			continue
		}
		data, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pvc.UID, "annotations": map[string]string{selectedNode: node}}})
		if err != nil {
			return err
		}
		if _, err := r.env.Client.Patch(ctx, kinds.PersistentVolumeClaims, pvc.Namespace, pvc.Name,
			client.Patch{Type: types.MergePatchType, Data: data}); err != nil {
			return err
		}
	}
	return nil
}

// checkVolumes binds the decided pods whose volumes are bound by now and gives up those that waited too long or
// whose node was refused by the provider.
func (r *runner) checkVolumes() {
	for _, t := range inOrder(r.volumes) {
		ready, refused := r.volumesReady(t)
		switch {
		case ready:
			delete(r.volumes, t)
			t.plan = nil
			r.giveDevices(t, r.st.slots[t.slot].name)
		case refused:
			delete(r.volumes, t)
			r.unbound(t, errors.New("binding volumes: provisioning failed for the selected node"))
		case r.env.Now().After(t.bindBy):
			delete(r.volumes, t)
			r.unbound(t, errors.New("binding volumes: timed out waiting for the condition"))
		}
	}
}

func (r *runner) volumesReady(t *task) (ready, refused bool) {
	ready = true
	for _, k := range t.plan.claims {
		pvc := resource.Get(r.st.read, kinds.PersistentVolumeClaims, k.Namespace, k.Name)
		if pvc == nil {
			return false, true
		}
		ready = ready && isBound(pvc)
	}
	for _, c := range t.plan.provide {
		pvc := resource.Get(r.st.read, kinds.PersistentVolumeClaims, c.Namespace, c.Name)
		if pvc != nil && !isBound(pvc) && pvc.Annotations[selectedNode] == "" && pvc.ResourceVersion != c.ResourceVersion {
			refused = true // the provider took the node off again
		}
	}
	return ready, refused && !ready
}

// unpledge takes volumes back from a task that did not come to use them.
func (r *runner) unpledge(t *task) {
	if t.plan == nil {
		return
	}
	for _, g := range t.plan.give {
		delete(r.st.pledged, g.volume.Name)
	}
	t.plan = nil
	r.st.volEpoch++
}
