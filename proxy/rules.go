package proxy

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// masquerade is the mark of packets whose source must become this node's, so that answers come back through it.
const masquerade = 0x4000

// table is the name of our table. Nobody else's rules are touched.
const table = "kloop"

// A book writes the table: everything is queued and sent as one transaction.
type book struct {
	c   *nftables.Conn
	t   *nftables.Table
	err error

	services, nodePorts, refused *nftables.Set
}

// program replaces the table by the rules for the ports, at once or not at all.
func program(list []port) error {
	c, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	b := &book{c: c, t: &nftables.Table{Name: table, Family: nftables.TableFamilyIPv4}}
	c.AddTable(b.t) // so that there is one to delete
	c.DelTable(b.t)
	c.AddTable(b.t)
	b.maps()
	for i := range list {
		b.port(&list[i])
	}
	b.hooks()
	if b.err != nil {
		return b.err
	}
	if err := c.Flush(); err != nil {
		return fmt.Errorf("send the rules to the kernel: %w", err)
	}
	return nil
}

func (b *book) set(s *nftables.Set, elements []nftables.SetElement) {
	if b.err == nil {
		b.err = b.c.AddSet(s, elements)
	}
}

func (b *book) add(s *nftables.Set, e ...nftables.SetElement) {
	if b.err == nil {
		b.err = b.c.SetAddElements(s, e)
	}
}

// maps makes the three maps that lead packets to chains: by address, protocol and port; by protocol and node port;
// and those of services that have nowhere to go.
func (b *book) maps() {
	addr, err := nftables.ConcatSetType(nftables.TypeIPAddr, nftables.TypeInetProto, nftables.TypeInetService)
	if err != nil {
		b.err = err
		return
	}
	local, err := nftables.ConcatSetType(nftables.TypeInetProto, nftables.TypeInetService)
	if err != nil {
		b.err = err
		return
	}
	b.services = &nftables.Set{Table: b.t, Name: "services", IsMap: true, Concatenation: true, KeyType: addr, DataType: nftables.TypeVerdict}
	b.refused = &nftables.Set{Table: b.t, Name: "refused", IsMap: true, Concatenation: true, KeyType: addr, DataType: nftables.TypeVerdict}
	b.nodePorts = &nftables.Set{Table: b.t, Name: "node-ports", IsMap: true, Concatenation: true, KeyType: local, DataType: nftables.TypeVerdict}
	for _, s := range []*nftables.Set{b.services, b.refused, b.nodePorts} {
		b.set(s, nil)
	}
	reject := b.chain("refuse")
	b.rule(reject, []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_TCP}},
		&expr.Reject{Type: unix.NFT_REJECT_TCP_RST}})
	const portUnreachable = 3
	b.rule(reject, []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: portUnreachable}})
}

func (b *book) chain(name string) *nftables.Chain {
	return b.c.AddChain(&nftables.Chain{Name: name, Table: b.t})
}

func (b *book) rule(c *nftables.Chain, e []expr.Any) {
	b.c.AddRule(&nftables.Rule{Table: b.t, Chain: c, Exprs: e})
}

// port writes the chains of one port and leads its addresses to them.
func (b *book) port(p *port) {
	inside := b.spread("svc", p, p.inside, false)
	outside := b.spread("ext", p, p.outside, !p.local)
	for _, a := range p.addrs {
		to := inside
		for _, x := range p.external {
			if x == a {
				to = outside
			}
		}
		key := concat(a.AsSlice(), pad(protocolNumber(p.protocol)), portBytes(p.port))
		if to == "" {
			b.add(b.refused, nftables.SetElement{Key: key, VerdictData: &expr.Verdict{Kind: expr.VerdictGoto, Chain: "refuse"}})
			continue
		}
		b.add(b.services, nftables.SetElement{Key: key, VerdictData: &expr.Verdict{Kind: expr.VerdictGoto, Chain: to}})
	}
	if p.nodePort != 0 && outside != "" {
		key := concat(pad(protocolNumber(p.protocol)), portBytes(p.nodePort))
		b.add(b.nodePorts, nftables.SetElement{Key: key, VerdictData: &expr.Verdict{Kind: expr.VerdictGoto, Chain: outside}})
	}
}

