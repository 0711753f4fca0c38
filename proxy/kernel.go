package proxy

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kloop-dev/kloop/nft"
)

// kernel is our table of one family as it was after our last transaction. It saves listing what is there: while nobody else
// touches the filter (its generation tells) the kernel holds just this.
type kernel struct {
	layout layout
	exists bool
	chains map[string]*nft.Chain
	ways   map[string]string
	turn   int // of the book, for which chains and ways are right
}

func newKernel(v6 bool) *kernel { return &kernel{layout: newLayout(v6)} }

// wanted says whether the family has anything to serve. Without the table stays away.
func (k *kernel) wanted(b *book) bool {
	return len(b.ways[family6(k.layout.v6)]) > 0 || len(k.layout.ours(b.here.services)) > 0
}

// follow brings the table from its state after the last transaction to the one that the book wants now; changed lists the elements that
// differ. It returns the transaction, and the table's state once that has happened.
func (k *kernel) follow(b *book, changed change) (*nft.Batch, *kernel) {
	d := difference{batch: nft.NewBatch(k.layout.table()), layout: k.layout}
	next := k
	if k.turn != b.turn {
		used := b.ways[family6(k.layout.v6)]
		next = &kernel{layout: k.layout, exists: true, chains: k.layout.chains(&b.here, used, k.chains), ways: numbers(used), turn: b.turn}
		d.chains(k.chains, next.chains)
		d.compare(ways, k.ways, next.ways)
	}
	for e, side := range changed {
		if e.v6 == k.layout.v6 {
			d.element(e.set, e.key, side[0], side[1])
		}
	}
	d.elements()
	return d.batch, next
}

// numbers maps the ways' numbers to their chains.
func numbers(used map[way]int) map[string]string {
	out := make(map[string]string, len(used))
	for w := range used {
		out[bits(w.id())] = w.name()
	}
	return out
}

// repair compares the table with what the book wants, whatever state it is in, and makes the difference.
func (k *kernel) repair(c *nft.Conn, b *book) (*nft.Batch, *kernel, error) {
	v6, t := k.layout.v6, k.layout.table()
	d := difference{batch: nft.NewBatch(t), layout: k.layout}
	exists, err := c.Exists(t)
	if err != nil {
		return nil, nil, err
	}
	if !k.wanted(b) {
		if exists {
			d.batch.DeleteTable()
		}
		return d.batch, newKernel(v6), nil
	}
	usable := false
	if exists {
		if usable, err = k.usable(c); err != nil {
			return nil, nil, err
		}
		if !usable {
			d.batch.DeleteTable()
		}
	}
	d.batch.AddTable()
	for i := range setCount {
		d.batch.AddSet(set(i, v6))
	}
	used := b.ways[family6(v6)]
	next := &kernel{layout: k.layout, exists: true, chains: k.layout.chains(&b.here, used, nil), ways: numbers(used), turn: b.turn}
	if !usable {
		d.chains(nil, next.chains)
		b.each(v6, func(set int, key, data string) { d.element(set, key, nil, &data) })
	} else if err := d.mend(c, b, next.chains); err != nil {
		return nil, nil, err
	}
	d.elements()
	return d.batch, next, nil
}

// mend lists the table and notes what is not as it should be. What packets have learned stays.
func (d *difference) mend(c *nft.Conn, b *book, chains map[string]*nft.Chain) error {
	t := d.layout.table()
	have, err := c.Chains(t)
	if err != nil {
		return err
	}
	d.chains(have, chains)
	for i, want := range b.all(d.layout.v6) {
		if i == affinity {
			continue
		}
		held, err := c.Elements(t, set(i, d.layout.v6).Name)
		if err != nil {
			return err
		}
		d.compare(i, held, want)
	}
	return nil
}

