package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"

	"github.com/kloop-dev/kloop/store"
)

var storms = map[string]func(*probe){
	"Model":        modelTest,
	"Linearizable": linearizable,
	// Writers that read, add one and write back lose nothing.
	"Counter": func(p *probe) {
		const writers, each = 8, 25
		p.create("/n", "0")
		var wg sync.WaitGroup
		for range writers {
			wg.Go(func() {
				for range each {
					if err := p.increment("/n"); err != nil {
						p.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		if got := string(p.get("/n").Value); got != fmt.Sprint(writers*each) {
			p.Errorf("counted %s, want %d", got, writers*each)
		}
	},
	"OneCreatorWins": func(p *probe) {
		for round := range 10 {
			var wg sync.WaitGroup
			var mu sync.Mutex
			won, key := 0, fmt.Sprint("/race/", round)
			for range 8 {
				wg.Go(func() {
					rev, err := p.Write(p.ctx, store.Write{Key: key, Value: []byte("1")})
					var conflict *store.ConflictError
					mu.Lock()
					defer mu.Unlock()
					switch {
					case err == nil:
						won++
					case !errors.As(err, &conflict):
						p.Error(err)
					case conflict.Current == nil || conflict.Current.ModRev > conflict.At:
						p.Errorf("lost at %d to %v, revision %d", conflict.At, conflict.Current, rev)
					}
				})
			}
			wg.Wait()
			if won != 1 {
				p.Errorf("%d creators won", won)
			}
		}
	},
	// Under many writers every watch tells every acknowledged write
	// once and in order, wherever it started.
	"WatchUnderLoad": func(p *probe) {
		start := p.revision()
		all, some := p.watch("/load/", start), p.watch("/load/3/", start)
		acked := p.load(8, 120, func(n int) {
			if n == 60 {
				p.watchMatches("/load/5/", start)
			}
		})
		last := p.revision()
		late := p.watch("/load/", start)
		got := all.until(last)
		if want := describe(got); describe(late.until(last)) != want {
			p.Error("two watches of the same keys differ")
		}
		if n := len(some.until(last)); n != 120 {
			p.Errorf("a watch of one writer's keys saw %d writes, want 120", n)
		}
		if len(got) != len(acked) {
			p.Errorf("%d events for %d writes", len(got), len(acked))
		}
		for _, e := range got {
			if key := acked[e.Rev]; key != e.Key {
				p.Errorf("event of %s at %d; the write of that revision was of %q", e.Key, e.Rev, key)
			}
		}
		p.replay("/load/", got)
	},
	// The same with a compaction behind every watcher's back: watches that keep up notice nothing.
	"CompactUnderLoad": func(p *probe) {
		r := p.watch("/load/", p.revision())
		acked := p.load(4, 100, func(n int) {
			if n%20 == 19 {
				p.compact(r.at())
			}
		})
		if got := r.until(p.revision()); len(got) != len(acked) {
			p.Errorf("%d events for %d writes", len(got), len(acked))
		} else {
			p.replay("/load/", got)
		}
	},
}

// increment adds one to the number under a key, again after every conflict.
func (p *probe) increment(key string) error {
	kv, _, err := p.Get(p.ctx, key)
	for err == nil {
		n, _ := strconv.Atoi(string(kv.Value))
		_, err = p.Write(p.ctx, store.Write{Key: key, Value: []byte(strconv.Itoa(n + 1)), Expect: kv.ModRev})
		var conflict *store.ConflictError
		if !errors.As(err, &conflict) {
			return err
		}
		kv, err = conflict.Current, nil
	}
	return err
}

// load writes with several writers, each on keys of its own: creates, updates and deletes. It returns the key
// that was written at each revision. between runs after every write of the first writer.
func (p *probe) load(writers, each int, between func(n int)) map[int64]string {
	p.Helper()
	acked, mu := map[int64]string{}, sync.Mutex{}
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			random, revs := rand.New(rand.NewPCG(1, uint64(w))), map[string]int64{}
			for n := range each {
				key := fmt.Sprintf("/load/%d/%d", w, random.IntN(5))
				write := store.Write{Key: key, Value: fmt.Append(nil, n), Expect: revs[key]}
				if revs[key] > 0 && random.IntN(3) == 0 {
					write.Value = nil
				}
				rev, err := p.Write(p.ctx, write)
				if err != nil {
					p.Errorf("write %s: %v", key, err)
					return
				}
				revs[key] = rev
				if write.Value == nil {
					revs[key] = 0
				}
				mu.Lock()
				if other, ok := acked[rev]; ok {
					p.Errorf("revision %d was given to %s and %s", rev, other, key)
				}
				acked[rev] = key
				mu.Unlock()
				if w == 0 {
					between(n)
				}
			}
		})
	}
	wg.Wait()
	return acked
}

// watchMatches compares what a new watch tells with what the store holds at the revision it came to.
func (p *probe) watchMatches(prefix string, after int64) {
	r := p.watch(prefix, after)
	r.until(p.revision())
	r.cancel()
	r.end()
	p.compare(prefix, r.events, r.rev)
}

// replay compares the state that all events of the keys leave behind with what the store holds now.
func (p *probe) replay(prefix string, events []store.Event) {
	p.Helper()
	p.compare(prefix, events, p.revision())
}

func (p *probe) compare(prefix string, events []store.Event, rev int64) {
	p.Helper()
	state := map[string]*store.KV{}
	for _, e := range events {
		if state[e.Key] = e.KV; e.KV == nil {
			delete(state, e.Key)
		}
	}
	page := p.list(prefix, "", 0, rev)
	if len(page.KVs) != len(state) {
		p.Errorf("events up to %d leave %d keys, the store holds %d", rev, len(state), len(page.KVs))
	}
	for _, kv := range page.KVs {
		if !equal(state[kv.Key], &kv) {
			p.Errorf("%s: events up to %d leave %v, the store holds %v", kv.Key, rev, state[kv.Key], kv)
		}
	}
}
