package proxy

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/kloop-dev/kloop/nft"
)

// kernel is our table of one family as it was after our last transaction. It saves listing what is there: while nobody else
// touches the filter (its generation tells) the kernel holds just this.
type kernel struct {
	layout layout
	exists bool
	chains map[string]*nft.Chain
	ways   map[string]string
	turn   int       // of the book, for which chains and ways are right
	idle   time.Time // since when chains lie there that nothing leads to; zero: there are none
	fallow int       // at most so many
}

func newKernel(v6, ipvs bool) *kernel {
	l := newLayout(v6)
	l.ipvs = ipvs
	return &kernel{layout: l}
}

func newKernels(ipvs bool) [2]*kernel {
	return [2]*kernel{newKernel(false, ipvs), newKernel(true, ipvs)}
}

// wanted says whether the family has anything to serve. Without the table stays away.
func (k *kernel) wanted(b *book) bool {
	return len(b.ways[family6(k.layout.v6)]) > 0 || len(k.layout.ours(b.here.services)) > 0
}

// follow brings the table from its state after the last transaction to the one that the book wants now; changed lists the elements that
// differ. It returns the transactions, and the table's state once they have happened.
func (k *kernel) follow(b *book, changed change) ([]*nft.Batch, *kernel) {
	d := newDifference(k.layout)
	next := k
	if k.turn != b.turn {
		used := b.ways[family6(k.layout.v6)]
		next = &kernel{layout: k.layout, exists: true, chains: k.layout.chains(&b.here, used, k.chains), ways: numbers(used), turn: b.turn,
			idle: k.idle, fallow: k.fallow}
		next.leave(k)
		d.chains(k.chains, next.chains)
		d.compare(ways, k.ways, next.ways)
	}
	for e, side := range changed {
		if e.v6 == k.layout.v6 {
			d.element(e.set, e.key, side[0], side[1])
		}
	}
	return d.elements(), next
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
func (k *kernel) repair(c *nft.Conn, b *book) ([]*nft.Batch, *kernel, error) {
	v6, t := k.layout.v6, k.layout.table()
	d := newDifference(k.layout)
	exists, err := c.Exists(t)
	if err != nil {
		return nil, nil, err
	}
	if !k.wanted(b) {
		if exists {
			d.batch.DeleteTable()
		}
		return []*nft.Batch{d.batch}, newKernel(v6, k.layout.ipvs), nil
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
		d.lead = d.batch // nothing is there that a packet could be on its way through
	} else if err := d.mend(c, b, next, k.exists); err != nil {
		return nil, nil, err
	}
	return d.elements(), next, nil
}

// mend lists the table and notes what is not as it should be. Elements that packets added (session affinity) stay. What
// is there before this proxy is known to have made anything is a former one's.
func (d *difference) mend(c *nft.Conn, b *book, next *kernel, known bool) error {
	t := d.layout.table()
	have, err := c.Chains(t)
	if err != nil {
		return err
	}
	d.chains(have, next.chains)
	next.leave(&kernel{chains: have})
	var all [setCount]map[string]string
	for i, want := range b.all(d.layout.v6) {
		if i == affinity {
			continue
		}
		held, err := c.Elements(t, set(i, d.layout.v6).Name)
		if err != nil {
			return err
		}
		d.compare(i, held, want)
		all[i] = held
	}
	if !known {
		b.past.read(all[services], all[endpoints])
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

// Cleanup deletes our tables from the network namespace of this thread, and what mode ipvs of ours left but for the virtual servers of the
// excluded addresses, for a machine whose services another program serves now.
func Cleanup(exclude ...netip.Prefix) error {
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
	return sweepIPVS(exclude)
}

// A difference collects two transactions: chains and their rules, then elements that go and elements that come.
//
// Two, because a packet keeps the generation of the rules in which it began, while each look-up in a map has that of its own moment: in
// one transaction, a packet on its way could be led by an element of the new generation into a chain that is empty in its own, fall out of
// it, and leave with its address unchanged. The kernel then remembers that for the whole connection.
type difference struct {
	batch  *nft.Batch
	lead   *nft.Batch // takes the elements
	layout layout
	gone   [setCount][]nft.Element
	come   [setCount][]nft.Element
}

func newDifference(l layout) *difference {
	return &difference{batch: nft.NewBatch(l.table()), lead: nft.NewBatch(l.table()), layout: l}
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

func (d *difference) elements() []*nft.Batch {
	for i := range setCount {
		d.lead.DeleteElements(set(i, d.layout.v6), d.gone[i])
		d.lead.AddElements(set(i, d.layout.v6), d.come[i])
	}
	if d.lead == d.batch {
		return []*nft.Batch{d.batch}
	}
	return []*nft.Batch{d.batch, d.lead}
}

// leave notes that chains of k are not needed any more. They lie there for a while, for packets that are on their way to them.
func (next *kernel) leave(k *kernel) {
	for name := range k.chains {
		if next.chains[name] == nil {
			next.fallow++
			next.idle = time.Now()
		}
	}
}

// Idle chains go once nothing led to any of them for so long, or when there are so many.
const (
	fallowFor  = time.Second
	fallowMost = 1000
)

// weeds says whether idle chains are to go.
func (k *kernel) weeds() bool {
	return k.exists && !k.idle.IsZero() && (time.Since(k.idle) > fallowFor || k.fallow > fallowMost)
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
	k.idle, k.fallow = time.Time{}, 0
	return len(stale) > 0, nil
}
