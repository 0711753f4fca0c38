package proxy

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/kloop-dev/kloop/nft"
)

// table is the name of our table in each family. Nobody else's rules are touched.
const table = "kloop"

// masquerade is the mark of packets whose source must become this node's, so that answers come back through it. It is the bit
// that kube-proxy uses, and gone when the packet leaves: one that is put into a tunnel keeps its mark, and would be changed twice.
const masquerade = 0x4000

// A layout writes the chains of one family's table.
//
// Registers of the kernel's filter are 16 words; a rule may read only those that it has filled itself. A key stands in words 0 and
// following; what the map services answers, a list's number and a way's, in words 6 to 9.
type layout struct {
	v6    bool
	words uint32 // of an address
	ipvs  bool   // virtual servers choose the endpoint; see layout_ipvs.go
}

func newLayout(v6 bool) layout {
	if v6 {
		return layout{v6: true, words: 4}
	}
	return layout{words: 1}
}

func (l layout) family() byte {
	if l.v6 {
		return nft.IPv6
	}
	return nft.IPv4
}

func (l layout) table() nft.Table { return nft.Table{Family: l.family(), Name: table} }

// reg is the n-th word.
func reg(n uint32) uint32 { return unix.NFT_REG32_00 + n }

// word is the first of the words that the map services fills.
const word = 6

func (l layout) rule(comment string, parts ...[]expr.Any) nft.Rule {
	var all []expr.Any
	for _, p := range parts {
		all = append(all, p...)
	}
	r := nft.NewRule(l.family(), "", all...)
	// The rule is known again by its comment: the kernel does not give back what it was given.
	r.Comment = fmt.Sprintf("%.200s #%x", comment, digest(string(r.Code))>>32)
	return r
}

func (l layout) address(source bool) (offset, size uint32) {
	switch {
	case l.v6 && source:
		return 8, 16
	case l.v6:
		return 24, 16
	case source:
		return 12, 4
	}
	return 16, 4
}

func (l layout) loadAddress(source bool, to uint32) []expr.Any {
	offset, size := l.address(source)
	return []expr.Any{&expr.Payload{DestRegister: reg(to), Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: size}}
}

// service looks up what the packet's destination is a service's address of: its list and way.
func (l layout) service() []expr.Any {
	const destinationPort = 2
	return append(l.loadAddress(false, 0),
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: reg(l.words)},
		&expr.Payload{DestRegister: reg(l.words + 1), Base: expr.PayloadBaseTransportHeader, Offset: destinationPort, Len: 2},
		lookup(services, 0, word, true))
}

func lookup(which int, from, to uint32, data bool) *expr.Lookup {
	e := &expr.Lookup{SourceRegister: reg(from), SetName: set(which, false).Name}
	if data {
		e.IsDestRegSet, e.DestRegister = true, reg(to)
	}
	return e
}

func (l layout) match(p netip.Prefix, source bool) []expr.Any {
	offset, size := l.address(source)
	mask := make([]byte, size)
	for i := range p.Bits() {
		mask[i/8] |= 0x80 >> (i % 8)
	}
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: size},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: size, Mask: mask, Xor: make([]byte, size)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: p.Masked().Addr().AsSlice()}}
}

func to(kind expr.VerdictKind, chain string) []expr.Any {
	return []expr.Any{&expr.Verdict{Kind: kind, Chain: chain}}
}

// chains lists all chains of the table for the ways that are in use. made are chains for the same here that need not be made again.
func (l layout) chains(h *here, used map[way]int, made map[string]*nft.Chain) map[string]*nft.Chain {
	all := l.fixed(h, made)
	var add func(way)
	add = func(w way) {
		name := w.name()
		if all[name] != nil {
			return
		}
		if all[name] = made[name]; all[name] == nil {
			all[name] = &nft.Chain{Name: name, Rules: l.way(w, h)}
		}
		for _, n := range w.leadsTo() {
			add(n)
		}
	}
	add(way{kind: refuse})
	for w := range used {
		add(w)
	}
	return all
}

// fixed lists the chains that are there whatever the services.
func (l layout) fixed(h *here, made map[string]*nft.Chain) map[string]*nft.Chain {
	all := map[string]*nft.Chain{}
	for _, name := range []string{"incoming", "own", "outgoing", "services", "strangers"} {
		if made[name] != nil {
			all[name] = made[name]
		}
	}
	if len(all) > 0 {
		return all
	}
	base := func(name string, num uint32, priority int32, rules ...nft.Rule) {
		all[name] = &nft.Chain{Name: name, Hook: &nft.Hook{Type: "nat", Num: num, Priority: priority}, Rules: rules}
	}
	const destinationNAT, sourceNAT = -100, 100
	enter := l.rule("new connections", to(expr.VerdictJump, "services"))
	base("incoming", unix.NF_INET_PRE_ROUTING, destinationNAT, enter)
	base("own", unix.NF_INET_LOCAL_OUT, destinationNAT, enter)
	base("outgoing", unix.NF_INET_POST_ROUTING, sourceNAT, l.outgoing()...)
	all["services"] = &nft.Chain{Name: "services", Rules: l.entry(h)}
	all["strangers"] = &nft.Chain{Name: "strangers", Rules: l.strangers(h)}
	return all
}

func (l layout) ours(list []netip.Prefix) (out []netip.Prefix) {
	for _, p := range list {
		if p.Addr().Is6() == l.v6 {
			out = append(out, p)
		}
	}
	return out
}

