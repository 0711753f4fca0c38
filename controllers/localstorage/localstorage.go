// Package localstorage provisions PersistentVolumes on the disks of nodes: the default storage class.
//
//	reads   Nodes: the annotations of package localvolume; PersistentVolumeClaim, PersistentVolume, StorageClass, Deployment;
//	        VolumeSnapshotClass, VolumeSnapshot, VolumeSnapshotContent, CustomResourceDefinition
//	writes  StorageClass: create, delete; Node: orders, as annotations; PersistentVolume: create,
//	        update, delete; PersistentVolumeClaim: selected node, status; the kinds of snapshots: see Snapshots
//	rule    a claim of a class of ours whose pod has a node has a volume there; a released volume that is to be deleted is first
//	        removed by its node; what a claim asks for beyond what it has, it gets
//
// The node's agent makes and removes what the volumes are (package node/localstorage); this loop alone writes the objects. Each step is
// decided anew from what the API holds, so it may be cut short anywhere:
//
//	claim, its node chosen      → order "make" on the Node       → the agent makes it, answers
//	order answered              → PersistentVolume               → the binder binds it; the order goes
//	released, policy Delete     → order "remove" on the Node     → the agent removes it, answers
//	order answered              → PersistentVolume deleted       → the order goes
//	an order for which neither a claim nor a PersistentVolume stands becomes "remove": so nothing that was made is left over
//
// A directory that no order names is never touched: that an object is missing is no word to delete what people wrote.
package localstorage

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/localvolume"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// Controller returns the loop: a key for each Node, woken by the claims that are to be served there and by the volumes that lie there.
// Off: it makes nothing new, and looks after what there is.
func Controller(on bool) *loop.Controller[*corev1.Node] {
	return &loop.Controller[*corev1.Node]{
		Name: "local-storage",
		For:  kinds.Nodes,
		Wake: []loop.Wake{loop.Each(kinds.PersistentVolumeClaims, ofClaim), loop.Each(kinds.PersistentVolumes, ofVolume),
			loop.Each(kinds.StorageClasses, ofClass), loop.Each(kinds.Deployments, ofProvisioner),
			{Keys: ofSnapshot}},
		Find: func(read resource.Reader, wake func(ns, name string)) {
			for _, v := range resource.List(read, kinds.PersistentVolumes, "") {
				ofVolume(v, read, wake) // its node may be gone
			}
		},
		Writes: []resource.Kind{kinds.Nodes, kinds.PersistentVolumes, kinds.PersistentVolumeClaims},
		Rest:   20 * time.Millisecond, // many claims at a time are served by few looks
		Reconcile: func(ctx context.Context, c *loop.Ctx, n *corev1.Node) (time.Duration, error) {
			return 0, act(ctx, c, n, plan(observe(c, c.Client().Kinds(), n.Name, n, on)))
		},
		Gone: func(ctx context.Context, c *loop.Ctx, key loop.Key) (time.Duration, error) {
			return 0, act(ctx, c, nil, plan(observe(c, c.Client().Kinds(), key.Name, nil, on)))
		},
	}
}

func observe(c resource.Reader, set *resource.Set, name string, n *corev1.Node, on bool) world {
	w := world{name: name, node: n}
	if n != nil && n.DeletionTimestamp == nil {
		w.path, w.orders = n.Annotations[localvolume.Path], localvolume.Orders(n)
		if core.Simulated(n) {
			w.path = localvolume.SimulatedPath
		}
	}
	for obj := range c.ByLabel(kinds.PersistentVolumes, "", localvolume.Node, localvolume.Label(name)) {
		if v := obj.(*corev1.PersistentVolume); v.Annotations[localvolume.Node] == name {
			w.volumes = append(w.volumes, volume{v, claimOf(c, v)})
		}
	}
	if !on || n == nil {
		return w
	}
	for obj := range c.Each(kinds.PersistentVolumeClaims, "") {
		p := obj.(*corev1.PersistentVolumeClaim)
		if nodeOf(p) != name || p.DeletionTimestamp != nil {
			continue
		}
		if s := classOf(c, p); s != nil && s.Provisioner == localvolume.Provisioner {
			x := wish{claim: p, class: s}
			if sourceOf(p) != nil {
				x.source = new(restoreOf(c, set, p))
			}
			w.wishes = append(w.wishes, x)
		}
	}
	if len(w.wishes) > 0 && served(c) {
		w.wishes = nil
	}
	return w
}

// nodeOf is the node that a claim's volume is to be made on; "": none yet, or there is a volume.
func nodeOf(p *corev1.PersistentVolumeClaim) string {
	if p.Spec.VolumeName != "" || p.Annotations[provisioner] != localvolume.Provisioner {
		return ""
	}
	return p.Annotations[selectedNode]
}

