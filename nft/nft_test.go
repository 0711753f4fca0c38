package nft

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"syscall"
	"testing"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/kloop-dev/kloop/test/need"
)

// open opens a socket in a network namespace of the test's own.
func open(t *testing.T) *Conn {
	t.Helper()
	need.BeRoot(t)
	runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
	need.Have(t, need.Root, unix.Unshare(unix.CLONE_NEWNET))
	c, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

var (
	table = Table{IPv4, "t"}
	pairs = Set{Name: "pairs", KeyLen: 8, DataLen: 12}
	ways  = Set{Name: "ways", KeyLen: 4, Verdicts: true}
	learn = Set{Name: "learn", KeyLen: 4, DataLen: 4, Learns: true, Size: 100}
)

func commit(t *testing.T, c *Conn, fill func(*Batch)) error {
	t.Helper()
	b := NewBatch(table)
	fill(b)
	return c.Commit(b)
}

func some(n int) (list []Element) {
	for i := range n {
		list = append(list, Element{Key: fmt.Sprintf("%08d", i), Data: fmt.Sprintf("%012d", i)})
	}
	return list
}

// TestRoundTrip lists what was put in, and sees that a transaction is whole.
func TestRoundTrip(t *testing.T) {
	c := open(t)
	if there, err := c.Exists(table); there || err != nil {
		t.Fatalf("the table exists: %v, %v", there, err)
	}
	verdict := NewRule(IPv4, "drop it", &expr.Verdict{Kind: expr.VerdictDrop})
	hook := &Hook{Type: "nat", Num: unix.NF_INET_PRE_ROUTING, Priority: -100}
	const n = 20_000
	err := commit(t, c, func(b *Batch) {
		b.AddTable()
		b.AddChain(Chain{Name: "base", Hook: hook})
		b.AddChain(Chain{Name: "end"})
		b.AddRule("end", verdict)
		b.AddRule("end", verdict)
		for _, s := range []Set{pairs, ways, learn} {
			b.AddSet(s)
		}
		b.AddElements(pairs, some(n))
		b.AddElements(ways, []Element{{Key: "abcd", Data: "end"}})
	})
	if err != nil {
		t.Fatal(err)
	}
	chains, err := c.Chains(table)
	if err != nil {
		t.Fatal(err)
	}
	if b := chains["base"]; b == nil || b.Hook == nil || *b.Hook != *hook {
		t.Errorf("base chain: %+v", b)
	}
	if e := chains["end"]; e == nil || len(e.Rules) != 2 || e.Rules[1].Comment != "drop it" {
		t.Errorf("chain end: %+v", e)
	}
	sets, err := c.Sets(table)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []Set{pairs, ways, learn} {
		if sets[s.Name] != s {
			t.Errorf("set %+v, want %+v", sets[s.Name], s)
		}
	}
	want := map[string]string{}
	for _, e := range some(n) {
		want[e.Key] = e.Data
	}
	if got, err := c.Elements(table, "pairs"); err != nil || !maps.Equal(got, want) {
		t.Errorf("%d elements, %v; want %d", len(got), err, n)
	}
	if got, err := c.Elements(table, "ways"); err != nil || got["abcd"] != "end" {
		t.Errorf("map of verdicts: %v, %v", got, err)
	}

	// A transaction that fails leaves everything as it was, and the error says which part of it failed.
	before, err := c.Generation()
	if err != nil {
		t.Fatal(err)
	}
	err = commit(t, c, func(b *Batch) {
		b.DeleteElements(pairs, some(10))
		b.DeleteChain("nowhere")
		b.FlushChain("end")
	})
	if !errors.Is(err, syscall.ENOENT) || err.Error() != "delete chain nowhere in table ip t: no such file or directory" {
		t.Errorf("the error: %v", err)
	}
	if after, err := c.Generation(); err != nil || after != before {
		t.Errorf("generation %d, then %d, %v", before, after, err)
	}
	if got, _ := c.Elements(table, "pairs"); len(got) != n {
		t.Errorf("%d elements after a failed transaction, want %d", len(got), n)
	}
	// Delete and add of one key in one transaction replaces it.
	key := some(1)
	if err := commit(t, c, func(b *Batch) {
		b.DeleteElements(pairs, key)
		b.AddElements(pairs, []Element{{Key: key[0].Key, Data: "another data"}})
	}); err != nil {
		t.Fatal(err)
	}
	if got, _ := c.Elements(table, "pairs"); got[key[0].Key] != "another data" {
		t.Errorf("replaced element: %q", got[key[0].Key])
	}
}

// TestWatch sees one note for a transaction, of whatever size, and none without.
func TestWatch(t *testing.T) {
	c := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	changed, err := Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := commit(t, c, func(b *Batch) {
			b.AddTable()
			b.AddSet(pairs)
			if i > 0 {
				b.DeleteElements(pairs, some(5000))
			}
			b.AddElements(pairs, some(5000))
		}); err != nil {
			t.Fatal(err)
		}
		<-changed
	}
	select {
	case <-changed:
		t.Error("told of a change that was none")
	default:
	}
}
