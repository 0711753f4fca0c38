package podnetwork

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/kloop-dev/kloop/nft"
)

// tables are ours, one of each family. Nobody else's rules are touched.
var tables = []nft.Table{{Family: nft.IPv4, Name: "kloop-pods"}, {Family: nft.IPv6, Name: "kloop-pods"}}

// podSet holds the ranges of all pods.
const podSet = "pods"

// masquerade brings the rules to the census, where they are not there or were made for other ranges. A family in which pods have no
// addresses any more has no rules.
func (l *loop) masquerade() error {
	for i, t := range tables {
		own, pods := ofFamily(l.census.own.ranges, t), ofFamily(l.census.pods, t)
		there, err := l.filter.Exists(t)
		if err != nil {
			return fmt.Errorf("look for the rules that let pods out: %w", err)
		}
		made := append(slices.Clone(own), pods...)
		if there == (len(own) > 0) && slices.Equal(made, l.masked[i]) {
			continue
		}
		if err := program(l.filter, t, own, pods, l.cfg.Mode == ModeWireGuard); err != nil {
			return fmt.Errorf("let pods out of their network: %w", err)
		}
		l.masked[i] = made
	}
	return nil
}

// masks says that the rules which should be there are: somebody changed others.
func (l *loop) masks() bool {
	for _, t := range tables {
		there, err := l.filter.Exists(t)
		if err != nil || there != (len(ofFamily(l.census.own.ranges, t)) > 0) {
			return false
		}
	}
	return true
}

func ofFamily(list []netip.Prefix, t nft.Table) (out []netip.Prefix) {
	for _, p := range list {
		if p.Addr().Is4() == (t.Family == nft.IPv4) {
			out = append(out, p)
		}
	}
	return out
}

// program replaces the table by the rules for these ranges, at once or not at all. Without a range of the node's own there are none.
// Sealed, packets to pods leave this machine only through the encrypted link, also while that is missing.
func program(c *nft.Conn, t nft.Table, own, pods []netip.Prefix, sealed bool) error {
	b := nft.NewBatch(t)
	b.AddTable() // so that there is one to delete
	b.DeleteTable()
	if len(own) == 0 {
		return c.Commit(b)
	}
	h := headerOf(t)
	b.AddTable()
	set := nft.Set{Name: podSet, KeyLen: h.length, KeyType: h.shown, Ranges: true}
	b.AddSet(set)
	b.AddElements(set, elements(pods))
	const out = "leaving"
	b.AddChain(nft.Chain{Name: out, Hook: &nft.Hook{Type: "nat", Num: unix.NF_INET_POST_ROUTING, Priority: sourceNAT}})
	rule := func(comment string, e ...expr.Any) { b.AddRule(out, nft.NewRule(t.Family, comment, e...)) }
	stays := &expr.Verdict{Kind: expr.VerdictReturn}
	rule("not from a pod of this node", append(h.within(h.source, own[0], expr.CmpOpNeq), stays)...)
	rule("to a pod", h.load(h.destination), &expr.Lookup{SourceRegister: 1, SetName: podSet}, stays)
	rule("to many", append(h.within(h.destination, h.multicast, expr.CmpOpEq), stays)...)
	rule("as the node", &expr.Masq{FullyRandom: true})
	if sealed {
		const chain = "sealed" // here, as only here the link is that by which the packet leaves, whatever led it elsewhere on its way
		b.AddChain(nft.Chain{Name: chain, Hook: &nft.Hook{Type: "filter", Num: unix.NF_INET_POST_ROUTING}})
		b.AddRule(chain, nft.NewRule(t.Family, "to a pod, and not encrypted", h.seal()...))
	}
	return c.Commit(b)
}

// seal drops a packet to a pod that leaves by another link than the encrypted one, that of this node's pods, or the loopback.
func (h header) seal() []expr.Any {
	list := []expr.Any{h.load(h.destination), &expr.Lookup{SourceRegister: 1, SetName: podSet},
		&expr.Meta{Key: expr.MetaKeyOIFNAME, Register: 1}}
	for _, name := range []string{Secret, Bridge, "lo"} {
		data := make([]byte, unix.IFNAMSIZ)
		copy(data, name)
		list = append(list, &expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: data})
	}
	return append(list, &expr.Verdict{Kind: expr.VerdictDrop})
}

// sourceNAT is the kernel's priority of what changes sources.
const sourceNAT = 100

// A header says where the packets of a family have their addresses.
type header struct {
	source, destination uint32 // offsets
	length              uint32 // of an address
	multicast           netip.Prefix
	shown               uint32 // the nft program's number of the type
}

func headerOf(t nft.Table) header {
	if t.Family == nft.IPv4 {
		return header{12, 16, 4, netip.MustParsePrefix("224.0.0.0/4"), 7}
	}
	return header{8, 24, 16, netip.MustParsePrefix("ff00::/8"), 8}
}

func (h header) load(offset uint32) expr.Any {
	return &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: h.length}
}

// within compares an address of the packet with a range.
func (h header) within(offset uint32, p netip.Prefix, op expr.CmpOp) []expr.Any {
	mask := make([]byte, h.length)
	for bit := range p.Bits() {
		mask[bit/8] |= 1 << (7 - bit%8)
	}
	return []expr.Any{h.load(offset), &expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: h.length, Mask: mask,
		Xor: make([]byte, h.length)},
		&expr.Cmp{Op: op, Register: 1, Data: p.Masked().Addr().AsSlice()}}
}

// elements are the ranges as a set has them: the first address of each, and the one behind its last. Ranges that touch are one.
func elements(list []netip.Prefix) (out []nft.Element) {
	for _, p := range list {
		first := string(p.Masked().Addr().AsSlice())
		if n := len(out); n > 0 && out[n-1].Key == first {
			out = out[:n-1]
		} else {
			out = append(out, nft.Element{Key: first})
		}
		if behind := last(p).Next(); behind.IsValid() { // behind the last address of all there is none
			out = append(out, nft.Element{Key: string(behind.AsSlice()), End: true})
		}
	}
	return out
}

// last is the last address of a range.
func last(p netip.Prefix) netip.Addr {
	raw := p.Masked().Addr().AsSlice()
	for bit := p.Bits(); bit < 8*len(raw); bit++ {
		raw[bit/8] |= 1 << (7 - bit%8)
	}
	a, _ := netip.AddrFromSlice(raw)
	return a
}
