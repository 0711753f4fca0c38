// Package storetest is the contract of package store as tests. Every implementation runs it:
//
//	func TestStore(t *testing.T) { storetest.Run(t, func(t *testing.T) store.Store { return memory.New() }) }
package storetest

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/kloop-dev/kloop/store"
)

// patience bounds every test: a store that answers later is a store that hangs.
const patience = 10 * time.Minute

// Run tests the stores that open returns; each test gets a new, empty one and closes it.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	for _, group := range []map[string]func(*probe){writes, lists, watches, lifetimes, compactions, endings, storms} {
		for name, test := range group {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				p := &probe{TB: t, Store: open(t), ctx: ctx}
				defer p.Close()
				test(p)
			})
		}
	}
}

// A probe is one store under test, with calls that must succeed.
type probe struct {
	testing.TB
	store.Store
	ctx context.Context
}

// Context is that of the test; testing.TB has one too that doesn't end in time.
func (p *probe) Context() context.Context { return p.ctx }

func (p *probe) mustWrite(w store.Write) int64 {
	p.Helper()
	rev, err := p.Write(p.ctx, w)
	if err != nil {
		p.Fatalf("write %s: %v", w.Key, err)
	}
	return rev
}

func (p *probe) create(key, value string) int64 {
	p.Helper()
	return p.mustWrite(store.Write{Key: key, Value: []byte(value)})
}

func (p *probe) update(key, value string, expect int64) int64 {
	p.Helper()
	return p.mustWrite(store.Write{Key: key, Value: []byte(value), Expect: expect})
}

func (p *probe) delete(key string, expect int64) int64 {
	p.Helper()
	return p.mustWrite(store.Write{Key: key, Expect: expect})
}

func (p *probe) get(key string) *store.KV {
	p.Helper()
	kv, rev, err := p.Get(p.ctx, key)
	if err != nil {
		p.Fatalf("get %s: %v", key, err)
	}
	if kv != nil && rev < kv.ModRev {
		p.Fatalf("get %s: the store is at %d, the key at %d", key, rev, kv.ModRev)
	}
	return kv
}

func (p *probe) revision() int64 {
	p.Helper()
	rev, err := p.Revision(p.ctx)
	if err != nil {
		p.Fatalf("revision: %v", err)
	}
	return rev
}

func (p *probe) list(prefix, after string, limit int, rev int64) store.Page {
	p.Helper()
	page, err := p.List(p.ctx, prefix, after, limit, rev)
	if err != nil {
		p.Fatalf("list %s at %d: %v", prefix, rev, err)
	}
	return page
}

func (p *probe) compact(rev int64) {
	p.Helper()
	if err := p.Compact(p.ctx, rev); err != nil {
		p.Fatalf("compact up to %d: %v", rev, err)
	}
}

// conflict wants a write to be refused because of what stands under the key, and to change nothing.
func (p *probe) conflict(w store.Write, current *store.KV) {
	p.Helper()
	before := p.revision()
	rev, err := p.Write(p.ctx, w)
	var conflict *store.ConflictError
	if !errors.As(err, &conflict) {
		p.Fatalf("write %s expecting %d: revision %d, error %v; want a conflict", w.Key, w.Expect, rev, err)
	}
	if !equal(conflict.Current, current) {
		p.Errorf("write %s expecting %d: conflict with %v, want %v", w.Key, w.Expect, conflict.Current, current)
	}
	if conflict.At != before {
		p.Errorf("write %s: conflict at %d, the store was at %d", w.Key, conflict.At, before)
	}
	if now := p.revision(); now != before {
		p.Errorf("a conflict moved the revision from %d to %d", before, now)
	}
}

// is wants an error to be another.
func (p *probe) is(what string, got, want error) {
	p.Helper()
	if !errors.Is(got, want) {
		p.Errorf("%s: error %v, want %v", what, got, want)
	}
}

func equal(a, b *store.KV) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Key == b.Key && bytes.Equal(a.Value, b.Value) && a.CreateRev == b.CreateRev && a.ModRev == b.ModRev
}
