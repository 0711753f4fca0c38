package localstorage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/localvolume"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// What external-snapshotter puts on its objects.
const (
	protectContent  = snapshotFinal + "volumesnapshotcontent-bound-protection"
	protectSnapshot = snapshotFinal + "volumesnapshot-bound-protection"
	defaultClass    = snapshotFinal + "is-default-class"
	snapshotFinal   = "snapshot.storage.kubernetes.io/"
)

// snapshotsAgain is the pause after which is looked again at what may change unheard, such as the claim of a snapshot.
const snapshotsAgain = 5 * time.Second

// allSnapshots is the only key.
const allSnapshots = "volume-snapshots"

// Snapshots returns the loop that makes snapshots of volumes that are images, and looks after the objects of external-snapshotter for
// them. define: their definitions are made, where they are missing.
//
//	reads   VolumeSnapshotClass, VolumeSnapshot, VolumeSnapshotContent, CustomResourceDefinition, Node, PersistentVolumeClaim,
//	        PersistentVolume, StorageClass, Deployment
//	writes  VolumeSnapshotContent: create, status, delete; VolumeSnapshot: status; Node: orders, as annotations;
//	        PersistentVolumeClaim: selected node; CustomResourceDefinition: create
//	rule    a VolumeSnapshot of a class of ours has a copy of its claim's volume on the volume's node, and its content says so; a
//	        content that goes takes its copy along, if it is to be deleted; a claim made of a snapshot goes to the snapshot's node
//
// Where external-snapshotter runs, what binds VolumeSnapshots is left to it.
func Snapshots(on, install bool) *loop.Controller[*storagev1.StorageClass] {
	return &loop.Controller[*storagev1.StorageClass]{
		Name:    "volume-snapshots",
		For:     kinds.StorageClasses,
		Lone:    allSnapshots,
		Wake:    []loop.Wake{{Kind: kinds.Nodes, Keys: byOrders}, {Keys: bySnapshots}},
		Writes:  loop.Anything,
		Workers: 1,
		Rest:    20 * time.Millisecond,
		Gone: func(ctx context.Context, c *loop.Ctx, _ loop.Key) (time.Duration, error) {
			if on && install {
				if err := define(ctx, c); err != nil {
					return 0, err
				}
			}
			return snapshotPass(ctx, c)
		},
	}
}

// byOrders wakes when a node answered an order about a snapshot, or went.
func byOrders(c client.Change, _ resource.Reader, wake func(ns, name string)) {
	o, _ := c.Old.(*corev1.Node)
	n, _ := c.New.(*corev1.Node)
	if o == nil || n == nil {
		wake("", allSnapshots)
		return
	}
	was, is := localvolume.SnapshotOrders(o), localvolume.SnapshotOrders(n)
	for name, order := range is {
		if was[name] != order {
			wake("", allSnapshots)
			return
		}
	}
	if len(was) != len(is) {
		wake("", allSnapshots)
	}
}

// bySnapshots wakes for the kinds of snapshots, and for claims that are made of one.
func bySnapshots(c client.Change, _ resource.Reader, wake func(ns, name string)) {
	switch {
	case c.Kind.Info().GVK.Group == snapshotGroup:
	case c.Kind == kinds.PersistentVolumeClaims && sourceOf(resource.As[*corev1.PersistentVolumeClaim](c.Object())) != nil:
	case c.Kind == kinds.CustomResourceDefinitions && (c.Old == nil || c.New == nil):
	default:
		return
	}
	wake("", allSnapshots)
}

// A scene holds all that a pass goes by.
type scene struct {
	*loop.Ctx
	set       *resource.Set
	snapshots []*snapshot
	contents  map[string]*content
	foreign   bool // external-snapshotter's controller runs
	again     time.Duration
	orders    map[string]map[string]*localvolume.Order // by node and name; nil: it goes
	wanted    map[string]bool                          // NODE/NAME of orders that have a content
}

func snapshotPass(ctx context.Context, c *loop.Ctx) (again time.Duration, err error) {
	set := c.Client().Kinds()
	s := &scene{Ctx: c, set: set, contents: map[string]*content{}, orders: map[string]map[string]*localvolume.Order{},
		wanted: map[string]bool{}}
	for _, v := range every(c, set, contents, func(v *content, obj resource.Object) { v.obj = obj }) {
		s.contents[v.Name] = v
	}
	s.snapshots = every(c, set, snapshotObjects, func(v *snapshot, obj resource.Object) { v.obj = obj })
	s.foreign = snapshotterRuns(c)
	var errs []error
	for _, v := range s.snapshots {
		if !s.foreign {
			errs = append(errs, s.bind(ctx, v))
		}
	}
	for _, v := range s.contents {
		if v.Spec.Driver == localvolume.Provisioner {
			errs = append(errs, s.keep(ctx, v))
		}
	}
	for _, n := range resource.List(c, kinds.Nodes, "") {
		errs = append(errs, s.tell(ctx, n))
	}
	errs = append(errs, s.send(ctx))
	return s.again, errors.Join(errs...)
}