// entry leads packets to the way of their destination. What goes to the range of cluster IPs and found no service is refused:
// by the default route it would only leave the cluster and be lost.
//
// Unlike Kubernetes, an address that no service has is refused as well, not ignored: the client need not wait to learn it.
func (l layout) entry(h *here) (rules []nft.Rule) {
	ranges := l.ours(h.services)
	if l.ipvs {
		rules = append(rules, l.answering())
	}
	if len(l.ours(h.pods)) > 0 {
		for _, p := range ranges {
			rules = append(rules, l.rule(p.String()+": cluster IPs", l.match(p, false), to(expr.VerdictJump, "strangers")))
		}
	}
	if l.ipvs {
		rules = append(rules, l.fromVirtual())
	}
	// A look-up that the kernel began in one generation of a map misses an element that the next replaces: the old one may be gone and the
	// new one not yet be in force for it. The second look-up begins in the new generation.
	for _, when := range []string{"", ", once more"} {
		rules = append(rules, l.rule("services by address, protocol and port"+when, l.service(), []expr.Any{
			&expr.Lookup{SourceRegister: reg(word + 2), SetName: set(ways, l.v6).Name, IsDestRegSet: true}}))
	}
	rules = append(rules, l.rule("an address of a pool: no such service", l.loadAddress(false, 0), []expr.Any{lookup(virtual, 0, 0, false)},
		to(expr.VerdictGoto, "refuse")))
	for _, p := range ranges {
		rules = append(rules, l.rule(p.String()+": no such service", l.match(p, false), to(expr.VerdictGoto, "refuse")))
	}
	return rules
}

// strangers marks connections that come from elsewhere than this node's pods, so that their answers come back here: whoever
// routes the range of cluster IPs to this node may use them.
func (l layout) strangers(h *here) (rules []nft.Rule) {
	for _, p := range l.ours(h.pods) {
		rules = append(rules, l.rule(p.String()+": pods of this node", l.match(p, true), to(expr.VerdictReturn, "")))
	}
	return append(rules, l.rule("others get this node's address", mark()))
}

// outgoing gives packets an address of this node as source where answers would not come back otherwise.
func (l layout) outgoing() []nft.Rule {
	const destinationNAT = 0x20 // IPS_DST_NAT
	isSet := func(bit uint32) []expr.Any {
		return []expr.Any{
			&expr.Bitwise{SourceRegister: 1, DestRegister: 2, Len: 4, Mask: binaryutil.NativeEndian.PutUint32(bit), Xor: make([]byte, 4)},
			&expr.Cmp{Op: expr.CmpOpNeq, Register: 2, Data: make([]byte, 4)}}
	}
	masq := []expr.Any{&expr.Masq{FullyRandom: true}}
	led := append([]expr.Any{&expr.Ct{Key: expr.CtKeySTATUS, Register: 1}}, isSet(destinationNAT)...)
	var rules []nft.Rule
	if l.ipvs {
		led, rules = l.wasService(), append(rules, l.forgetMark())
	}
	return append(rules,
		l.rule("marked for this node's address", []expr.Any{&expr.Meta{Key: expr.MetaKeyMARK, Register: 1}}, isSet(masquerade), unmark(), masq),
		l.rule("a pod that met itself", led, l.loadAddress(true, 0), l.loadAddress(false, l.words),
			[]expr.Any{lookup(hairpin, 0, 0, false)}, masq))
}

func mark() []expr.Any   { return setMark(^uint32(masquerade), masquerade) }
func unmark() []expr.Any { return setMark(^uint32(masquerade), 0) }

func setMark(mask, xor uint32) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyMARK, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4,
			Mask: binaryutil.NativeEndian.PutUint32(mask), Xor: binaryutil.NativeEndian.PutUint32(xor)},
		&expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: 1}}
}

// way writes the chain of one way.
func (l layout) way(w way, h *here) (rules []nft.Rule) {
	plain := w
	plain.from = ""
	switch {
	case w.from != "":
		for _, text := range strings.Split(w.from, ",") {
			rules = append(rules, l.rule("from "+text, l.match(netip.MustParsePrefix(text), true), to(expr.VerdictGoto, plain.name())))
		}
		return append(rules, l.rule("others may not", to(expr.VerdictDrop, "")))
	case w.kind == refuse:
		return l.refuse()
	case w.kind == drop:
		return []nft.Rule{l.rule("no endpoint on this node", to(expr.VerdictDrop, ""))}
	case w.kind == split && l.ipvs:
		return l.splitServers(w, h)
	case w.kind == split:
		next := w.leadsTo()
		for _, p := range l.ours(h.pods) {
			rules = append(rules, l.rule(p.String()+": pods of this node", l.match(p, true), to(expr.VerdictGoto, next[0].name())))
		}
		return append(rules,
			l.rule("this node itself", fromHere(), to(expr.VerdictGoto, next[1].name())),
			l.rule("from outside", to(expr.VerdictGoto, next[2].name())))
	case w.masq:
		plain.masq = false
		return []nft.Rule{l.rule("with this node's address", mark(), to(expr.VerdictGoto, plain.name()))}
	case l.ipvs:
		return []nft.Rule{l.rule("a virtual server has it", to(expr.VerdictAccept, ""))}
	case w.sticky != 0:
		return append(l.sticky(w), l.pick(w)...)
	}
	return l.pick(w)
}

// fromHere matches packets that have an address of this machine as their source.
func fromHere() []expr.Any {
	return []expr.Any{
		&expr.Fib{Register: 1, ResultADDRTYPE: true, FlagSADDR: true},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.NativeEndian.PutUint32(unix.RTN_LOCAL)},
	}
}

func (l layout) refuse() []nft.Rule {
	code := uint8(3) // port unreachable, of ICMP
	if l.v6 {
		code = 4 // of ICMPv6
	}
	return []nft.Rule{
		l.rule("TCP: reset", []expr.Any{&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_TCP}}, &expr.Reject{Type: unix.NFT_REJECT_TCP_RST}}),
		l.rule("others: port unreachable", []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: code}})}
}
