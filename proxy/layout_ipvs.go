package proxy

import (
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"

	"github.com/kloop-dev/kloop/nft"
)

// In mode ipvs the table has the same sets and ways, and decides the same: who may come in, who is refused, whose source becomes this
// node's. It chooses no endpoints: packets that may pass reach this machine's input, for the address is on kube-ipvs0, and IPVS there.

// answering lets answers of the kernel's own pass: when this machine is refused what it asked from a service's address, the refusal goes to
// that address, where nothing is served.
func (l layout) answering() nft.Rule {
	return l.rule("an answer", []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATE, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: binaryutil.NativeEndian.PutUint32(expr.CtStateBitRELATED),
			Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)}}, to(expr.VerdictReturn, ""))
}

// fromVirtual marks connections of this machine that took a service's address for their source, as the kernel has it do when it connects
// to one: their answers would be looked for here by whoever has such an address too.
func (l layout) fromVirtual() nft.Rule {
	return l.rule("from a service's address: with this node's", l.service(), l.loadAddress(true, 0), []expr.Any{lookup(virtual, 0, 0, false)},
		mark())
}

// splitServers leads clients of this node to the virtual server of the policy Cluster, by its mark, and others to that of their address.
func (l layout) splitServers(w way, h *here) (rules []nft.Rule) {
	for _, p := range l.ours(h.pods) {
		rules = append(rules, l.rule(p.String()+": pods of this node", l.match(p, true), l.toServer(0)))
	}
	return append(rules,
		l.rule("this node itself", fromHere(), l.toServer(masquerade)),
		l.rule("from outside", to(expr.VerdictGoto, w.onNode().name())))
}

// toServer gives the packet the mark of its list, which listMark computes likewise.
func (l layout) toServer(more uint32) []expr.Any {
	number := binaryutil.NativeEndian.PutUint32
	return append(l.service(),
		&expr.Bitwise{SourceRegister: reg(word), DestRegister: reg(word), Len: 4, Mask: number(markBits), Xor: number(marked | more)},
		&expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: reg(word)},
		&expr.Verdict{Kind: expr.VerdictAccept})
}

// forgetMark takes the mark of a list from a packet that leaves: a tunnel would hand it on to its own.
func (l layout) forgetMark() nft.Rule {
	number := binaryutil.NativeEndian.PutUint32
	return l.rule("marked for a virtual server", []expr.Any{
		&expr.Meta{Key: expr.MetaKeyMARK, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: number(marked), Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)}}, setMark(masquerade, 0))
}

// wasService matches connections that began at a service's address. IPVS leaves no other trace in conntrack.
func (l layout) wasService() []expr.Any {
	const original = 0
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeyDST, Register: reg(0), Direction: original},
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: reg(l.words)},
		&expr.Ct{Key: expr.CtKeyPROTODST, Register: reg(l.words + 1), Direction: original},
		lookup(services, 0, word, true)}
}