// usable says whether the table can be mended: its sets must be of our shape, and its base chains where ours are. One that can't, of
// an older version for example, is replaced in one transaction.
func (k *kernel) usable(c *nft.Conn) (bool, error) {
	t := k.layout.table()
	sets, err := c.Sets(t)
	if err != nil {
		return false, err
	}
	for i := range setCount {
		want := set(i, k.layout.v6)
		got, there := sets[want.Name]
		want.Size, got.Size = 0, 0
		if !there || got != want {
			return false, nil
		}
	}
	chains, err := c.Chains(t)
	if err != nil {
		return false, err
	}
	for name, want := range k.layout.chains(&here{}, nil, nil) {
		got := chains[name]
		if got != nil && (want.Hook == nil) != (got.Hook == nil) || got != nil && want.Hook != nil && *want.Hook != *got.Hook {
			return false, nil
		}
	}
	for name, got := range chains {
		if got.Hook != nil && !slices.Contains([]string{"incoming", "own", "outgoing"}, name) {
			return false, nil
		}
	}
	return true, nil
}

// Cleanup deletes our tables from the network namespace of this thread, for a machine whose services another program serves now.
func Cleanup() error {
	c, err := nft.Open()
	if err != nil {
		return err
	}
	defer c.Close()
	for _, v6 := range []bool{false, true} {
		t := newLayout(v6).table()
		there, err := c.Exists(t)
		if err != nil {
			return err
		}
		if !there {
			continue
		}
		b := nft.NewBatch(t)
		b.DeleteTable()
		if err := c.Commit(b); err != nil {
			return err
		}
	}
	return nil
}

// A difference collects one transaction: new chains first, then elements that go and elements that come.
type difference struct {
	batch  *nft.Batch
	layout layout
	gone   [setCount][]nft.Element
	come   [setCount][]nft.Element
}

// chains makes chains and rules. Rules are known by their comments, which name their code. Chains that are no longer wanted stay:
// they are few, nothing leads to them, and sweep takes them away.
func (d *difference) chains(have, want map[string]*nft.Chain) {
	names := slices.Sorted(maps.Keys(want))
	var changed []string
	for _, name := range names {
		got := have[name]
		if got == nil {
			d.batch.AddChain(*want[name]) // or it is there, stale
		}
		if got == nil || !slices.EqualFunc(got.Rules, want[name].Rules, func(a, b nft.Rule) bool { return a.Comment == b.Comment }) {
			changed = append(changed, name)
		}
	}
	for _, name := range changed {
		d.batch.FlushChain(name)
		for _, r := range want[name].Rules {
			d.batch.AddRule(name, r)
		}
	}
}

func (d *difference) note(set int, key string, have map[string]string, want *string) {
	if old, there := have[key]; there {
		d.element(set, key, &old, want)
		return
	}
	d.element(set, key, nil, want)
}

func (d *difference) element(set int, key string, old, now *string) {
	if old != nil && now != nil && *old == *now {
		return
	}
	if old != nil {
		d.gone[set] = append(d.gone[set], nft.Element{Key: key})
	}
	if now != nil {
		d.come[set] = append(d.come[set], nft.Element{Key: key, Data: *now})
	}
}

func (d *difference) compare(set int, have, want map[string]string) {
	for key, data := range want {
		d.note(set, key, have, &data)
	}
	for key, data := range have {
		if _, wanted := want[key]; !wanted {
			d.element(set, key, &data, nil)
		}
	}
}

func (d *difference) elements() {
	for i := range setCount {
		d.batch.DeleteElements(set(i, d.layout.v6), d.gone[i])
		d.batch.AddElements(set(i, d.layout.v6), d.come[i])
	}
}

// dropped says whether k had a chain that is not needed any more.
func (next *kernel) dropped(k *kernel) bool {
	for name := range k.chains {
		if next.chains[name] == nil {
			return true
		}
	}
	return false
}

// sweep deletes chains that nothing leads to any more, and says whether there were any.
func (k *kernel) sweep(c *nft.Conn) (bool, error) {
	have, err := c.Chains(k.layout.table())
	if err != nil {
		return false, err
	}
	b := nft.NewBatch(k.layout.table())
	var stale []string
	for name := range have {
		if k.chains[name] == nil {
			stale = append(stale, name)
		}
	}
	for _, name := range stale {
		b.FlushChain(name) // they may lead to each other
	}
	for _, name := range stale {
		b.DeleteChain(name)
	}
	if err := c.Commit(b); err != nil {
		return false, fmt.Errorf("delete %d chains that are not needed: %w", len(stale), err)
	}
	return len(stale) > 0, nil
}
