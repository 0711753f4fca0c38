package proxy

import (
	"time"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/kloop-dev/kloop/nft"
)

// list looks the service up and leaves its list's number in words 6 and 7: that of the policy Cluster, or the next.
func (l layout) list(w way) []expr.Any {
	e := l.service()
	if w.local != 0 {
		e = append(e, copyWords(word, word, 8, []byte{0, 0, 0, 0, 0, 0, 0, 1}))
	}
	return e
}

// copyWords copies words, changing the bits of flip.
func copyWords(from, to, size uint32, flip []byte) *expr.Bitwise {
	mask := make([]byte, size)
	for i := range mask {
		mask[i] = 0xff
	}
	return &expr.Bitwise{SourceRegister: reg(from), DestRegister: reg(to), Len: size, Mask: mask, Xor: flip}
}

// pick leads to one of the list's endpoints. Between the look-up of the service and that of the endpoint the kernel may go over
// to the next generation of the maps, in which the list is shorter: the first endpoint is there as long as any is, and a packet that finds
// none at all must not leave as it is, or the flow would stay that way.
func (l layout) pick(w way) []nft.Rule {
	random := &expr.Numgen{Register: reg(word + 2), Modulus: uint32(w.n), Type: unix.NFT_NG_RANDOM}
	first := &expr.Immediate{Register: reg(word + 2), Data: []byte{0, 0, 0, 0}}
	one := lookup(endpoints, word, 0, true)
	return []nft.Rule{
		l.rule("an endpoint at random", l.list(w), []expr.Any{random, one, l.dnat(0)}),
		l.rule("the list has just become shorter: its first", l.list(w), []expr.Any{first, one, l.dnat(0)}),
		l.rule("the list is gone", to(expr.VerdictDrop, ""))}
}

// dnat makes the endpoint in the words from at on the destination.
func (l layout) dnat(at uint32) *expr.NAT {
	return &expr.NAT{Type: expr.NATTypeDestNAT, Family: uint32(l.family()), Specified: true,
		RegAddrMin: reg(at), RegProtoMin: reg(at + l.words)}
}

// sticky leads a client to the endpoint that it had, if that is still one, and remembers which it got. The time starts again with each
// connection. When no more clients can be remembered, pick's rules follow.
func (l layout) sticky(w way) []nft.Rule {
	const ends, add, forget = word + 2, unix.NFT_DYNSET_OP_UPDATE, 2 // NFT_DYNSET_OP_DELETE
	life := time.Duration(w.sticky) * time.Second
	client := append([]expr.Any{copyWords(word, 0, 8, make([]byte, 8))}, l.loadAddress(true, 2)...) // list and client in words 0 and following
	learn := func(op uint32) *expr.Dynset {
		d := &expr.Dynset{SrcRegKey: reg(0), SrcRegData: reg(ends), SetName: set(affinity, l.v6).Name, Operation: op}
		if op == add {
			d.Timeout = life
		}
		return d
	}
	return []nft.Rule{
		l.rule("the client's endpoint", l.list(w), client,
			[]expr.Any{lookup(affinity, 0, ends, true), lookup(members, word, 0, false), learn(add), l.dnat(ends)}),
		l.rule("the client's endpoint is gone", l.list(w), client, []expr.Any{lookup(affinity, 0, ends, true), learn(forget)}),
		l.rule("an endpoint at random, and remember it", l.list(w),
			[]expr.Any{&expr.Numgen{Register: reg(ends), Modulus: uint32(w.n), Type: unix.NFT_NG_RANDOM}, lookup(endpoints, word, ends, true)},
			client, []expr.Any{learn(add), l.dnat(ends)})}
}
