package localstorage

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/localvolume"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
)

// bind looks after a VolumeSnapshot of ours: it has a content, and its status tells what that does. Those of other drivers are left
// alone.
func (s *scene) bind(ctx context.Context, v *snapshot) error {
	name := v.Status.Content
	if name == "" {
		name = v.Spec.Source.Content
	}
	if name == "" {
		name = contentOf(v)
	}
	k := s.contents[name]
	switch {
	case v.DeletionTimestamp != nil:
		return s.release(ctx, v, k)
	case k == nil && v.Status.Content != "":
		if !slices.Contains(v.Finalizers, protectSnapshot) {
			return nil // it was never ours
		}
		return s.troubled(ctx, snapshotObjects, v.obj, v.Status.Error, "VolumeSnapshotContent is missing")
	case k == nil && v.Spec.Source.Content != "":
		return nil // it may come, and be anybody's
	case k == nil:
		return s.begin(ctx, v)
	case k.Spec.Driver != localvolume.Provisioner:
		return nil
	case k.Spec.Ref.Namespace != v.Namespace || k.Spec.Ref.Name != v.Name || k.Spec.Ref.UID != "" && k.Spec.Ref.UID != v.UID:
		return s.troubled(ctx, snapshotObjects, v.obj, v.Status.Error,
			fmt.Sprintf("VolumeSnapshotContent [%s] is bound to a different snapshot", k.Name))
	case k.Spec.Ref.UID == "":
		return merge(ctx, s.Ctx, contents, k.obj, "", map[string]any{"spec": map[string]any{"volumeSnapshotRef": map[string]any{"uid": v.UID}}})
	case !slices.Contains(v.Finalizers, protectSnapshot):
		return s.protect(ctx, snapshotObjects, v.obj, protectSnapshot)
	}
	return s.show(ctx, v, k)
}

// contentOf is the name of a snapshot's content, as external-snapshotter makes it.
func contentOf(v *snapshot) string { return "snapcontent-" + string(v.UID) }

// show has the snapshot's status tell what its content does.
func (s *scene) show(ctx context.Context, v *snapshot, k *content) error {
	if v.Status.Content == k.Name && v.Status.Ready == k.Status.Ready && v.Status.Error.says() == k.Status.Error.says() {
		return nil
	}
	st := map[string]any{"boundVolumeSnapshotContentName": k.Name, "readyToUse": k.Status.Ready, "error": k.Status.Error}
	if k.Status.Ready {
		st["restoreSize"], st["creationTime"] = size(k.Status.Size), metav1.NewTime(time.Unix(0, k.Status.At).UTC())
	}
	return merge(ctx, s.Ctx, snapshotObjects, v.obj, "status", map[string]any{"status": st})
}

// begin makes the content of a snapshot of a claim, if that is ours to do.
func (s *scene) begin(ctx context.Context, v *snapshot) error {
	pvc := resource.Get(s, kinds.PersistentVolumeClaims, v.Namespace, v.Spec.Source.Claim)
	var pv *corev1.PersistentVolume
	if pvc != nil && pvc.Status.Phase == corev1.ClaimBound {
		pv = resource.Get(s, kinds.PersistentVolumes, "", pvc.Spec.VolumeName)
	}
	class, why := s.class(v, pv)
	switch {
	case class == nil && why == "", class != nil && class.Driver != localvolume.Provisioner:
		return nil
	case why != "":
	case pvc == nil:
		why = fmt.Sprintf("failed to get input PVC %s/%s: it is not there", v.Namespace, v.Spec.Source.Claim)
	case pv == nil:
		why = fmt.Sprintf("the PVC %s is not yet bound to a PV, will not attempt to take a snapshot", pvc.Name)
	case pv.Annotations[localvolume.Node] == "":
		why = fmt.Sprintf("the volume of PVC %s is none of local storage, as the class %s wants", pvc.Name, class.Name)
	}
	if why != "" {
		return s.troubled(ctx, snapshotObjects, v.obj, v.Status.Error, why)
	}
	if !slices.Contains(v.Finalizers, protectSnapshot) {
		return s.protect(ctx, snapshotObjects, v.obj, protectSnapshot)
	}
	k := kindFor(s.set, contents)
	mode := corev1.PersistentVolumeFilesystem
	if pv.Spec.VolumeMode != nil {
		mode = *pv.Spec.VolumeMode
	}
	text, err := json.Marshal(map[string]any{"apiVersion": k.Info().GVK.GroupVersion().String(), "kind": k.Info().GVK.Kind,
		"metadata": map[string]any{"name": contentOf(v), "finalizers": []string{protectContent}},
		"spec": map[string]any{"deletionPolicy": class.DeletionPolicy, "driver": class.Driver, "volumeSnapshotClassName": class.Name,
			"source": map[string]any{"volumeHandle": pv.Name}, "sourceVolumeMode": mode,
			"volumeSnapshotRef": map[string]any{"apiVersion": snapshotGroup + "/v1", "kind": snapshotKind, "namespace": v.Namespace, "name": v.Name,
				"uid": v.UID, "resourceVersion": v.ResourceVersion}}})
	if err != nil {
		return err
	}
	obj := k.New(k.Info().GVK)
	if _, err := codec.UnmarshalJSON(text, obj); err != nil {
		return err
	}
	if _, err := s.Create(ctx, k, obj); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	s.Event(kindFor(s.set, snapshotObjects), v.obj, corev1.EventTypeNormal, "CreatingSnapshot",
		"Waiting for a snapshot %s/%s to be created by the CSI driver.", v.Namespace, v.Name)
	return nil
}