func classOf(read resource.Reader, p *corev1.PersistentVolumeClaim) *storagev1.StorageClass {
	return resource.Get(read, kinds.StorageClasses, "", core.ClaimClass(p))
}

// claimOf is the claim that the volume names, if it is that very one.
func claimOf(read resource.Reader, v *corev1.PersistentVolume) *corev1.PersistentVolumeClaim {
	ref := v.Spec.ClaimRef
	if ref == nil {
		return nil
	}
	p := resource.Get(read, kinds.PersistentVolumeClaims, ref.Namespace, ref.Name)
	if p == nil || p.UID != ref.UID {
		return nil
	}
	return p
}

// served says that rancher's own provisioner runs in the cluster: new claims are its business then.
func served(read resource.Reader) bool {
	for obj := range read.Each(kinds.Deployments, "") {
		if isProvisioner(obj) {
			return true
		}
	}
	return false
}

// isProvisioner knows a Deployment of rancher's provisioner by the labels of its manifest or of its chart.
func isProvisioner(obj resource.Object) bool {
	d := resource.As[*appsv1.Deployment](obj)
	labels := d.Spec.Template.Labels
	return d.DeletionTimestamp == nil && (labels["app"] == "local-path-provisioner" ||
		labels["app.kubernetes.io/name"] == "local-path-provisioner")
}

// act does all that can be done, whatever is refused: an object that somebody's rules don't let through keeps no other waiting.
func act(ctx context.Context, c *loop.Ctx, n *corev1.Node, d todo) error {
	errs := []error{refuse(ctx, c, d)}
	each := func(n int, f func(i int) error) {
		_, err := loop.All(n, f)
		errs = append(errs, err)
	}
	each(len(d.create), func(i int) error { return create(ctx, c, d.create[i], n) })
	each(len(d.enlarge), func(i int) error { return c.Update(ctx, kinds.PersistentVolumes, d.enlarge[i]) })
	each(len(d.enlarged), func(i int) error {
		p := d.enlarged[i]
		if err := c.UpdateStatus(ctx, kinds.PersistentVolumeClaims, p); err != nil {
			return err
		}
		size := p.Status.Capacity[corev1.ResourceStorage]
		c.Event(kinds.PersistentVolumeClaims, p, corev1.EventTypeNormal, "VolumeResizeSuccessful",
			"Resize volume succeeded: it has %s", size.String())
		return nil
	})
	each(len(d.remove), func(i int) error {
		if v := d.remove[i]; v.DeletionTimestamp != nil {
			return unfinalize(ctx, c, v)
		}
		return c.Delete(ctx, kinds.PersistentVolumes, d.remove[i]) // its finalizer goes in the next pass
	})
	each(len(d.letGo), func(i int) error { return unfinalize(ctx, c, d.letGo[i]) })
	return errors.Join(append(errs, order(ctx, c, n, d))...)
}

// refuse tells of what can't be had, and lets the scheduler choose another node where that may help.
func refuse(ctx context.Context, c *loop.Ctx, d todo) error {
	for _, f := range d.failed {
		if f.claim != nil {
			c.Event(kinds.PersistentVolumeClaims, f.claim, corev1.EventTypeWarning, "VolumeResizeFailed",
				"resize volume %q failed: %s", f.pv.Name, f.why)
		} else {
			c.Event(kinds.PersistentVolumes, f.pv, corev1.EventTypeWarning, "VolumeFailedDelete", "%s", f.why)
		}
		c.Waiting("persistentvolume/%s: %s", f.pv.Name, f.why)
	}
	_, err := loop.All(len(d.refuse), func(i int) error {
		r := d.refuse[i]
		c.Event(kinds.PersistentVolumeClaims, r.claim, corev1.EventTypeWarning, "ProvisioningFailed",
			"failed to provision volume with StorageClass %q: %s",
			core.ClaimClass(r.claim), r.why)
		if !r.move {
			return nil
		}
		data, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": r.claim.UID, "resourceVersion": r.claim.ResourceVersion,
			"annotations": map[string]any{selectedNode: nil}}})
		if err != nil {
			return err
		}
		return c.Patch(ctx, kinds.PersistentVolumeClaims, r.claim, client.Patch{Type: types.MergePatchType, Data: data})
	})
	return err
}

func create(ctx context.Context, c *loop.Ctx, x wish, n *corev1.Node) error {
	path := n.Annotations[localvolume.Path]
	if core.Simulated(n) {
		path = localvolume.SimulatedPath
	}
	v := persistentVolume(x, n, path)
	_, err := c.Create(ctx, kinds.PersistentVolumes, v)
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil
	case err != nil:
		c.Event(kinds.PersistentVolumeClaims, x.claim, corev1.EventTypeWarning, "ProvisioningFailed", "%v", err)
		return err
	}
	c.Event(kinds.PersistentVolumeClaims, x.claim, corev1.EventTypeNormal, "ProvisioningSucceeded",
		"Successfully provisioned volume %s", v.Name)
	return nil
}

