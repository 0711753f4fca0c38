package server

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/store"
	"github.com/kloop-dev/kloop/store/memory"
	"github.com/kloop-dev/kloop/view"
)

// MemoryKinds holds the objects of virtual kinds in memory. Only this process puts something there; clients read and
// watch them like any other kind, by the same code. Their revisions are their own. They are safe for concurrent use, but
// one object must not be put by two at once.
type MemoryKinds struct {
	readOnly
	reads   *reads
	view    *view.View
	store   *memory.Store
	refresh func(ctx context.Context, k resource.Kind) error
	watches atomic.Int64
}

var _ Operations = (*MemoryKinds)(nil)

// memoryKindsKeep bounds, in bytes, each of what is remembered beside the objects.
const memoryKindsKeep = 1 << 20

// NewMemoryKinds returns empty ones for the kinds: Defs that are Virtual and name a Storage key. Before a read is
// answered or a watch starts, refresh is called, so that what is seldom asked for need not be kept up to date;
// nil: nothing is. Its error is the answer.
func NewMemoryKinds(refresh func(ctx context.Context, k resource.Kind) error, kinds ...resource.Kind) *MemoryKinds {
	set := resource.NewSet(kinds...)
	// Microseconds since 1970: what a client saw of them before the process started anew is too old.
	s := &MemoryKinds{store: memory.NewSmall(time.Now().UnixMicro(), memoryKindsKeep), refresh: refresh,
		view: view.NewWith(set, view.Config{Changes: 8192, Bytes: memoryKindsKeep, Encodings: 2 * memoryKindsKeep, Offers: memoryKindsKeep})}
	s.reads = &reads{Core: &Core{Config: Config{Kinds: set, Store: s.store, View: s.view, Sole: true}}}
	return s
}

// Run keeps them until ctx ends; ready is called when they can be used.
func (s *MemoryKinds) Run(ctx context.Context, ready func()) error {
	err := s.view.Follow(ctx, s.store, ready)
	return errors.Join(err, s.store.Close())
}

// Watched says that somebody watches what is there.
func (s *MemoryKinds) Watched() bool { return s.watches.Load() > 0 }

// Read returns what is there.
func (s *MemoryKinds) Read() resource.Reader { return s.view.Snapshot() }

// Change puts objects there and takes others off, and returns when readers see it. They own the
// objects from then on. An object that is to be taken off and is not there is no error.
func (s *MemoryKinds) Change(ctx context.Context, k resource.Kind, put, off []resource.Object) error {
	snap, last := s.view.Snapshot(), int64(0)
	write := func(obj resource.Object, value []byte) error {
		key := k.Info().Key(obj.GetNamespace(), obj.GetName())
		w := store.Write{Key: key, Value: value}
		if old := snap.Entry(k, obj.GetNamespace(), obj.GetName()); old != nil {
			w.Expect = old.Rev
		} else if value == nil {
			return nil
		}
		if value != nil {
			s.view.Offer(key, value, obj)
		}
		rev, err := s.store.Write(ctx, w)
		last = max(last, rev)
		return err
	}
	for _, obj := range put {
		obj.GetObjectKind().SetGroupVersionKind(k.Info().GVK)
		value, err := codec.Stored(k, obj)
		if err == nil {
			err = write(obj, value)
		}
		if err != nil {
			return fmt.Errorf("put %s %s: %w", k.Info().Singular, obj.GetName(), err)
		}
	}
	for _, obj := range off {
		if err := write(obj, nil); err != nil {
			return fmt.Errorf("take off %s %s: %w", k.Info().Singular, obj.GetName(), err)
		}
	}
	return s.view.Reach(ctx, last)
}

func (s *MemoryKinds) fresh(ctx context.Context, r *Request) error {
	if s.refresh == nil {
		return nil
	}
	return s.refresh(ctx, r.Kind)
}

// Get implements Operations.
func (s *MemoryKinds) Get(ctx context.Context, r *Request, opts *metav1.GetOptions) (*view.Entry, error) {
	if err := s.fresh(ctx, r); err != nil {
		return nil, err
	}
	return s.reads.Get(ctx, r, opts)
}

// List implements Operations.
func (s *MemoryKinds) List(ctx context.Context, r *Request, opts *metav1.ListOptions) (*List, error) {
	if err := s.fresh(ctx, r); err != nil {
		return nil, err
	}
	return s.reads.List(ctx, r, opts)
}

// Watch implements Operations.
func (s *MemoryKinds) Watch(ctx context.Context, r *Request, opts *metav1.ListOptions, f func([]Event) error) error {
	if err := s.fresh(ctx, r); err != nil {
		return err
	}
	s.watches.Add(1)
	defer s.watches.Add(-1)
	return s.reads.Watch(ctx, r, opts, f)
}
