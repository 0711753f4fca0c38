package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/kloop-dev/kloop/store"
)

// A model is the contract in its simplest form: the whole state at every revision.
type model struct {
	first  int64
	states []map[string]store.KV // of first, first+1, ...
}

func (m *model) rev() int64 { return m.first + int64(len(m.states)) - 1 }

func (m *model) now() map[string]store.KV { return m.states[len(m.states)-1] }

// write returns whether the write succeeds.
func (m *model) write(w store.Write) bool {
	old, exists := m.now()[w.Key]
	if old.ModRev != w.Expect || !exists && w.Value == nil {
		return false
	}
	next := map[string]store.KV{}
	for key, kv := range m.now() {
		next[key] = kv
	}
	rev := m.rev() + 1
	kv := store.KV{Key: w.Key, Value: w.Value, CreateRev: rev, ModRev: rev}
	if exists {
		kv.CreateRev = old.CreateRev
	}
	if next[w.Key] = kv; w.Value == nil {
		delete(next, w.Key)
	}
	m.states = append(m.states, next)
	return true
}

func (m *model) list(prefix, after string, limit int, rev int64) (page store.Page) {
	page.Rev = rev
	for key, kv := range m.states[rev-m.first] {
		if strings.HasPrefix(key, prefix) && key > after {
			page.KVs = append(page.KVs, kv)
		}
	}
	sort.Slice(page.KVs, func(i, j int) bool { return page.KVs[i].Key < page.KVs[j].Key })
	if limit > 0 && len(page.KVs) > limit {
		page.Left = int64(len(page.KVs) - limit)
		page.KVs, page.More = page.KVs[:limit], true
	}
	return page
}

// modelTest does random things to a store and to the model, and wants the same answers.
func modelTest(p *probe) {
	seed := uint64(time.Now().UnixNano())
	p.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	m := &model{first: p.revision(), states: []map[string]store.KV{{}}}
	compacted, names := m.first, []string{"/a", "/a/1", "/a/2", "/a0", "/b/1", "/b/2"}
	for n := range 400 {
		key := names[random.IntN(len(names))]
		switch random.IntN(10) {
		case 0:
			compacted += random.Int64N(m.rev() - compacted + 1)
			p.compact(compacted)
		case 1, 2, 3:
			prefix, after := key[:random.IntN(len(key)+1)], []string{"", key}[random.IntN(2)]
			limit, rev := random.IntN(4), compacted+random.Int64N(m.rev()-compacted+1)
			got, want := p.list(prefix, after, limit, rev), m.list(prefix, after, limit, rev)
			if !slices.EqualFunc(got.KVs, want.KVs, same) || got.Left != want.Left || got.More != want.More || got.Rev != rev {
				p.Fatalf("step %d: list %q after %q, limit %d, at %d: %v\nwant %v", n, prefix, after, limit, rev, got, want)
			}
		default:
			w := store.Write{Key: key, Value: fmt.Append(nil, n), Expect: m.now()[key].ModRev}
			switch random.IntN(6) {
			case 0:
				w.Expect = random.Int64N(m.rev() + 2)
			case 1, 2:
				w.Value = nil
			}
			rev, err := p.Write(p.ctx, w)
			if ok := m.write(w); ok != (err == nil) || ok && rev != m.rev() {
				p.Fatalf("step %d: write %s expecting %d: %d, %v; the model is at %d", n, key, w.Expect, rev, err, m.rev())
			}
		}
	}
}

// An attempt is one write or read as the checker of linearizability sees it; outcome is its result.
type attempt struct {
	key    string
	write  bool
	expect int64
}

type outcome struct {
	ok  bool  // the write was done
	rev int64 // the key's revision afterwards; 0: there is no key
}

// register is one key: its state is its revision.
var register = porcupine.Model{
	Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
		byKey := map[string][]porcupine.Operation{}
		for _, op := range history {
			key := op.Input.(attempt).key
			byKey[key] = append(byKey[key], op)
		}
		for _, part := range byKey {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return int64(0) },
	Step: func(state, input, output any) (bool, any) {
		rev, in, out := state.(int64), input.(attempt), output.(outcome)
		if in.write && out.ok {
			return in.expect == rev && out.rev > rev, out.rev
		}
		return out.rev == rev && !(in.write && in.expect == rev), state
	},
}

// linearizable lets clients write and read the same keys at once, with expectations that are sometimes
// stale, and looks for an order of it all that explains every answer.
func linearizable(p *probe) {
	var (
		mu      sync.Mutex
		history []porcupine.Operation
		wg      sync.WaitGroup
		begin   = time.Now()
	)
	for client := range 6 {
		wg.Go(func() {
			random, seen := rand.New(rand.NewPCG(7, uint64(client))), map[string]int64{}
			for n := range 60 {
				in := attempt{key: fmt.Sprint("/l/", random.IntN(2)), write: n%3 != 0}
				in.expect = seen[in.key]
				call := time.Since(begin)
				out, err := p.attempt(in)
				done := time.Since(begin)
				if err != nil {
					p.Error(err)
					return
				}
				seen[in.key] = out.rev
				mu.Lock()
				history = append(history, porcupine.Operation{ClientId: client, Input: in, Call: int64(call), Output: out, Return: int64(done)})
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if result := porcupine.CheckOperationsTimeout(register, history, patience/2); result != porcupine.Ok {
		p.Errorf("history of %d operations: linearizable %v", len(history), result)
	}
}

func (p *probe) attempt(in attempt) (outcome, error) {
	if !in.write {
		kv, _, err := p.Get(p.ctx, in.key)
		return outcome{rev: modRev(kv)}, err
	}
	rev, err := p.Write(p.ctx, store.Write{Key: in.key, Value: []byte("x"), Expect: in.expect})
	var conflict *store.ConflictError
	if errors.As(err, &conflict) {
		return outcome{rev: modRev(conflict.Current)}, nil
	}
	return outcome{ok: err == nil, rev: rev}, err
}

func modRev(kv *store.KV) int64 {
	if kv == nil {
		return 0
	}
	return kv.ModRev
}
