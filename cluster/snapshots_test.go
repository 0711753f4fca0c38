package cluster_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/localvolume"
	"github.com/kloop-dev/kloop/resource"
)

// A cellar is a cluster whose only node does at once what is wanted of its disk, and nothing else.
type cellar struct {
	*testing.T
	c   client.Client
	dyn dynamic.Interface
}

func newCellar(t *testing.T) *cellar {
	c := start(t, cluster.Config{VolumeSnapshots: true})
	dyn, err := dynamic.NewForConfig(config(t, c))
	if err != nil {
		t.Fatal(err)
	}
	r := &cellar{t, c.Client(), dyn}
	r.create(kinds.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{corev1.LabelHostname: "n"},
		Annotations: map[string]string{localvolume.Path: "/d"}}})
	return r
}

func (r *cellar) create(k resource.Kind, obj resource.Object) {
	r.Helper()
	if _, err := r.c.Create(r.Context(), k, obj); err != nil {
		r.Fatal(err)
	}
}

// serve answers the orders that stand on the node.
func (r *cellar) serve() {
	n := resource.Get(r.c.Read(), kinds.Nodes, "", "n")
	notes := map[string]any{}
	for prefix, orders := range map[string]map[string]localvolume.Order{localvolume.OrderPrefix: localvolume.Orders(n),
		localvolume.SnapshotPrefix: localvolume.SnapshotOrders(n)} {
		for name, o := range orders {
			if !o.Done {
				if o.Done = true; o.Do == localvolume.Copy {
					o.At, o.Bytes = 7e9, 1<<20
				}
				notes[prefix+name] = o.String()
			}
		}
	}
	if len(notes) == 0 {
		return
	}
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": notes, "resourceVersion": n.ResourceVersion}})
	if err != nil {
		r.Fatal(err)
	}
	_, err = r.c.Patch(r.Context(), kinds.Nodes, "", "n", client.Patch{Type: types.MergePatchType, Data: data})
	if err != nil && !apierrors.IsConflict(err) {
		r.Fatal(err)
	}
}

// until serves until something holds.
func (r *cellar) until(what string, ok func() bool) {
	r.Helper()
	eventually(r.T, what, holds(func() bool { r.serve(); return ok() }))
}

func (r *cellar) kind(plural, ns string) dynamic.ResourceInterface {
	return r.dyn.Resource(schema.GroupVersionResource{Group: "snapshot.storage.k8s.io", Version: "v1", Resource: plural}).Namespace(ns)
}

// make stores an object of snapshots, when its kind is served.
func (r *cellar) make(plural, ns, text string) {
	r.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte("apiVersion: snapshot.storage.k8s.io/v1\n"+text), &u.Object); err != nil {
		r.Fatal(err)
	}
	r.until("there are "+plural, func() bool {
		_, err := r.kind(plural, ns).Create(r.Context(), u, metav1.CreateOptions{FieldValidation: "Strict"})
		if err != nil && !apierrors.IsNotFound(err) {
			r.Fatal(err)
		}
		return err == nil
	})
}

// field reads a field of an object; "": there is none.
func (r *cellar) field(plural, ns, name string, path ...string) string {
	u, err := r.kind(plural, ns).Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		return ""
	}
	v, _, _ := unstructured.NestedFieldNoCopy(u.Object, path...)
	text, _ := json.Marshal(v)
	return strings.Trim(string(text), `"`)
}

func (r *cellar) claim(name, source, node string) {
	class := "local-image"
	p := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class,
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceStorage: apiresource.MustParse("1Mi")}}}}
	if node != "" {
		p.Annotations = map[string]string{"volume.kubernetes.io/selected-node": node}
	}
	if source != "" {
		group := "snapshot.storage.k8s.io"
		p.Spec.DataSource = &corev1.TypedLocalObjectReference{APIGroup: &group, Kind: "VolumeSnapshot", Name: source}
	}
	r.create(kinds.PersistentVolumeClaims, p)
}

func (r *cellar) bound(name string) bool {
	p := resource.Get(r.c.Read(), kinds.PersistentVolumeClaims, "default", name)
	return p != nil && p.Status.Phase == corev1.ClaimBound
}

const (
	snapshotClassText = "kind: VolumeSnapshotClass\nmetadata: {name: copies, annotations: " +
		"{snapshot.storage.kubernetes.io/is-default-class: \"true\"}}\ndriver: rancher.io/local-path\ndeletionPolicy: Delete"
	snapshotText = "kind: VolumeSnapshot\nmetadata: {name: before, namespace: default}\nspec: {source: {persistentVolumeClaimName: data}}"
)

