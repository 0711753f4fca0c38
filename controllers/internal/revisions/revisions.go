// Package revisions keeps the history of templates that DaemonSets and StatefulSets go through, as
// ControllerRevisions that kubectl can roll back to.
package revisions

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"reflect"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/kloop-dev/kloop/controllers/internal/ownership"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// ErrCollision says that the name of the new revision is taken by another one: the owner has to raise its count
// of collisions, which changes the name.
var ErrCollision = errors.New("another revision has the same hash")

// An Owner is an object with a history.
type Owner struct {
	Object     resource.Object
	Kind       resource.Kind
	Selector   labels.Selector
	Template   *corev1.PodTemplateSpec
	Collisions *int32
	Label      string // of a revision, that holds its hash
}

// Hash is the label by which a revision's pods are known.
const Hash = appsv1.ControllerRevisionHashLabelKey

// List returns the owner's revisions, the oldest first, with those that its selector matches and nobody controls. It adopts
// these: an owner that was deleted without its pods and made anew goes on where it was. One that is being deleted adopts none,
// but knows them: it has just let go of them, and need not make others.
func List(ctx context.Context, c *loop.Ctx, o Owner) ([]*appsv1.ControllerRevision, error) {
	list := resource.Owned(c, kinds.ControllerRevisions, o.Object)
	owner := ownership.Owner[*appsv1.ControllerRevision]{Object: o.Object, Kind: o.Kind, Selector: o.Selector}
	if o.Object.GetDeletionTimestamp() != nil {
		list = append(list, ownership.Orphans(c, kinds.ControllerRevisions, owner)...)
	}
	adopted, err := ownership.Adopt(ctx, c, kinds.ControllerRevisions, owner)
	if err != nil {
		return nil, err
	}
	list = append(list, adopted...)
	slices.SortFunc(list, func(a, b *appsv1.ControllerRevision) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return list, nil
}

// Current returns the revision of the owner's template. One that is missing is made; one that is old, after a
// rollback, becomes the newest.
func Current(ctx context.Context, c *loop.Ctx, o Owner, list []*appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	data, err := encode(o.Template)
	if err != nil {
		return nil, err
	}
	top := int64(0)
	var found *appsv1.ControllerRevision
	for _, r := range list {
		top = max(top, r.Revision)
		if same(r.Data.Raw, data) {
			found = r
		}
	}
	switch {
	case found == nil:
		return create(ctx, c, o, data, top+1)
	case found.Revision == top:
		return found, nil
	}
	next := resource.Clone(found)
	next.Revision = top + 1
	return next, c.Update(ctx, kinds.ControllerRevisions, next)
}

func create(ctx context.Context, c *loop.Ctx, o Owner, data []byte, number int64) (*appsv1.ControllerRevision, error) {
	hash := hashOf(data, o.Collisions)
	marks := maps.Clone(o.Template.Labels)
	if marks == nil {
		marks = map[string]string{}
	}
	marks[o.Label] = hash
	r := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: o.Object.GetNamespace(), Name: o.Object.GetName() + "-" + hash,
		Labels: marks, Annotations: maps.Clone(o.Object.GetAnnotations()),
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(o.Object, o.Kind.Info().GVK)}},
		Data: runtime.RawExtension{Raw: data}, Revision: number}
	made, err := c.Create(ctx, kinds.ControllerRevisions, r)
	if err == nil {
		return made.(*appsv1.ControllerRevision), nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	live, gerr := c.Client().Get(ctx, kinds.ControllerRevisions, r.Namespace, r.Name)
	if gerr != nil {
		return nil, gerr
	}
	if have := live.(*appsv1.ControllerRevision); metav1.IsControlledBy(have, o.Object) && same(have.Data.Raw, data) {
		return have, nil
	}
	return nil, ErrCollision
}

// Trim removes the oldest revisions beyond the limit, but those that are in use; a limit below zero is none.
func Trim(ctx context.Context, c *loop.Ctx, list []*appsv1.ControllerRevision, limit int32,
	used func(*appsv1.ControllerRevision) bool) error {
	if limit < 0 {
		return nil
	}
	idle := slices.DeleteFunc(slices.Clone(list), used)
	var errs []error
	for _, r := range idle[:max(0, len(idle)-int(limit))] {
		errs = append(errs, c.Delete(ctx, kinds.ControllerRevisions, r))
	}
	return errors.Join(errs...)
}

// Template is the template that a revision stands for.
func Template(r *appsv1.ControllerRevision) (*corev1.PodTemplateSpec, error) {
	var data struct {
		Spec struct {
			Template corev1.PodTemplateSpec `json:"template"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(r.Data.Raw, &data); err != nil {
		return nil, fmt.Errorf("read the revision %s: %w", r.Name, err)
	}
	return &data.Spec.Template, nil
}

// encode is the patch that makes an object have the template.
func encode(t *corev1.PodTemplateSpec) ([]byte, error) {
	data, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	fields["$patch"] = "replace"
	return json.Marshal(map[string]any{"spec": map[string]any{"template": fields}})
}

func same(a, b []byte) bool {
	if string(a) == string(b) {
		return true
	}
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

func hashOf(data []byte, collisions *int32) string {
	h := fnv.New32a()
	h.Write(data)
	if collisions != nil {
		h.Write(binary.LittleEndian.AppendUint32(nil, uint32(*collisions)))
	}
	return rand.SafeEncodeString(strconv.FormatUint(uint64(h.Sum32()), 10))
}
