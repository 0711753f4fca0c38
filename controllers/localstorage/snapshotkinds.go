package localstorage

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/controllers/internal/packed"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
)

// The kinds of snapshots are those of kubernetes-csi/external-snapshotter, as far as they are understood here.
const (
	snapshotGroup   = "snapshot.storage.k8s.io"
	snapshotKind    = "VolumeSnapshot"
	snapshotClasses = "volumesnapshotclasses"
	snapshotObjects = "volumesnapshots"
	contents        = "volumesnapshotcontents"
)

// zipped is snapshots.yaml.
//
//go:embed snapshots.yaml.gz
var zipped []byte

// definitions are the definitions of the kinds, read once.
var definitions = sync.OnceValues(func() ([]*apiextensionsv1.CustomResourceDefinition, error) { return packed.Definitions(zipped) })

// define makes the definitions that are not there. What others made stays as it is.
func define(ctx context.Context, c *loop.Ctx) error {
	list, err := definitions()
	if err != nil {
		return err
	}
	for _, d := range list {
		if c.Lookup(kinds.CustomResourceDefinitions, "", d.Name) != nil {
			continue
		}
		if _, err := c.Create(ctx, kinds.CustomResourceDefinitions, d); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("define %s: %w", d.Name, err)
		}
	}
	return nil
}

// A trouble tells in a status why something is not so.
type trouble struct {
	Message string       `json:"message,omitempty"`
	Time    *metav1.Time `json:"time,omitempty"`
}

// says returns the trouble's text; "": there is none.
func (t *trouble) says() string {
	if t == nil {
		return ""
	}
	return t.Message
}

// A snapshotClass is a VolumeSnapshotClass.
type snapshotClass struct {
	metav1.ObjectMeta `json:"metadata"`
	Driver            string `json:"driver"`
	DeletionPolicy    string `json:"deletionPolicy"`
}

// A snapshot is a VolumeSnapshot.
type snapshot struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Source struct {
			Claim   string `json:"persistentVolumeClaimName"`
			Content string `json:"volumeSnapshotContentName"`
		} `json:"source"`
		Class *string `json:"volumeSnapshotClassName"`
	} `json:"spec"`
	Status struct {
		Content string       `json:"boundVolumeSnapshotContentName"`
		At      *metav1.Time `json:"creationTime"`
		Ready   bool         `json:"readyToUse"`
		Size    any          `json:"restoreSize"`
		Error   *trouble     `json:"error"`
	} `json:"status"`
	obj resource.Object
}

// A content is a VolumeSnapshotContent: the snapshot as it lies somewhere.
type content struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		DeletionPolicy string                 `json:"deletionPolicy"`
		Driver         string                 `json:"driver"`
		Ref            corev1.ObjectReference `json:"volumeSnapshotRef"`
		Source         struct {
			Volume string `json:"volumeHandle"`
			Handle string `json:"snapshotHandle"`
		} `json:"source"`
	} `json:"spec"`
	Status struct {
		Handle string   `json:"snapshotHandle"`
		At     int64    `json:"creationTime"`
		Size   int64    `json:"restoreSize"`
		Ready  bool     `json:"readyToUse"`
		Error  *trouble `json:"error"`
	} `json:"status"`
	obj resource.Object
}

// kindOf returns a kind of snapshots; ok is false while nobody serves it.
func kindOf(set *resource.Set, plural string) (resource.Kind, bool) {
	return set.GR(schema.GroupResource{Group: snapshotGroup, Resource: plural})
}

// look reads one object of a kind of snapshots. False: it is not there, or can't be understood.
func look(read resource.Reader, set *resource.Set, plural, ns, name string, into any) (obj resource.Object, ok bool) {
	k, ok := kindOf(set, plural)
	if !ok || name == "" {
		return nil, false
	}
	if obj = read.Lookup(k, ns, name); obj == nil {
		return nil, false
	}
	return obj, decode(obj, into) == nil
}

// decode reads an object of a kind that has no Go type here.
func decode(obj resource.Object, into any) error {
	text, err := codec.MarshalJSON(resource.Opened(obj))
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// every reads all objects of a kind of snapshots. What can't be understood is left out: its schema is somebody else's.
func every[T any](read resource.Reader, set *resource.Set, plural string, keep func(*T, resource.Object)) (list []*T) {
	k, ok := kindOf(set, plural)
	if !ok {
		return nil
	}
	for obj := range read.Each(k, "") {
		t := new(T)
		if decode(obj, t) == nil {
			keep(t, obj)
			list = append(list, t)
		}
	}
	return list
}

// merge patches an object, if it is still as it was read.
func merge(ctx context.Context, c *loop.Ctx, plural string, obj resource.Object, sub string, change map[string]any) error {
	k, ok := kindOf(c.Client().Kinds(), plural)
	if !ok {
		return nil
	}
	meta, _ := change["metadata"].(map[string]any)
	if meta == nil {
		meta = map[string]any{}
	}
	meta["uid"], meta["resourceVersion"] = obj.GetUID(), obj.GetResourceVersion()
	change["metadata"] = meta
	data, err := json.Marshal(change)
	if err != nil {
		return err
	}
	err = c.Patch(ctx, k, obj, client.Patch{Type: types.MergePatchType, Data: data, Sub: sub})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