// unfinalize lets go of an object that is being deleted.
func unfinalize(ctx context.Context, c *loop.Ctx, v *corev1.PersistentVolume) error {
	next := resource.Clone(v)
	next.Finalizers = nil
	for _, f := range v.Finalizers {
		if f != localvolume.Finalizer {
			next.Finalizers = append(next.Finalizers, f)
		}
	}
	if len(next.Finalizers) == len(v.Finalizers) {
		return nil
	}
	return c.Update(ctx, kinds.PersistentVolumes, next)
}

// order writes the orders that are missing onto the Node, and takes off those that are done with.
func order(ctx context.Context, c *loop.Ctx, n *corev1.Node, d todo) error {
	if n == nil {
		return nil
	}
	notes := map[string]any{}
	for name, o := range d.set {
		notes[localvolume.OrderPrefix+name] = o.String()
	}
	for _, name := range d.drop {
		notes[localvolume.OrderPrefix+name] = nil
	}
	for _, name := range d.orphans {
		alone, err := orphan(ctx, c, name)
		if err != nil {
			return err
		}
		if o := localvolume.Orders(n)[name]; alone {
			notes[localvolume.OrderPrefix+name] = localvolume.Order{Do: localvolume.Remove, Dir: o.Dir, Form: o.Form}.String()
		}
	}
	if len(notes) == 0 {
		return nil
	}
	for _, p := range d.begun {
		c.Event(kinds.PersistentVolumeClaims, p, corev1.EventTypeNormal, "Provisioning",
			"External provisioner is provisioning volume for claim \"%s/%s\"",
			p.Namespace, p.Name)
	}
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": n.UID, "resourceVersion": n.ResourceVersion,
		"annotations": notes}})
	if err != nil {
		return err
	}
	return c.Patch(ctx, kinds.Nodes, n, client.Patch{Type: types.MergePatchType, Data: data})
}

// orphan asks the server itself that there is no such volume: what this loop reads may be behind, and data is at stake.
func orphan(ctx context.Context, c *loop.Ctx, name string) (bool, error) {
	_, err := c.Client().Get(ctx, kinds.PersistentVolumes, "", name)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return false, err
}

func ofClaim(obj resource.Object, read resource.Reader, wake func(ns, name string)) {
	p := resource.As[*corev1.PersistentVolumeClaim](obj)
	if n := nodeOf(p); n != "" {
		wake("", n)
	}
	if p.Spec.VolumeName == "" {
		ofMade(read, nameOf(p), wake) // it may be gone before its volume was bound
		return
	}
	ofMade(read, p.Spec.VolumeName, wake)
}

func ofMade(read resource.Reader, name string, wake func(ns, name string)) {
	if v := resource.Get(read, kinds.PersistentVolumes, "", name); v != nil {
		ofVolume(v, read, wake)
	}
}

func ofVolume(obj resource.Object, _ resource.Reader, wake func(ns, name string)) {
	if n := obj.GetAnnotations()[localvolume.Node]; n != "" {
		wake("", n)
	}
}

// ofClass wakes the nodes of the claims that wait for a volume of the class.
func ofClass(obj resource.Object, read resource.Reader, wake func(ns, name string)) {
	for o := range read.Each(kinds.PersistentVolumeClaims, "") {
		if p := o.(*corev1.PersistentVolumeClaim); nodeOf(p) != "" && core.ClaimClass(p) == obj.GetName() {
			wake("", nodeOf(p))
		}
	}
}

// ofSnapshot wakes the nodes of the claims that wait for a snapshot.
func ofSnapshot(c client.Change, read resource.Reader, wake func(ns, name string)) {
	if c.Kind.Info().GVK.Group != snapshotGroup {
		return
	}
	for o := range read.Each(kinds.PersistentVolumeClaims, "") {
		if p := resource.As[*corev1.PersistentVolumeClaim](o); sourceOf(p) != nil && nodeOf(p) != "" {
			wake("", nodeOf(p))
		}
	}
}

// ofProvisioner wakes the nodes of all claims that wait: somebody else may serve them now, or no longer.
func ofProvisioner(obj resource.Object, read resource.Reader, wake func(ns, name string)) {
	if !isProvisioner(obj) {
		return
	}
	for o := range read.Each(kinds.PersistentVolumeClaims, "") {
		if n := nodeOf(o.(*corev1.PersistentVolumeClaim)); n != "" {
			wake("", n)
		}
	}
}
