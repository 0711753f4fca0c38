package storetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/kloop-dev/kloop/store"
)

var lifetimes = map[string]func(*probe){
	"KeyExpires": func(p *probe) {
		start := p.revision()
		r := p.watch("/a", start)
		wrote := time.Now()
		made := p.mustWrite(store.Write{Key: "/a", Value: []byte("1"), TTL: time.Second})
		if p.get("/a") == nil && time.Since(wrote) < time.Second {
			p.Error("the key is gone at once")
		}
		events := r.until(made + 1)
		if age := time.Since(wrote); age < time.Second {
			p.Errorf("the key went after %v", age)
		}
		if len(events) != 2 || events[1].KV != nil || p.get("/a") != nil {
			p.Errorf("expiry told as %s", describe(events))
		}
		if page := p.list("/a", "", 0, made); len(page.KVs) != 1 {
			p.Errorf("the key is not in the past: %v", page)
		}
		p.conflict(store.Write{Key: "/a", Value: []byte("2"), Expect: made}, nil)
		p.create("/a", "3")
	},
	// Each write sets the lifetime anew. The keys that live on are compared with one that expires after the
	// first lifetime of the others.
	"WriteReplacesLifetime": func(p *probe) {
		ttl, round := time.Second, "/1"
		for !p.replaceLifetimes(round, ttl) { // the machine was too busy to do it within the lifetime
			ttl, round = 2*ttl, round+"1"
		}
		last := p.mustWrite(store.Write{Key: "/short", Value: []byte("1"), TTL: ttl})
		p.watch("/short", last).until(last + 1)
		for _, key := range []string{"/forever", "/longer", "/again"} {
			if p.get(round+key) == nil {
				p.Errorf("%s is gone", key)
			}
		}
	},
	// Many keys with similar lifetimes go, each told once, none too early.
	"ManyExpire": func(p *probe) {
		const n = 50
		r := p.watch("/e/", p.revision())
		var wg sync.WaitGroup
		var mu sync.Mutex
		due := map[string]time.Time{}
		for i := range n {
			wg.Go(func() {
				key, ttl := fmt.Sprint("/e/", i), 500*time.Millisecond+time.Duration(i)*10*time.Millisecond
				mu.Lock()
				due[key] = time.Now().Add(ttl)
				mu.Unlock()
				if _, err := p.Write(p.ctx, store.Write{Key: key, Value: []byte("1"), TTL: ttl}); err != nil {
					p.Error(err)
				}
			})
		}
		wg.Wait()
		gone := map[string]bool{}
		for seen := 0; len(gone) < n; {
			events := r.until(r.at() + 1)
			for ; seen < len(events); seen++ {
				switch e := events[seen]; {
				case e.KV != nil:
				case gone[e.Key]:
					p.Fatalf("%s went twice", e.Key)
				default:
					gone[e.Key] = true
					if early := time.Until(due[e.Key]); early > 0 {
						p.Errorf("%s went %v too early", e.Key, early)
					}
				}
			}
		}
	},
}

// replaceLifetimes makes keys with a lifetime and writes them again in all ways. It reports whether that was done while they lived.
func (p *probe) replaceLifetimes(prefix string, ttl time.Duration) bool {
	p.Helper()
	began, first := time.Now(), store.Write{Value: []byte("1"), TTL: ttl}
	made := func(key string) int64 {
		first.Key = prefix + key
		return p.mustWrite(first)
	}
	for _, w := range []store.Write{
		{Key: "/forever", Value: []byte("2"), Expect: made("/forever")},
		{Key: "/longer", Value: []byte("2"), Expect: made("/longer"), TTL: time.Hour},
		{Key: "/again", Expect: made("/again")},
		{Key: "/again", Value: []byte("2")},
	} {
		w.Key = prefix + w.Key
		_, err := p.Write(p.ctx, w)
		if time.Since(began) >= ttl {
			return false
		}
		if err != nil {
			p.Fatalf("write %s again: %v", w.Key, err)
		}
	}
	return true
}

func (r *recording) at() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rev
}
