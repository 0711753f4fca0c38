package podnetwork

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"

	"github.com/kloop-dev/kloop/nft"
)

// table is the name of ours. Nobody else's rules are touched.
const table = "kloop-pods"

// podTable is it for package nft.
var podTable = nft.Table{Family: nft.IPv4, Name: table}

// buffer is the size of the netlink socket's buffers: a transaction is one datagram, and each message is acknowledged.
const buffer = 16 << 20

// atOnce bounds how many elements one message adds: the kernel's attributes are at most 64 KiB.
const atOnce = 500

// Where an IPv4 header has its addresses.
const (
	source      = 12
	destination = 16
)

// masquerade brings the rules to the census, if they are not there or were made for other ranges.
func (l *loop) masquerade() error {
	there, err := l.filter.Exists(podTable)
	if err != nil {
		return fmt.Errorf("look for the rules that let pods out: %w", err)
	}
	own, pods := only4(l.census.own.ranges), only4(l.census.pods)
	made := append(slices.Clone(own), pods...)
	if len(own) == 0 || there && slices.Equal(made, l.masked) {
		return nil
	}
	if err := program(own[0], pods); err != nil {
		return fmt.Errorf("let pods out of their network: %w", err)
	}
	l.masked = made
	return nil
}

func only4(list []netip.Prefix) (out []netip.Prefix) {
	for _, p := range list {
		if p.Addr().Is4() {
			out = append(out, p)
		}
	}
	return out
}

// program replaces the table by the rules for these ranges, at once or not at all.
func program(own netip.Prefix, pods []netip.Prefix) error {
	c, err := nftables.New(nftables.WithSockOptions(func(c *netlink.Conn) error {
		return errors.Join(c.SetReadBuffer(buffer), c.SetWriteBuffer(buffer))
	}))
	if err != nil {
		return err
	}
	t := &nftables.Table{Name: table, Family: nftables.TableFamilyIPv4}
	c.AddTable(t) // so that there is one to delete
	c.DelTable(t)
	c.AddTable(t)
	// With a number of its own it takes none of the module's counter, which connections of other goroutines use, too.
	set := &nftables.Set{Table: t, ID: 1, Name: "pods", KeyType: nftables.TypeIPAddr, Interval: true}
	err = c.AddSet(set, nil)
	for part := range slices.Chunk(elements(pods), atOnce) {
		err = errors.Join(err, c.SetAddElements(set, part))
	}
	if err != nil {
		return err
	}
	out := c.AddChain(&nftables.Chain{Name: "leaving", Table: t, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookPostrouting,
		Priority: nftables.ChainPriorityNATSource})
	rule := func(e ...expr.Any) { c.AddRule(&nftables.Rule{Table: t, Chain: out, Exprs: e}) }
	rule(append(within(source, own, expr.CmpOpNeq), &expr.Verdict{Kind: expr.VerdictReturn})...)
	rule(load(destination), &expr.Lookup{SourceRegister: 1, SetName: set.Name}, &expr.Verdict{Kind: expr.VerdictReturn})
	rule(append(within(destination, netip.MustParsePrefix("224.0.0.0/4"), expr.CmpOpEq), &expr.Verdict{Kind: expr.VerdictReturn})...)
	rule(&expr.Masq{FullyRandom: true})
	return c.Flush()
}

func load(offset uint32) expr.Any {
	return &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: 4}
}

// within compares an address of the packet with a range.
func within(offset uint32, p netip.Prefix, op expr.CmpOp) []expr.Any {
	mask := make([]byte, 4)
	for bit := range p.Bits() {
		mask[bit/8] |= 1 << (7 - bit%8)
	}
	return []expr.Any{load(offset), &expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: mask, Xor: make([]byte, 4)},
		&expr.Cmp{Op: op, Register: 1, Data: p.Masked().Addr().AsSlice()}}
}

// elements are the ranges as an interval set has them: the first address of each, and the one behind its last. Ranges that touch are one.
func elements(list []netip.Prefix) (out []nftables.SetElement) {
	for _, p := range list {
		first := binary.BigEndian.Uint32(p.Masked().Addr().AsSlice())
		behind := uint64(first) + 1<<(32-p.Bits())
		if n := len(out); n > 0 && binary.BigEndian.Uint32(out[n-1].Key) == first {
			out = out[:n-1]
		} else {
			out = append(out, nftables.SetElement{Key: binary.BigEndian.AppendUint32(nil, first)})
		}
		if behind <= math.MaxUint32 { // behind the last address of all there is none
			out = append(out, nftables.SetElement{Key: binary.BigEndian.AppendUint32(nil, uint32(behind)), IntervalEnd: true})
		}
	}
	return out
}