// class is that of a snapshot: the one that it names, or the default of the driver of its volume. nil: it is nobody's that is known here.
func (s *scene) class(v *snapshot, pv *corev1.PersistentVolume) (class *snapshotClass, why string) {
	if v.Spec.Class != nil {
		class = &snapshotClass{}
		if _, ok := look(s, s.set, snapshotClasses, "", *v.Spec.Class, class); !ok {
			return nil, fmt.Sprintf("failed to retrieve snapshot class %s: it is not there", *v.Spec.Class)
		}
		return class, ""
	}
	if pv == nil || pv.Annotations[localvolume.Node] == "" {
		return nil, ""
	}
	for _, k := range every(s, s.set, snapshotClasses, func(*snapshotClass, resource.Object) {}) {
		if k.Annotations[defaultClass] == "true" && k.Driver == localvolume.Provisioner {
			return k, ""
		}
	}
	return nil, "cannot find default snapshot class: there is none with the driver " + localvolume.Provisioner
}

// release lets a VolumeSnapshot go, when its content has gone or is to be kept.
func (s *scene) release(ctx context.Context, v *snapshot, k *content) error {
	if !slices.Contains(v.Finalizers, protectSnapshot) {
		return nil
	}
	if k == nil || k.Spec.Ref.UID != v.UID || k.Spec.DeletionPolicy != "Delete" {
		return s.unprotect(ctx, snapshotObjects, v.obj, protectSnapshot)
	}
	if k.Spec.Driver != localvolume.Provisioner || k.DeletionTimestamp != nil {
		return nil // it is going
	}
	return s.Delete(ctx, kindFor(s.set, contents), k.obj)
}

// A restore is a snapshot that a claim is to be made of.
type restore struct {
	from  localvolume.Snapshot
	bytes int64
	name  string
	why   string // why that can't be; "": it can
}

// sourceOf returns the thing that a claim is to be made of; nil: it is to be empty.
func sourceOf(p *corev1.PersistentVolumeClaim) *corev1.TypedObjectReference {
	switch {
	case p.Spec.DataSourceRef != nil:
		return p.Spec.DataSourceRef
	case p.Spec.DataSource != nil:
		return &corev1.TypedObjectReference{APIGroup: p.Spec.DataSource.APIGroup, Kind: p.Spec.DataSource.Kind, Name: p.Spec.DataSource.Name}
	}
	return nil
}

// restoreOf finds the snapshot that a claim names. Both have to be of one namespace, and snapshot and content have to name each other: a
// claim is given nobody else's data.
func restoreOf(read resource.Reader, set *resource.Set, p *corev1.PersistentVolumeClaim) (r restore) {
	ref := sourceOf(p)
	if ref.Kind != snapshotKind || ref.APIGroup == nil || *ref.APIGroup != snapshotGroup {
		r.why = "local storage makes empty volumes, and copies of a VolumeSnapshot: no dataSource of the kind " + ref.Kind
		return r
	}
	if ref.Namespace != nil && *ref.Namespace != p.Namespace {
		r.why = "a VolumeSnapshot of another namespace is not given away"
		return r
	}
	var v snapshot
	var k content
	if _, ok := look(read, set, snapshotObjects, p.Namespace, ref.Name, &v); !ok {
		r.why = fmt.Sprintf("error getting snapshot %s from api server: it is not there", ref.Name)
		return r
	}
	_, ok := look(read, set, contents, "", v.Status.Content, &k)
	switch {
	case !ok || !v.Status.Ready || !k.Status.Ready || v.DeletionTimestamp != nil:
		r.why = fmt.Sprintf("snapshot %s is not Ready", ref.Name)
	case k.Spec.Driver != localvolume.Provisioner:
		r.why = fmt.Sprintf("snapshot %s is of the driver %s", ref.Name, k.Spec.Driver)
	case k.Spec.Ref.UID != v.UID:
		r.why = fmt.Sprintf("snapshotContent for snapshot %s not bound", ref.Name)
	default:
		r.name, r.bytes = ref.Name, k.Status.Size
		if r.from, ok = localvolume.ParseHandle(k.Status.Handle); !ok {
			r.why = fmt.Sprintf("snapshot %s has no handle of local storage", ref.Name)
		}
	}
	return r
}
