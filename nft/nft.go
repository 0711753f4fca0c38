// Package nft speaks to the kernel's packet filter, nftables, by netlink: what changes goes as one transaction that the
// kernel does whole or not at all, and what is there can be listed. It knows tables, chains, rules, sets and maps as
// bytes; expressions are those of google/nftables. No nft program is needed.
//
// It exists beside google/nftables because of size: there every message is answered and every rule echoed, elements of a set
// are built attribute by attribute, and a list of them becomes a tree. Here 150,000 elements are one buffer and one answer.
//
// Sockets belong to the network namespace of the thread that opens them.
package nft

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Families of tables.
const (
	IPv4 = unix.NFPROTO_IPV4
	IPv6 = unix.NFPROTO_IPV6
	INet = unix.NFPROTO_INET
)

// A Table holds chains and sets. Its owner may change all that is in it.
type Table struct {
	Family byte
	Name   string
}

// String names the table in the words of nft's own commands.
func (t Table) String() string {
	family := map[byte]string{IPv4: "ip", IPv6: "ip6", INet: "inet"}[t.Family]
	return fmt.Sprintf("table %s %s", family, t.Name)
}

// A Hook ties a base chain to the path of packets.
type Hook struct {
	Type     string // nat or filter
	Num      uint32 // unix.NF_INET_…
	Priority int32
}

// A Chain is a list of rules. Without a hook it is reached by jumps only.
type Chain struct {
	Name  string
	Hook  *Hook
	Rules []Rule
}

// A Rule acts on packets: its code, as the kernel takes it, and a comment, for people and to know the rule again.
type Rule struct {
	Code    []byte // the list of expressions
	Comment string
}

// A Set is a set, or a map when it has data, or a map of verdicts.
type Set struct {
	Name     string
	KeyLen   uint32
	DataLen  uint32 // bytes of what keys are mapped to; 0: nothing
	Verdicts bool   // keys are mapped to chains
	Jumps    bool   // of a map of verdicts: packets come back from the chain, else they never do
	Ranges   bool   // a key stands for all up to the next key; see Element.End
	KeyType  uint32 // how the nft program shows it
	DataType uint32
	Learns   bool   // packets add elements, which time out
	Size     uint32 // how many at most; 0: no bound
}

// An Element is one entry of a set. Strings, so that they compare and serve as keys of Go maps.
type Element struct {
	Key  string
	Data string // of a map of verdicts: the chain to go to
	End  bool   // of a set of ranges: the first key behind a range; a range to the last key of all has none
}
