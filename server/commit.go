package server

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/store"
	"github.com/kloop-dev/kloop/view"
)

// Retries bounds how often a write starts over because others were faster. With fair luck a hundred
// writers of one object all get through.
const Retries = 200

// Put writes obj under its key in the place of what was read (nil: nothing). The view owns obj from then on. It fails
// with *store.ConflictError when another writer was faster.
func (s *Core) Put(ctx context.Context, k resource.Kind, obj resource.Object, cur *view.Entry, ttl time.Duration) (*view.Entry, error) {
	obj.SetResourceVersion("")
	resource.CutTimes(obj)
	resource.AsRead(k, obj)
	value, err := stored(k, obj, cur)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	expect := int64(0)
	if cur != nil {
		expect = cur.Rev
	}
	key := k.Info().Key(obj.GetNamespace(), obj.GetName())
	s.View.Offer(key, value, obj)
	rev, err := s.Store.Write(ctx, store.Write{Key: key, Value: value, Expect: expect, TTL: ttl})
	if err != nil {
		return nil, s.storeFailure(err, "write "+key)
	}
	s.ack(rev)
	c, err := s.View.Written(ctx, k, rev)
	switch {
	case err == nil && c.New != nil:
		return c.New, nil
	case err == nil || errors.Is(err, view.ErrExpired): // overtaken by far: tell what was written
		again, err := codec.FromStored(k, value)
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		return view.NewEntry(k, rev, again), nil
	}
	return nil, StoreError(err, "wait for the write of "+key)
}

// stored returns the form to store of an object that replaces another one, nil for none.
func stored(k resource.Kind, obj resource.Object, cur *view.Entry) ([]byte, error) {
	if cur != nil {
		if old, ok := cur.Object.(resource.Rewriting); ok {
			if value := old.Rewritten(obj); value != nil {
				return value, nil
			}
		}
	}
	return codec.Stored(k, obj)
}

// Remove deletes the object of the entry and returns its last state, with the revision of the deletion. It fails
// with *store.ConflictError when the object is no longer there as read.
func (s *Core) Remove(ctx context.Context, e *view.Entry) (*view.Entry, error) {
	key := e.Kind.Info().Key(e.Object.GetNamespace(), e.Object.GetName())
	rev, err := s.Store.Write(ctx, store.Write{Key: key, Expect: e.Rev})
	if err != nil {
		return nil, s.storeFailure(err, "delete "+key)
	}
	s.ack(rev)
	c, err := s.View.Written(ctx, e.Kind, rev)
	switch {
	case err == nil && c.Old != nil:
		return c.Last(), nil
	case err == nil || errors.Is(err, view.ErrExpired):
		return view.NewEntry(e.Kind, rev, resource.Clone(e.Object)), nil
	}
	return nil, StoreError(err, "wait for the deletion of "+key)
}

// storeFailure leaves conflicts as they are and makes answers of all other errors.
func (s *Core) storeFailure(err error, doing string) error {
	var c *store.ConflictError
	if errors.As(err, &c) {
		return err
	}
	return StoreError(err, doing)
}

// after waits until the view shows what the conflict told of.
func (s *Core) after(ctx context.Context, c *store.ConflictError) error {
	rev := c.At
	if c.Current != nil {
		rev = c.Current.ModRev
	}
	return s.wait(ctx, rev)
}

// same says whether writing obj would change nothing. If so obj gets the old resourceVersion and managedFields,
// which may then differ in their times only.
func same(k resource.Kind, obj, old resource.Object) bool {
	if a, b := obj.GetDeletionGracePeriodSeconds(), old.GetDeletionGracePeriodSeconds(); (a == nil) != (b == nil) || a != nil && *a != *b {
		return false // a deletion: nothing needs to be encoded to see that
	}
	if d, ok := old.(resource.Differing); ok && d.Differs(obj) {
		return false
	}
	fields, rev, were := obj.GetManagedFields(), obj.GetResourceVersion(), old.GetManagedFields()
	if !slices.EqualFunc(fields, were, sameOwnership) {
		return false
	}
	obj.SetManagedFields(were)
	obj.SetResourceVersion(old.GetResourceVersion())
	if equalEncoding(k, obj, old) {
		return true
	}
	obj.SetManagedFields(fields)
	obj.SetResourceVersion(rev)
	return false
}

func sameOwnership(a, b metav1.ManagedFieldsEntry) bool {
	x, y := a.FieldsV1, b.FieldsV1
	a.Time, b.Time, a.FieldsV1, b.FieldsV1 = nil, nil, nil, nil
	if a != b || (x == nil) != (y == nil) {
		return false
	}
	return x == nil || bytes.Equal(x.Raw, y.Raw)
}

func equalEncoding(k resource.Kind, a, b resource.Object) bool {
	if _, ready := b.(codec.Encoded); !ready {
		b = resource.Opened(b)
	}
	x, ok := a.(codec.Proto)
	y, too := b.(codec.Proto)
	if k.Info().Custom || !ok || !too {
		m, err1 := codec.MarshalJSON(a)
		n, err2 := codec.MarshalJSON(b)
		return err1 == nil && err2 == nil && bytes.Equal(m, n)
	}
	if x.Size() != y.Size() {
		return false
	}
	m, err1 := x.Marshal()
	n, err2 := y.Marshal()
	return err1 == nil && err2 == nil && bytes.Equal(m, n)
}
