package apply

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"

	"github.com/kloop-dev/kloop/internal/coldsort"
	"github.com/kloop-dev/kloop/resource"
)

// smd keeps the books of one kind, version and subresource with the library of apimachinery.
type smd struct {
	kind  resource.Kind
	gvk   schema.GroupVersionKind
	sub   string
	books *managedfields.FieldManager
}

type smdKey struct {
	kind resource.Kind
	gvk  schema.GroupVersionKind
	sub  string
}

// smdCache remembers them: there are as many as served paths.
type smdCache struct{ m sync.Map }

func (s *smdCache) forget(gk schema.GroupKind) {
	s.m.Range(func(k, _ any) bool {
		if k.(smdKey).gvk.GroupKind() == gk {
			s.m.Delete(k)
		}
		return true
	})
}

func (t *Tracker) smdFor(w *Write) (*smd, error) {
	key := smdKey{w.Kind, w.GVK, w.Sub}
	if s, ok := t.stocks.m.Load(key); ok {
		return s.(*smd), nil
	}
	a := adapter{kind: w.Kind, types: &t.types, of: w.GVK}
	if !a.serves(w.GVK) {
		return nil, fmt.Errorf("track the fields of %s: not served as %s", w.Kind.Info().GR(), w.GVK)
	}
	s := &smd{kind: w.Kind, gvk: w.GVK, sub: w.Sub}
	var err error
	if w.Sub == "scale" {
		s.gvk, s.books, err = scaleBooks(&t.types)
	} else {
		s.books, err = managedfields.NewDefaultCRDFieldManager(a, a, a, a, w.GVK, w.GVK.GroupVersion(), w.Sub,
			resets(w.Kind.Info(), w.Sub))
	}
	if err != nil {
		return nil, fmt.Errorf("track the fields of %s: %w", w.GVK, err)
	}
	t.stocks.m.Store(key, s)
	return s, nil
}

// caught turns a panic of the library, which embedded objects that are no JSON can cause, into an error.
func caught(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("the object can't be read: %v", p)
	}
}

// update sets managedFields on obj.
func (s *smd) update(w *Write, old, obj resource.Object) (err error) {
	defer caught(&err)
	live := old
	if live == nil {
		live = s.kind.New(s.gvk)
	}
	live = as(live, s.gvk)
	obj.GetObjectKind().SetGroupVersionKind(s.gvk)
	list := obj.GetManagedFields()
	if slices.ContainsFunc(list, long) {
		list = tidied(list)
		obj.SetManagedFields(list)
	}
	before := slices.Concat(live.GetManagedFields(), list)
	out, err := s.books.Update(live, obj, w.Manager)
	if err != nil {
		return err
	}
	if out != obj {
		return fmt.Errorf("the library made another object")
	}
	obj.SetManagedFields(stamped(w, before, obj.GetManagedFields()))
	return nil
}

// apply merges an applied configuration into old.
func (s *smd) apply(w *Write, old resource.Object, doc map[string]any, force bool) (_ resource.Object, err error) {
	defer caught(&err)
	live := old
	if live == nil {
		live = s.kind.New(s.gvk)
	}
	live = as(live, s.gvk)
	out, err := s.books.Apply(live, &unstructured.Unstructured{Object: doc}, w.Manager, force)
	if err != nil {
		return nil, err
	}
	obj, ok := out.(resource.Object)
	if !ok {
		return nil, fmt.Errorf("apply made a %T", out)
	}
	obj.SetManagedFields(stamped(w, live.GetManagedFields(), obj.GetManagedFields()))
	return obj, nil
}

// as returns obj with its version told. Objects from storage may not carry it, and they are shared.
func as(obj resource.Object, gvk schema.GroupVersionKind) resource.Object {
	if obj.GetObjectKind().GroupVersionKind() == gvk {
		return obj
	}
	obj = resource.Clone(obj)
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	return obj
}

// stamped replaces the time that the library took from the clock, which is any that was not there before, by that
// of the write, and orders the entries again. It changes after.
func stamped(w *Write, before, after []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	now := stamp(w.Now)
	for i := range after {
		e := &after[i]
		if e.Time == nil || slices.ContainsFunc(before, func(b metav1.ManagedFieldsEntry) bool { return b.Time.Equal(e.Time) }) {
			continue
		}
		e.Time = &now
	}
	order(after)
	return after
}

// stamp is the time as it will be read back: in seconds.
func stamp(t time.Time) metav1.Time { return metav1.NewTime(t.UTC().Truncate(time.Second)) }

// order sorts entries as upstream does: by operation, second, manager, version, subresource.
func order(list []metav1.ManagedFieldsEntry) {
	coldsort.Few(list, func(a, b metav1.ManagedFieldsEntry) int {
		if c := strings.Compare(string(a.Operation), string(b.Operation)); c != 0 {
			return c
		}
		if x, y := seconds(a.Time), seconds(b.Time); x != y {
			return int(min(max(x-y, -1), 1))
		}
		return compareAll(a.Manager, b.Manager, a.APIVersion, b.APIVersion, a.Subresource, b.Subresource)
	})
}

func compareAll(pairs ...string) int {
	for i := 0; i < len(pairs); i += 2 {
		if c := strings.Compare(pairs[i], pairs[i+1]); c != 0 {
			return c
		}
	}
	return 0
}

func seconds(t *metav1.Time) int64 {
	if t == nil {
		return 0
	}
	return t.Unix()
}