// TestSnapshots: a VolumeSnapshot is made of a claim, a claim of the snapshot goes to its node, and the copy goes with the snapshot.
func TestSnapshots(t *testing.T) {
	r := newCellar(t)
	r.claim("data", "", "n")
	r.until("the claim is bound", func() bool { return r.bound("data") })
	r.make("volumesnapshotclasses", "", snapshotClassText)
	r.make("volumesnapshots", "default", snapshotText)
	ready := func(name string) bool {
		return r.field("volumesnapshots", "default", name, "status", "readyToUse") == "true"
	}
	r.until("the snapshot is ready", func() bool { return ready("before") })
	content := r.field("volumesnapshots", "default", "before", "status", "boundVolumeSnapshotContentName")
	handle := r.field("volumesnapshotcontents", "", content, "status", "snapshotHandle")
	if want := "n/" + content + "_default_before.ext4"; handle != want || !strings.HasPrefix(content, "snapcontent-") {
		t.Errorf("the content %s has the handle %s, want %s", content, handle, want)
	}
	for path, want := range map[string]string{"restoreSize": "1Mi", "creationTime": "1970-01-01T00:00:07Z"} {
		t.Run(path, func(t *testing.T) {
			if got := r.field("volumesnapshots", "default", "before", "status", path); got != want {
				t.Errorf("%s: %s, want %s", path, got, want)
			}
		})
	}
	r.claim("copy", "before", "")
	r.until("the copy is bound", func() bool { return r.bound("copy") })
	if err := r.kind("volumesnapshots", "default").Delete(t.Context(), "before", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.until("the content is gone", func() bool {
		_, err := r.kind("volumesnapshotcontents", "").Get(t.Context(), content, metav1.GetOptions{})
		_, gone := r.kind("volumesnapshots", "default").Get(t.Context(), "before", metav1.GetOptions{})
		return apierrors.IsNotFound(err) && apierrors.IsNotFound(gone)
	})
	r.until("no order stays", func() bool {
		return len(localvolume.SnapshotOrders(resource.Get(r.c.Read(), kinds.Nodes, "", "n"))) == 0
	})
}

// TestSnapshotsRefused: the status says what can't be, and a claim is given nobody else's data.
func TestSnapshotsRefused(t *testing.T) {
	r := newCellar(t)
	r.make("volumesnapshotclasses", "", snapshotClassText)
	r.make("volumesnapshotclasses", "", "kind: VolumeSnapshotClass\nmetadata: {name: others}\ndriver: other\ndeletionPolicy: Delete")
	for name, source := range map[string]string{"nothing": "", "others": ", volumeSnapshotClassName: others",
		"classless": ", volumeSnapshotClassName: none", "ours": ", volumeSnapshotClassName: copies"} {
		r.make("volumesnapshots", "default", "kind: VolumeSnapshot\nmetadata: {name: "+name+", namespace: default}\n"+
			"spec: {source: {persistentVolumeClaimName: gone}"+source+"}")
	}
	says := func(name, want string) {
		t.Helper()
		r.until(name+" says why", func() bool {
			return strings.Contains(r.field("volumesnapshots", "default", name, "status", "error", "message"), want)
		})
	}
	says("ours", "failed to get input PVC default/gone")
	says("classless", "failed to retrieve snapshot class none")
	for _, name := range []string{"others", "nothing"} {
		if got := r.field("volumesnapshots", "default", name, "status"); got != "null" {
			t.Errorf("%s, which may be another driver's, has the status %s", name, got)
		}
	}
	r.make("volumesnapshotcontents", "", "kind: VolumeSnapshotContent\nmetadata: {name: theirs}\nspec: {deletionPolicy: Retain, "+
		"driver: rancher.io/local-path, source: {snapshotHandle: n/snapcontent-9_x_y.ext4}, "+
		"volumeSnapshotRef: {name: found, namespace: elsewhere}}")
	r.make("volumesnapshots", "default", "kind: VolumeSnapshot\nmetadata: {name: found, namespace: default}\n"+
		"spec: {source: {volumeSnapshotContentName: theirs}}")
	says("found", "is bound to a different snapshot")
	r.claim("thief", "found", "n")
	r.until("the claim says why", func() bool {
		for _, e := range resource.List(r.c.Read(), kinds.Events, "default") {
			if e.Reason == "ProvisioningFailed" && strings.Contains(e.Message, "snapshot found is not Ready") {
				return true
			}
		}
		return false
	})
	if r.bound("thief") {
		t.Error("it has somebody else's data")
	}
	r.create(kinds.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}})
	r.make("volumesnapshots", "elsewhere", "kind: VolumeSnapshot\nmetadata: {name: found, namespace: elsewhere}\n"+
		"spec: {source: {volumeSnapshotContentName: theirs}}")
	r.until("who it is for has it", func() bool {
		return r.field("volumesnapshots", "elsewhere", "found", "status", "readyToUse") == "true"
	})
}
