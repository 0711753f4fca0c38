// Package attachdetach has volumes attached to the nodes that need them, by way of the CSI drivers' attachers.
//
//	reads   Node, the Pods on it, their PersistentVolumeClaims and PersistentVolumes, CSIDriver, VolumeAttachment
//	writes  VolumeAttachment: create, delete; Node: status.volumesAttached
//	rule    a volume of a pod on a node has an attachment to that node; one that no pod there needs, and that the node no
//	        longer uses, has none; a volume for one node is attached to one
//
// An agent mounts only what it has put into status.volumesInUse and then reads in status.volumesAttached. So a volume is first taken
// out of volumesAttached, by a write that fails if the Node changed since it was seen that the volume is not in use; then the attachment
// goes. The other way round an agent could mount a volume that is being detached.
package attachdetach

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// managed marks nodes whose agent leaves attaching to this loop.
const managed = "volumes.kubernetes.io/controller-managed-attach-detach"

// Controller returns the loop: wake on a Node, on its Pods that have claims, on their claims and volumes, and on attachments.
func Controller(took Took) *loop.Controller[*corev1.Node] {
	r := &requests{of: map[string]map[types.UID]time.Time{}}
	return &loop.Controller[*corev1.Node]{
		Name: "attach-detach",
		For:  kinds.Nodes,
		Skip: func(n *corev1.Node) bool { return n.Annotations[managed] != "true" },
		Wake: []loop.Wake{loop.Deleted(kinds.Nodes),
			loop.Each(kinds.Pods, ofPod), loop.Each(kinds.PersistentVolumeClaims, ofClaim),
			loop.Each(kinds.PersistentVolumes, ofVolume), loop.Each(kinds.VolumeAttachments, ofAttachment),
			{Kind: kinds.VolumeAttachments, Keys: took.attachment}, {Kind: kinds.PersistentVolumeClaims, Keys: took.claim},
		},
		Find:      abandoned,
		Writes:    []resource.Kind{kinds.VolumeAttachments, kinds.Nodes},
		Reconcile: r.reconcile,
		Gone:      r.gone,
	}
}

// requests remember since when volumes are asked back of nodes. After a restart they are asked anew, and the nodes have all the time again.
type requests struct {
	mu sync.Mutex
	of map[string]map[types.UID]time.Time // by node, by attachment
}

func (r *requests) get(node string) map[types.UID]time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.of[node]
}

func (r *requests) set(node string, asked map[types.UID]time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of[node] = asked; len(asked) == 0 {
		delete(r.of, node)
	}
}

// gone detaches what a node that was removed had, once no pod is left there: nobody else does.
func (r *requests) gone(ctx context.Context, c *loop.Ctx, key loop.Key) (time.Duration, error) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: key.Name}}
	r.set(key.Name, nil)
	todo := plan(n, wanted(c, n), resource.List(c, kinds.VolumeAttachments, ""), nil, c.Now())
	return 0, detach(ctx, c, todo.detach)
}

// abandoned names the nodes of attachments, which may not be there any more.
func abandoned(read resource.Reader, wake func(ns, name string)) {
	for _, va := range resource.List(read, kinds.VolumeAttachments, "") {
		wake("", va.Spec.NodeName)
	}
}

func detach(ctx context.Context, c *loop.Ctx, list []*storagev1.VolumeAttachment) error {
	_, err := loop.All(len(list), func(i int) error { return c.Delete(ctx, kinds.VolumeAttachments, list[i]) })
	return err
}

func (r *requests) reconcile(ctx context.Context, c *loop.Ctx, n *corev1.Node) (time.Duration, error) {
	want := wanted(c, n) // observe
	have := resource.List(c, kinds.VolumeAttachments, "")
	todo := plan(n, want, have, r.get(n.Name), c.Now()) // decide
	r.set(n.Name, todo.asked)
	for _, u := range todo.taken { // act
		c.Event(kinds.Pods, u.pod, corev1.EventTypeWarning, "FailedAttachVolume", "Waiting for detach for volume %q %s", u.pv,
			holders(c, u, n.Name))
		c.Waiting("volume %s is attached to another node", u.pv)
	}
	_, refused := loop.All(len(todo.attach), func(i int) error {
		if _, err := c.Create(ctx, kinds.VolumeAttachments, todo.attach[i]); !apierrors.IsAlreadyExists(err) {
			return err
		}
		return nil
	})
	if err := tell(ctx, c, n, want, todo.attached); err != nil { // of the others, whatever was refused
		return 0, errors.Join(refused, err)
	}
	return todo.again, errors.Join(refused, detach(ctx, c, todo.detach))
}

