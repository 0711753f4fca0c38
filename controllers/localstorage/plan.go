package localstorage

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/kloop-dev/kloop/kinds/localvolume"
	"github.com/kloop-dev/kloop/resource"
)

// maxOrders bounds what stands on one Node at a time: its annotations are. The rest follows when some are done.
const maxOrders = 100

// A world holds all that a plan for one node goes by.
type world struct {
	name    string
	node    *corev1.Node // nil: it is gone
	path    string       // where its agent keeps volumes; "": nowhere
	orders  map[string]localvolume.Order
	wishes  []wish
	volumes []volume
}

// A wish is a claim that is to have its volume on the node.
type wish struct {
	claim *corev1.PersistentVolumeClaim
	class *storagev1.StorageClass

	source *restore // what it is to be made of; nil: it is to be empty
}

// form is the form that its volume gets: that of the snapshot which it is made of.
func (x *wish) form() string {
	if x.source != nil && x.source.from.Form != "" {
		return x.source.from.Form
	}
	return formOf(x.class, x.claim)
}

// A volume is one of ours on the node.
type volume struct {
	pv    *corev1.PersistentVolume
	claim *corev1.PersistentVolumeClaim // that it is bound to or made for; nil: that is gone
}

// A refusal is a claim that can't have its volume here.
type refusal struct {
	claim *corev1.PersistentVolumeClaim
	why   string
	move  bool // another node may be better
}

// A failure is a volume that could not be removed or enlarged yet.
type failure struct {
	pv    *corev1.PersistentVolume
	claim *corev1.PersistentVolumeClaim // that asks for more; nil: the volume is to be removed
	why   string
}

// A todo lists the writes that are missing.
type todo struct {
	set      map[string]localvolume.Order
	drop     []string // orders
	begun    []*corev1.PersistentVolumeClaim
	create   []wish
	refuse   []refusal
	failed   []failure
	remove   []*corev1.PersistentVolume // what they stood for is gone
	letGo    []*corev1.PersistentVolume // without what they stand for
	enlarge  []*corev1.PersistentVolume // as they should be
	enlarged []*corev1.PersistentVolumeClaim
	orphans  []string // volumes that neither a claim nor a PersistentVolume asks for, but a node made
}

// plan is pure.
func plan(w world) todo {
	d := todo{set: map[string]localvolume.Order{}}
	wanted := map[string]bool{} // volumes that have a claim or a PersistentVolume here
	for _, v := range w.volumes {
		wanted[v.pv.Name] = true
		d.volume(w, v)
	}
	for _, x := range w.wishes {
		if name := nameOf(x.claim); !wanted[name] {
			wanted[name] = true
			d.wish(w, x)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.orders)) {
		o := w.orders[name]
		switch {
		case wanted[name]:
		case o.Do == localvolume.Make && localvolume.Belongs(o.Dir, name):
			d.orphans = append(d.orphans, name)
		case o.Do != localvolume.Remove || o.Done || !localvolume.Belongs(o.Dir, name):
			d.drop = append(d.drop, name)
		}
	}
	d.bound(len(w.orders))
	return d
}

// bound leaves for later what would be too many orders at a time.
func (d *todo) bound(have int) {
	for _, name := range slices.Sorted(maps.Keys(d.set)) {
		if have++; have > maxOrders {
			delete(d.set, name)
		}
	}
}

