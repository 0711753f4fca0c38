package engine

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"

	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// report writes the status: what Status says of the world, if there is one, observedGeneration and the condition Ready. It writes nothing
// if the status says so already.
func (w *worker[T, W]) report(ctx context.Context, c *loop.Ctx, stored resource.Object, obj T, world *W, ready metav1.Condition) error {
	if world != nil && w.Status != nil {
		w.Status(obj, *world)
	}
	said, err := section(obj)
	if err != nil {
		return err
	}
	next, was := resource.Clone(stored).(runtime.Unstructured), map[string]any{}
	tree := next.UnstructuredContent()
	if s, ok := tree["status"].(map[string]any); ok {
		was = s
	}
	ready.Type, ready.ObservedGeneration = "Ready", stored.GetGeneration()
	conditions, err := conditionsOf(was, said)
	if err != nil {
		return err
	}
	meta.SetStatusCondition(&conditions, ready)
	said["observedGeneration"] = stored.GetGeneration()
	if said["conditions"], err = plain(conditions); err != nil {
		return err
	}
	if equality.Semantic.DeepEqual(was, said) {
		return nil
	}
	tree["status"] = said
	next.SetUnstructuredContent(tree)
	k, ok := c.Client().Kinds().GroupKind(w.kind)
	if !ok {
		return fmt.Errorf("%s is not served any more", w.kind)
	}
	return c.UpdateStatus(ctx, k, next.(resource.Object))
}

// conditionsOf are those that the object's own status names, and those that were there.
func conditionsOf(was, said map[string]any) ([]metav1.Condition, error) {
	from := said["conditions"]
	if from == nil {
		from = was["conditions"]
	}
	data, err := json.Marshal(from)
	if err != nil {
		return nil, err
	}
	var list []metav1.Condition
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("read the conditions: %w", err)
	}
	return list, nil
}

// section is an object's status as the API has it; empty: the type has none.
func section(obj any) (map[string]any, error) {
	tree, err := plain(obj)
	if err != nil {
		return nil, fmt.Errorf("write %T: %w", obj, err)
	}
	whole, _ := tree.(map[string]any)
	if s, ok := whole["status"].(map[string]any); ok {
		return s, nil
	}
	return map[string]any{}, nil
}

// plain is a value as the API has it: maps, lists, strings, whole numbers as int64.
func plain(v any) (any, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var tree any
	err = kjson.UnmarshalCaseSensitivePreserveInts(data, &tree)
	return tree, err
}

// setFinalizers changes an object's finalizers if it has not changed since it was read.
func setFinalizers(ctx context.Context, c *loop.Ctx, stored resource.Object, list []string) error {
	next := resource.Clone(stored)
	next.SetFinalizers(list)
	k, ok := c.Client().Kinds().GroupKind(stored.GetObjectKind().GroupVersionKind().GroupKind())
	if !ok {
		return nil // the kind went, and the object with it
	}
	return c.Update(ctx, k, next)
}