// snapshotterRuns says that external-snapshotter's controller runs in the cluster, by its manifests' and charts' labels.
func snapshotterRuns(read resource.Reader) bool {
	for _, d := range resource.List(read, kinds.Deployments, "") {
		if isSnapshotter(d) {
			return true
		}
	}
	return false
}

func isSnapshotter(d *appsv1.Deployment) bool {
	set := d.Spec.Template.Labels
	return d.DeletionTimestamp == nil && (set["app.kubernetes.io/name"] == "snapshot-controller" || set["app"] == "snapshot-controller")
}

// keep looks after a content: its copy is made, reported, or removed.
func (s *scene) keep(ctx context.Context, v *content) error {
	where, from, why := s.place(v)
	goes := v.DeletionTimestamp != nil
	switch {
	case goes && s.used(v):
		return nil
	case goes && (why != "" || v.Spec.DeletionPolicy != "Delete"):
		return s.unprotect(ctx, contents, v.obj, protectContent)
	case goes:
		return s.wipe(ctx, v, where)
	case v.Status.Ready:
		return nil
	case why != "":
		return s.troubled(ctx, contents, v.obj, v.Status.Error, why)
	case !slices.Contains(v.Finalizers, protectContent):
		return s.protect(ctx, contents, v.obj, protectContent)
	}
	want := localvolume.Order{Do: localvolume.Copy, Dir: where.Dir, Form: where.Form, From: from}
	have, err := s.order(where, want)
	switch {
	case err != nil:
		return s.troubled(ctx, contents, v.obj, v.Status.Error, err.Error())
	case have.Done:
		s.Event(kindFor(s.set, contents), v.obj, corev1.EventTypeNormal, "SnapshotReady", "the copy lies on node %s", where.Node)
		return merge(ctx, s.Ctx, contents, v.obj, "status", map[string]any{"status": map[string]any{"snapshotHandle": where.Handle(),
			"creationTime": have.At, "restoreSize": have.Bytes, "readyToUse": true, "error": nil}})
	case have.Failed != "":
		return s.troubled(ctx, contents, v.obj, v.Status.Error, "node "+where.Node+": "+have.Failed)
	}
	return nil
}

func kindFor(set *resource.Set, plural string) resource.Kind {
	k, _ := kindOf(set, plural)
	return k
}

// place says where the copy of a content lies or is to lie, and of which volume it is made; "": it is there already. why: it can't be.
func (s *scene) place(v *content) (where localvolume.Snapshot, from, why string) {
	for _, handle := range []string{v.Status.Handle, v.Spec.Source.Handle} {
		if handle == "" {
			continue
		}
		where, ok := localvolume.ParseHandle(handle)
		if !ok {
			return where, "", fmt.Sprintf("%q is no snapshot of local storage: use NODE/NAME_NAMESPACE_SNAPSHOT.FORM", handle)
		}
		return where, "", ""
	}
	pv := resource.Get(s, kinds.PersistentVolumes, "", v.Spec.Source.Volume)
	if pv == nil {
		return where, "", fmt.Sprintf("volume %q is not there", v.Spec.Source.Volume)
	}
	form := pv.Annotations[localvolume.Form]
	if !localvolume.Image(form) {
		return where, "", fmt.Sprintf("volume %q is a directory, and only images can be copied: use the class local-image", pv.Name)
	}
	where = localvolume.Snapshot{Node: pv.Annotations[localvolume.Node], Dir: localvolume.DirOf(v.Name, v.Spec.Ref.Namespace, v.Spec.Ref.Name),
		Form: form}
	return where, dirOf(pv), ""
}

// used says that the content belongs to a VolumeSnapshot that stays.
func (s *scene) used(v *content) bool {
	return slices.ContainsFunc(s.snapshots, func(o *snapshot) bool {
		return o.UID == v.Spec.Ref.UID && o.DeletionTimestamp == nil && o.Status.Content == v.Name
	})
}

// wipe removes the copy, and then lets the content go. A node that is gone has taken the copy along.
func (s *scene) wipe(ctx context.Context, v *content, where localvolume.Snapshot) error {
	have, err := s.order(where, localvolume.Order{Do: localvolume.Remove, Dir: where.Dir, Form: where.Form})
	switch {
	case err != nil, have.Done:
		return s.unprotect(ctx, contents, v.obj, protectContent)
	case have.Failed != "":
		return s.troubled(ctx, contents, v.obj, v.Status.Error, "node "+where.Node+": "+have.Failed)
	}
	return nil
}