// tell writes what is attached. The write fails if the Node changed: what is to be detached may be in use by now.
func tell(ctx context.Context, c *loop.Ctx, n *corev1.Node, want []use, attached []corev1.AttachedVolume) error {
	if equality.Semantic.DeepEqual(n.Status.VolumesAttached, attached) {
		return nil
	}
	next := resource.Clone(n)
	next.Status.VolumesAttached = attached
	if err := c.UpdateStatus(ctx, kinds.Nodes, next); err != nil {
		return err
	}
	for _, u := range want {
		is := func(a corev1.AttachedVolume) bool { return a.Name == unique(u.driver, u.handle) }
		if slices.ContainsFunc(attached, is) && !slices.ContainsFunc(n.Status.VolumesAttached, is) {
			c.Event(kinds.Pods, u.pod, corev1.EventTypeNormal, "SuccessfulAttachVolume", "AttachVolume.Attach succeeded for volume %q ", u.pv)
		}
	}
	return nil
}

// holders tells, in upstream's words, why a volume can't be attached yet: by the pods elsewhere that use it.
func holders(read resource.Reader, u use, node string) string {
	var names []string
	if v := resource.Get(read, kinds.PersistentVolumes, "", u.pv); v != nil && v.Spec.ClaimRef != nil {
		for _, p := range resource.List(read, kinds.Pods, v.Spec.ClaimRef.Namespace) {
			if p.Spec.NodeName != "" && p.Spec.NodeName != node && slices.Contains(core.ClaimNames(p), v.Spec.ClaimRef.Name) {
				names = append(names, p.Name)
			}
		}
	}
	if len(names) == 0 {
		return "Volume is already exclusively attached to one node, waiting on detach before it can be attached to another node"
	}
	return "Volume is already used by pod(s) " + strings.Join(names[:min(len(names), 10)], ", ")
}

// wanted lists the volumes that the pods on the node need attached, each once.
func wanted(read resource.Reader, n *corev1.Node) (list []use) {
	for _, p := range resource.Where(read, kinds.Pods, "spec.nodeName", n.Name) {
		if core.Terminal(p) {
			continue
		}
		for _, name := range core.ClaimNames(p) {
			v := volumeOf(read, p.Namespace, name)
			if v == nil || v.Spec.CSI == nil || !attachable(read, v.Spec.CSI.Driver) {
				continue
			}
			if !slices.ContainsFunc(list, func(u use) bool { return u.pv == v.Name }) {
				list = append(list, use{pv: v.Name, driver: v.Spec.CSI.Driver, handle: v.Spec.CSI.VolumeHandle, alone: alone(v), pod: p})
			}
		}
	}
	return list
}

// volumeOf is the volume that the claim is bound to, or nil.
func volumeOf(read resource.Reader, ns, claim string) *corev1.PersistentVolume {
	pvc := resource.Get(read, kinds.PersistentVolumeClaims, ns, claim)
	if pvc == nil || pvc.Status.Phase != corev1.ClaimBound {
		return nil
	}
	return resource.Get(read, kinds.PersistentVolumes, "", pvc.Spec.VolumeName)
}

// attachable says whether volumes of the driver have to be attached: unless it says that they don't.
func attachable(read resource.Reader, driver string) bool {
	d := resource.Get(read, kinds.CSIDrivers, "", driver)
	return d == nil || d.Spec.AttachRequired == nil || *d.Spec.AttachRequired
}

// alone says whether the volume may be attached to one node only.
func alone(v *corev1.PersistentVolume) bool {
	return !slices.ContainsFunc(v.Spec.AccessModes, func(m corev1.PersistentVolumeAccessMode) bool {
		return m == corev1.ReadWriteMany || m == corev1.ReadOnlyMany
	})
}

func ofPod(obj resource.Object, _ resource.Reader, wake func(ns, name string)) {
	if p := obj.(*corev1.Pod); p.Spec.NodeName != "" && len(core.ClaimNames(p)) > 0 {
		wake("", p.Spec.NodeName)
	}
}

func ofClaim(obj resource.Object, read resource.Reader, wake func(ns, name string)) {
	usersOf(read, obj.GetNamespace(), obj.GetName(), wake)
}

func ofVolume(obj resource.Object, read resource.Reader, wake func(ns, name string)) {
	if ref := obj.(*corev1.PersistentVolume).Spec.ClaimRef; ref != nil {
		usersOf(read, ref.Namespace, ref.Name, wake)
	}
}

// ofAttachment wakes its node, and those that may have waited for it to go.
func ofAttachment(obj resource.Object, read resource.Reader, wake func(ns, name string)) {
	va := obj.(*storagev1.VolumeAttachment)
	wake("", va.Spec.NodeName)
	if pv := va.Spec.Source.PersistentVolumeName; pv != nil {
		if v := resource.Get(read, kinds.PersistentVolumes, "", *pv); v != nil {
			ofVolume(v, read, wake)
		}
	}
}

// usersOf wakes the nodes of the pods that use the claim.
func usersOf(read resource.Reader, ns, claim string, wake func(ns, name string)) {
	for _, p := range resource.List(read, kinds.Pods, ns) {
		if p.Spec.NodeName != "" && slices.Contains(core.ClaimNames(p), claim) {
			wake("", p.Spec.NodeName)
		}
	}
}