// spread writes a chain that sends packets to one of the endpoints, and returns its name; "" when there is none.
// mark makes all of them come from this node.
func (b *book) spread(kind string, p *port, ends []netip.AddrPort, mark bool) string {
	if len(ends) == 0 {
		return ""
	}
	name := chainName(kind, p.name)
	var targets []string
	for _, e := range ends {
		targets = append(targets, b.endpoint(kind, p, e))
	}
	c := b.chain(name)
	if mark {
		b.rule(c, setMark())
	}
	choices := &nftables.Set{Table: b.t, Anonymous: true, Constant: true, IsMap: true, KeyType: nftables.TypeInteger, DataType: nftables.TypeVerdict}
	var elements []nftables.SetElement
	for i, t := range targets {
		elements = append(elements, nftables.SetElement{Key: binaryutil.NativeEndian.PutUint32(uint32(i)),
			VerdictData: &expr.Verdict{Kind: expr.VerdictGoto, Chain: t}})
	}
	b.set(choices, elements)
	b.rule(c, append(pick(uint32(len(ends)), p.sticky), &expr.Lookup{SourceRegister: 1, DestRegister: 0, IsDestRegSet: true,
		SetName: choices.Name, SetID: choices.ID}))
	return name
}

// pick puts a number below n into register 1: at random, or by the client's address.
//
// Unlike Kubernetes, a sticky client stays with its endpoint until the endpoints change, not for a time after its
// last connection: the kernel then need not remember clients.
func pick(n uint32, sticky bool) []expr.Any {
	if !sticky {
		return []expr.Any{&expr.Numgen{Register: 1, Modulus: n, Type: unix.NFT_NG_RANDOM}}
	}
	const sourceAddress = 12
	return []expr.Any{
		&expr.Payload{DestRegister: 2, Base: expr.PayloadBaseNetworkHeader, Offset: sourceAddress, Len: 4},
		&expr.Hash{SourceRegister: 2, DestRegister: 1, Length: 4, Modulus: n, Seed: 1, Type: expr.HashTypeJenkins}}
}

// endpoint writes the chain that sends packets to one endpoint. A packet from the endpoint to itself must seem to
// come from the node, or the answer would not pass here.
func (b *book) endpoint(kind string, p *port, e netip.AddrPort) string {
	name := chainName(kind+"-to", p.name+" "+e.String())
	c := b.chain(name)
	const sourceAddress = 12
	b.rule(c, append([]expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: sourceAddress, Len: 4},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: e.Addr().AsSlice()}}, setMark()...))
	b.rule(c, []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{protocolNumber(p.protocol)}},
		&expr.Immediate{Register: 1, Data: e.Addr().AsSlice()},
		&expr.Immediate{Register: 2, Data: binaryutil.BigEndian.PutUint16(e.Port())},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: 1, RegProtoMin: 2, Specified: true}})
	return name
}

func setMark() []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyMARK, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: binaryutil.NativeEndian.PutUint32(^uint32(masquerade)),
			Xor: binaryutil.NativeEndian.PutUint32(masquerade)},
		&expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: 1}}
}

// chainName is short, since the kernel bounds it, and stable.
func chainName(kind, what string) string {
	h := fnv.New64a()
	h.Write([]byte(what))
	return fmt.Sprintf("%s-%016x", kind, h.Sum64())
}

func protocolNumber(p corev1.Protocol) byte {
	switch p {
	case corev1.ProtocolUDP:
		return unix.IPPROTO_UDP
	case corev1.ProtocolSCTP:
		return unix.IPPROTO_SCTP
	}
	return unix.IPPROTO_TCP
}

// Parts of concatenated keys take four bytes each.
func pad(b byte) []byte { return []byte{b, 0, 0, 0} }

func portBytes(p uint16) []byte { return append(binary.BigEndian.AppendUint16(nil, p), 0, 0) }

func concat(parts ...[]byte) (key []byte) {
	for _, p := range parts {
		key = append(key, p...)
	}
	return key
}
