package storetest

import (
	"errors"
	"strings"
	"time"

	"github.com/kloop-dev/kloop/store"
)

var writes = map[string]func(*probe){
	"CreateUpdateDelete": func(p *probe) {
		start := p.revision()
		made := p.create("/a", "1")
		if made != start+1 {
			p.Fatalf("first write is revision %d, want %d", made, start+1)
		}
		changed := p.update("/a", "2", made)
		if kv, want := p.get("/a"), (store.KV{Key: "/a", Value: []byte("2"), CreateRev: made, ModRev: start + 2}); !equal(kv, &want) {
			p.Errorf("after the update: %v, want %v", kv, want)
		}
		if gone := p.delete("/a", changed); gone != start+3 || p.get("/a") != nil {
			p.Errorf("after the delete at %d: %v", gone, p.get("/a"))
		}
		if again := p.create("/a", "3"); p.get("/a").CreateRev != again {
			p.Errorf("created again at %d: %v", again, p.get("/a"))
		}
	},
	"CreateExisting": func(p *probe) {
		p.create("/a", "1")
		p.conflict(store.Write{Key: "/a", Value: []byte("2")}, p.get("/a"))
	},
	"UpdateMissing": func(p *probe) {
		p.conflict(store.Write{Key: "/a", Value: []byte("2"), Expect: p.create("/b", "1")}, nil)
	},
	"UpdateStale": func(p *probe) {
		old := p.create("/a", "1")
		p.update("/a", "2", old)
		p.conflict(store.Write{Key: "/a", Value: []byte("3"), Expect: old}, p.get("/a"))
		p.conflict(store.Write{Key: "/a", Value: []byte("3"), Expect: p.revision() + 5}, p.get("/a"))
	},
	"DeleteMissing": func(p *probe) {
		rev := p.create("/b", "1")
		p.conflict(store.Write{Key: "/a", Expect: rev}, nil)
		p.conflict(store.Write{Key: "/a"}, nil)
		p.delete("/b", rev)
		p.conflict(store.Write{Key: "/b", Expect: rev}, nil)
	},
	"DeleteStale": func(p *probe) {
		old := p.create("/a", "1")
		p.update("/a", "2", old)
		p.conflict(store.Write{Key: "/a", Expect: old}, p.get("/a"))
		p.conflict(store.Write{Key: "/a"}, p.get("/a"))
	},
	"EmptyValueIsAValue": func(p *probe) {
		rev := p.mustWrite(store.Write{Key: "/a", Value: []byte{}})
		if kv := p.get("/a"); kv == nil || len(kv.Value) != 0 || kv.ModRev != rev {
			p.Errorf("got %v", kv)
		}
	},
	"AnyKey": func(p *probe) {
		for _, key := range []string{"a", "/", "/a b", "/ü", "/\x00", "/\xff", "\xff\xff", "/a/", strings.Repeat("k", 1000)} {
			p.create(key, key)
			if kv := p.get(key); kv == nil || kv.Key != key || string(kv.Value) != key {
				p.Errorf("%q: got %v", key, kv)
			}
		}
	},
	"BadWrites": func(p *probe) {
		before := p.revision()
		for _, w := range []store.Write{
			{Value: []byte("no key")},
			{Key: "/a", Value: []byte("negative lifetime"), TTL: -time.Second},
		} {
			if _, err := p.Write(p.ctx, w); err == nil {
				p.Errorf("took %v", w)
			}
		}
		if p.revision() != before {
			p.Error("a refused write moved the revision")
		}
	},
	"TooLarge": func(p *probe) {
		rev := p.mustWrite(store.Write{Key: "/a", Value: make([]byte, 1<<20)})
		_, err := p.Write(p.ctx, store.Write{Key: "/a", Value: make([]byte, 2<<20), Expect: rev})
		p.is("write of 2 MiB", err, store.ErrTooLarge)
		_, err = p.Write(p.ctx, store.Write{Key: "/a", Value: make([]byte, 20<<20), Expect: rev})
		p.is("write of 20 MiB", err, store.ErrTooLarge)
		if err != nil && strings.Contains(err.Error(), "/a") {
			p.Errorf("%v: the key is for the caller to name", err)
		}
		if kv := p.get("/a"); kv.ModRev != rev {
			p.Errorf("key moved from %d to %d", rev, kv.ModRev)
		}
	},
	"GetMissing": func(p *probe) {
		rev := p.create("/ab", "1")
		kv, at, err := p.Get(p.ctx, "/a")
		if kv != nil || at < rev || err != nil {
			p.Errorf("got %v at %d, %v", kv, at, err)
		}
	},
	"ConflictSaysWhy": func(p *probe) {
		rev := p.create("/a", "1")
		_, err := p.Write(p.ctx, store.Write{Key: "/a", Value: []byte("2")})
		var conflict *store.ConflictError
		if !errors.As(err, &conflict) || conflict.At < rev || string(conflict.Current.Value) != "1" {
			p.Errorf("got %v", err)
		}
	},
}
