//go:build linux

package netpolicy

import (
	"fmt"
	"maps"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// The names of ours in the kernel: nothing else is touched.
const (
	tableName = "kloop-policy"
	ledName   = "led-v1"
	hookName  = "forward-v1" // the number counts up when the chain's rules change: what an older version left is then made anew
)

// buffer is the size of the netlink socket's buffers: a transaction is one datagram, and each of its messages is acknowledged.
const buffer = 64 << 20

// elementsAtOnce bounds how many elements one message adds: the kernel's attributes are at most 64 KiB.
const elementsAtOnce = 500

func connect() (*nftables.Conn, error) {
	c, err := nftables.New(nftables.WithSockOptions(func(c *netlink.Conn) error {
		if err := c.SetWriteBuffer(buffer); err != nil {
			return err
		}
		return c.SetReadBuffer(buffer)
	}))
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	return c, nil
}

// A writer queues the messages of one transaction for the table of one family.
type writer struct {
	c   *nftables.Conn
	t   *nftables.Table
	p   *Plan
	err error
}

func newWriter(p *Plan) (*writer, error) {
	c, err := connect()
	if err != nil {
		return nil, err
	}
	return &writer{c: c, p: p, t: tableOf(p.V6)}, nil
}

func tableOf(v6 bool) *nftables.Table {
	if v6 {
		return &nftables.Table{Name: tableName, Family: nftables.TableFamilyIPv6}
	}
	return &nftables.Table{Name: tableName, Family: nftables.TableFamilyIPv4}
}

// program makes the kernel as the plan says: first all that decides, at once or not at all; then what nothing uses any more goes.
func program(p *Plan, c Change) error {
	w, err := newWriter(p)
	if err != nil {
		return err
	}
	w.build(c)
	if err := w.flush(); err != nil {
		return fmt.Errorf("write the policies to the kernel: %w", err)
	}
	for _, name := range c.OldChains {
		w.c.DelChain(w.named(name))
	}
	for _, name := range c.OldSets {
		w.c.DelSet(&nftables.Set{Table: w.t, Name: name})
	}
	if err := w.flush(); err != nil {
		return fmt.Errorf("remove old policies from the kernel: %w", err)
	}
	return nil
}

func (w *writer) flush() error {
	if w.err != nil {
		return w.err
	}
	return w.c.Flush()
}

// build queues what decides. Sets come before the rules that look into them, chains before the elements that lead to them.
func (w *writer) build(c Change) {
	w.c.AddTable(w.t)
	if c.Whole {
		w.c.DelTable(w.t)
		w.c.AddTable(w.t)
	}
	for _, name := range c.NewSets {
		w.note(w.c.AddSet(w.set(name), nil))
	}
	if c.Whole {
		w.hook()
	}
	for _, name := range c.NewChains {
		w.c.AddChain(w.named(name))
	}
	// Sets of peers are filled before a chain is led to that looks into them: a reader of the queue sees no wider state than the plan's.
	for _, del := range []bool{true, false} {
		changes := c.Add
		if del {
			changes = c.Del
		}
		for _, name := range slices.Sorted(maps.Keys(changes)) {
			w.elements(name, changes[name], del)
		}
	}
	for _, name := range c.NewChains {
		w.chain(name)
	}
}

func (w *writer) note(err error) {
	if w.err == nil {
		w.err = err
	}
}

// set declares a set of the plan.
func (w *writer) set(name string) *nftables.Set {
	addr := nftables.TypeIPAddr
	if w.p.V6 {
		addr = nftables.TypeIP6Addr
	}
	s := &nftables.Set{Table: w.t, Name: name, KeyType: addr}
	concat := func(b nftables.SetDatatype) {
		t, err := nftables.ConcatSetType(addr, b)
		w.note(err)
		s.KeyType, s.Concatenation = t, true
	}
	switch w.p.Sets[name].Kind {
	case Chains:
		s.IsMap, s.DataType = true, nftables.TypeVerdict
	case Pairs:
		concat(addr)
	case Ends:
		concat(nftables.TypeInetService)
	case Ranges:
		s.Interval = true
	}
	return s
}

func (w *writer) elements(name string, list map[string]string, del bool) {
	s, kind := w.set(name), w.p.Sets[name].Kind
	var queue []nftables.SetElement
	for _, k := range slices.Sorted(maps.Keys(list)) {
		e := nftables.SetElement{Key: []byte(k)}
		if kind == Chains && !del {
			e.VerdictData = &expr.Verdict{Kind: expr.VerdictJump, Chain: list[k]}
		}
		queue = append(queue, e)
		if end := after(list[k]); kind == Ranges && end != nil {
			queue = append(queue, nftables.SetElement{Key: end, IntervalEnd: true})
		}
	}
	for part := range slices.Chunk(queue, elementsAtOnce) {
		if del {
			w.note(w.c.SetDeleteElements(s, part))
		} else {
			w.note(w.c.SetAddElements(s, part))
		}
	}
}

// after is the address behind a range's last; nil behind the last of all.
func after(last string) []byte {
	next := []byte(last)
	for i := len(next) - 1; i >= 0; i-- {
		next[i]++
		if next[i] != 0 {
			return next
		}
	}
	return nil
}

// chain queues the rules of a chain: a connection that one of them matches goes back to where it came from, all others are dropped.
func (w *writer) chain(name string) {
	c := w.named(name)
	incoming := name[:3] == "in-"
	for _, m := range w.p.Chains[name] {
		e := append(w.port(m), w.peer(m, incoming)...)
		w.rule(c, append(e, &expr.Verdict{Kind: expr.VerdictReturn}))
	}
	w.rule(c, []expr.Any{&expr.Counter{}, &expr.Verdict{Kind: expr.VerdictDrop}})
}

func (w *writer) rule(c *nftables.Chain, e []expr.Any) {
	w.c.AddRule(&nftables.Rule{Table: w.t, Chain: c, Exprs: e})
}

// port matches protocol and destination port.
func (w *writer) port(m Match) (e []expr.Any) {
	if m.Protocol == 0 {
		return nil
	}
	e = append(e, &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{m.Protocol}})
	if m.To == 0 {
		return e
	}
	return append(e, destinationPort(1),
		&expr.Cmp{Op: expr.CmpOpGte, Register: 1, Data: binaryutil.BigEndian.PutUint16(m.From)},
		&expr.Cmp{Op: expr.CmpOpLte, Register: 1, Data: binaryutil.BigEndian.PutUint16(m.To)})
}

// peer looks the other end up: where the connection comes from, or where it goes to.
func (w *writer) peer(m Match, incoming bool) []expr.Any {
	if m.Set == "" {
		return nil
	}
	e := []expr.Any{w.address(incoming, unix.NFT_REG32_00)}
	if w.p.Sets[m.Set].Kind == Ends {
		e = append(e, destinationPort(unix.NFT_REG32_00+uint32(w.length()/4)))
	}
	return append(e, &expr.Lookup{SourceRegister: unix.NFT_REG32_00, SetName: m.Set})
}

func destinationPort(register uint32) expr.Any {
	return &expr.Payload{DestRegister: register, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2}
}

// length is that of an address in bytes.
func (w *writer) length() int {
	if w.p.V6 {
		return 16
	}
	return 4
}

// address loads the source or destination address.
func (w *writer) address(source bool, register uint32) expr.Any {
	offset := uint32(12)
	if w.p.V6 {
		offset = 8
	}
	if !source {
		offset += uint32(w.length())
	}
	return &expr.Payload{DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: uint32(w.length())}
}

// named is a chain of the table.
func (w *writer) named(name string) *nftables.Chain { return &nftables.Chain{Name: name, Table: w.t} }