// wish has the agent make the volume of a claim, and then the PersistentVolume made.
func (d *todo) wish(w world, x wish) {
	name, form := nameOf(x.claim), x.form()
	size := x.claim.Spec.Resources.Requests[corev1.ResourceStorage]
	want := localvolume.Order{Do: localvolume.Make, Dir: localvolume.DirOf(name, x.claim.Namespace, x.claim.Name), Form: form,
		Size: size.Value()}
	if x.source != nil && x.source.why == "" {
		want.From = x.source.from.File()
	}
	if why := unfit(x); why != "" {
		d.refuse = append(d.refuse, refusal{claim: x.claim, why: why})
		return
	}
	if w.path == "" {
		d.refuse = append(d.refuse, refusal{x.claim,
			"node " + w.name + " offers no local storage: its agent is another's, or has it switched off", true})
		return
	}
	if x.source != nil && x.source.from.Node != w.name {
		d.refuse = append(d.refuse, refusal{x.claim, "snapshot " + x.source.name + " lies on node " + x.source.from.Node, true})
		return
	}
	have, ordered := w.orders[name]
	switch {
	case !ordered || !have.Same(want):
		d.set[name], d.begun = want, append(d.begun, x.claim)
	case have.Done:
		d.create = append(d.create, x)
	case have.Failed != "":
		d.refuse = append(d.refuse, refusal{x.claim, "node " + w.name + ": " + have.Failed, true})
	}
}

// volume looks after one that has been made.
func (d *todo) volume(w world, v volume) {
	pv, claim := v.pv, v.claim
	order, ordered := w.orders[pv.Name]
	goes := claim == nil && (pv.DeletionTimestamp != nil || pv.Status.Phase == corev1.VolumeReleased || pv.Status.Phase == corev1.VolumeFailed)
	switch {
	case goes && pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete:
		d.wipe(w, pv, order, ordered)
	case goes && pv.DeletionTimestamp != nil: // to be kept, whatever becomes of the object
		d.letGo = append(d.letGo, pv)
	case claim != nil && claim.Spec.VolumeName == pv.Name && claim.Status.Phase == corev1.ClaimBound && d.grow(w, pv, claim, order):
	case ordered: // it is made, which the PersistentVolume records, or no longer to be removed
		d.drop = append(d.drop, pv.Name)
	}
}

// wipe has the agent remove what the volume stands for, and then the object. A node that is gone has taken it along.
func (d *todo) wipe(w world, pv *corev1.PersistentVolume, have localvolume.Order, ordered bool) {
	want := localvolume.Order{Do: localvolume.Remove, Dir: dirOf(pv), Form: pv.Annotations[localvolume.Form]}
	switch {
	case w.node == nil:
		d.remove = append(d.remove, pv)
	case !localvolume.Belongs(want.Dir, pv.Name):
		d.failed = append(d.failed, failure{pv, nil, "its path is not one that local storage gives"})
	case !ordered || !have.Same(want):
		d.set[pv.Name] = want
	case have.Done:
		d.remove = append(d.remove, pv)
	case have.Failed != "":
		d.failed = append(d.failed, failure{pv, nil, "node " + w.name + ": " + have.Failed})
	}
}

// grow gives a claim what it asks for now. True: an order for that stands, or has to.
func (d *todo) grow(w world, pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim, have localvolume.Order) bool {
	want, size, has := claim.Spec.Resources.Requests[corev1.ResourceStorage], pv.Spec.Capacity[corev1.ResourceStorage],
		claim.Status.Capacity[corev1.ResourceStorage]
	if want.Cmp(size) <= 0 {
		if want.Cmp(has) > 0 {
			next := resource.Clone(claim)
			next.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: size}
			d.enlarged = append(d.enlarged, next)
		}
		return false
	}
	form := pv.Annotations[localvolume.Form]
	order := localvolume.Order{Do: localvolume.Grow, Dir: dirOf(pv), Form: form, Size: want.Value()}
	switch {
	case !localvolume.Image(form) || have.Done && have.Same(order):
		next := resource.Clone(pv)
		next.Spec.Capacity[corev1.ResourceStorage] = want
		d.enlarge = append(d.enlarge, next)
	case w.node == nil: // nobody is there to do it
	case !have.Same(order):
		d.set[pv.Name] = order
	case have.Failed != "":
		d.failed = append(d.failed, failure{pv, claim, "node " + w.name + ": " + have.Failed})
	}
	return true
}