// order has a node do something, and returns what it said. An error: the node is gone, or offers no local storage.
func (s *scene) order(where localvolume.Snapshot, want localvolume.Order) (have localvolume.Order, err error) {
	n := resource.Get(s, kinds.Nodes, "", where.Node)
	if n == nil || n.DeletionTimestamp != nil {
		return have, fmt.Errorf("node %q is gone, and the snapshot with it", where.Node)
	}
	name := where.Name()
	s.wanted[where.Node+"/"+name] = true
	have, there := localvolume.SnapshotOrders(n)[name]
	if there && have.Same(want) {
		return have, nil
	}
	if !there && len(localvolume.SnapshotOrders(n))+len(s.orders[n.Name]) >= maxOrders {
		s.again = snapshotsAgain
		return localvolume.Order{}, nil
	}
	s.note(n.Name, name, &want)
	return localvolume.Order{}, nil
}

func (s *scene) note(node, name string, o *localvolume.Order) {
	if s.orders[node] == nil {
		s.orders[node] = map[string]*localvolume.Order{}
	}
	s.orders[node][name] = o
}

// tell writes the orders that are missing onto a node, and takes off those that no content stands for.
func (s *scene) tell(ctx context.Context, n *corev1.Node) error {
	for name, o := range localvolume.SnapshotOrders(n) {
		if s.wanted[n.Name+"/"+name] {
			continue
		}
		if o.Do == localvolume.Remove && !o.Done {
			continue
		}
		s.note(n.Name, name, nil)
		if o.Do == localvolume.Copy && o.From != "" && s.contents[name] == nil && localvolume.Belongs(o.Dir, name) {
			s.note(n.Name, name, &localvolume.Order{Do: localvolume.Remove, Dir: o.Dir, Form: o.Form}) // its content was taken away by force
		}
	}
	if len(s.orders[n.Name]) == 0 {
		return nil
	}
	notes := map[string]any{}
	for name, o := range s.orders[n.Name] {
		if notes[localvolume.SnapshotPrefix+name] = nil; o != nil {
			notes[localvolume.SnapshotPrefix+name] = o.String()
		}
	}
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": n.UID, "resourceVersion": n.ResourceVersion,
		"annotations": notes}})
	if err != nil {
		return err
	}
	return s.Patch(ctx, kinds.Nodes, n, client.Patch{Type: types.MergePatchType, Data: data})
}

// send has claims made of snapshots go where the snapshot lies, before a scheduler chooses another node.
func (s *scene) send(ctx context.Context) error {
	var errs []error
	for obj := range s.Each(kinds.PersistentVolumeClaims, "") {
		p := resource.As[*corev1.PersistentVolumeClaim](obj)
		if sourceOf(p) == nil || p.Spec.VolumeName != "" || p.Annotations[selectedNode] != "" || p.DeletionTimestamp != nil {
			continue
		}
		class := classOf(s, p)
		if class == nil || class.Provisioner != localvolume.Provisioner {
			continue
		}
		r := restoreOf(s, s.set, p)
		if r.why != "" {
			continue // a look at the snapshot that is not ready comes with its change
		}
		data, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.UID, "resourceVersion": p.ResourceVersion,
			"annotations": map[string]any{selectedNode: r.from.Node}}})
		if err != nil {
			return err
		}
		errs = append(errs, s.Patch(ctx, kinds.PersistentVolumeClaims, p, client.Patch{Type: types.MergePatchType, Data: data}))
	}
	return errors.Join(errs...)
}

// troubled writes why something is not so, once.
func (s *scene) troubled(ctx context.Context, plural string, obj resource.Object, has *trouble, why string) error {
	s.again = snapshotsAgain
	s.Waiting("%s/%s: %s", plural, obj.GetName(), why)
	if has.says() == why {
		return nil
	}
	s.Event(kindFor(s.set, plural), obj, corev1.EventTypeWarning, "SnapshotCreationFailed", "%s", why)
	return merge(ctx, s.Ctx, plural, obj, "status", map[string]any{"status": map[string]any{"readyToUse": false,
		"error": trouble{why, new(metav1.NewTime(s.Now()))}}})
}

func (s *scene) protect(ctx context.Context, plural string, obj resource.Object, finalizer string) error {
	return merge(ctx, s.Ctx, plural, obj, "", map[string]any{"metadata": map[string]any{
		"finalizers": append(slices.Clone(obj.GetFinalizers()), finalizer)}})
}

func (s *scene) unprotect(ctx context.Context, plural string, obj resource.Object, finalizer string) error {
	if !slices.Contains(obj.GetFinalizers(), finalizer) {
		return nil
	}
	rest := slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), func(f string) bool { return f == finalizer })
	return merge(ctx, s.Ctx, plural, obj, "", map[string]any{"metadata": map[string]any{"finalizers": rest}})
}

// size is the form in which a VolumeSnapshot tells of bytes.
func size(bytes int64) string { return apiresource.NewQuantity(bytes, apiresource.BinarySI).String() }
