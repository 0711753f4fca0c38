package nft

import (
	"fmt"
	"slices"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// A Batch is one transaction on one table: what was asked for happens in its order, at once for the packets, or not at all.
type Batch struct {
	table Table
	w     wire
	last  int      // where the last message starts
	what  []string // what each message does, for errors
}

// NewBatch starts a transaction.
func NewBatch(t Table) *Batch {
	b := &Batch{table: t}
	b.message(unix.NFNL_MSG_BATCH_BEGIN, 0, "begin", unix.NFNL_SUBSYS_NFTABLES, func(*wire) {})
	return b
}

// Empty says whether nothing was asked for.
func (b *Batch) Empty() bool { return len(b.what) <= 1 }

// Len returns the size of the transaction in bytes.
func (b *Batch) Len() int { return len(b.w.b) }

func (b *Batch) message(typ, flags uint16, what string, resource uint16, body func(*wire)) {
	family := b.table.Family
	if resource != 0 {
		family = unix.AF_UNSPEC
	}
	b.last = b.w.begin(typ, flags, uint32(len(b.what)), family, resource)
	body(&b.w)
	b.w.end(b.last)
	b.what = append(b.what, what)
}

func (b *Batch) do(typ, flags uint16, what string, body func(*wire)) {
	b.message(unix.NFNL_SUBSYS_NFTABLES<<8|typ, flags, what, 0, body)
}

// AddTable makes the table if it is not there.
func (b *Batch) AddTable() {
	b.do(unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE, "make the table", func(w *wire) {
		w.name(unix.NFTA_TABLE_NAME, b.table.Name)
		w.u32(unix.NFTA_TABLE_FLAGS, 0)
	})
}

// DeleteTable removes the table with all that is in it. It must be there.
func (b *Batch) DeleteTable() {
	b.do(unix.NFT_MSG_DELTABLE, 0, "delete the table", func(w *wire) { w.name(unix.NFTA_TABLE_NAME, b.table.Name) })
}

// AddChain makes a chain without its rules; one that is there stays as it is.
func (b *Batch) AddChain(c Chain) {
	b.do(unix.NFT_MSG_NEWCHAIN, unix.NLM_F_CREATE, "make chain "+c.Name, func(w *wire) {
		w.name(unix.NFTA_CHAIN_TABLE, b.table.Name)
		w.name(unix.NFTA_CHAIN_NAME, c.Name)
		if c.Hook == nil {
			return
		}
		w.name(unix.NFTA_CHAIN_TYPE, c.Hook.Type)
		h := w.nest(unix.NFTA_CHAIN_HOOK)
		w.u32(unix.NFTA_HOOK_HOOKNUM, c.Hook.Num)
		w.u32(unix.NFTA_HOOK_PRIORITY, uint32(c.Hook.Priority))
		w.close(h)
	})
}

// DeleteChain removes a chain that nothing leads to.
func (b *Batch) DeleteChain(name string) {
	b.do(unix.NFT_MSG_DELCHAIN, 0, "delete chain "+name, func(w *wire) {
		w.name(unix.NFTA_CHAIN_TABLE, b.table.Name)
		w.name(unix.NFTA_CHAIN_NAME, name)
	})
}

// FlushChain removes the rules of a chain.
func (b *Batch) FlushChain(name string) {
	b.do(unix.NFT_MSG_DELRULE, 0, "empty chain "+name, func(w *wire) {
		w.name(unix.NFTA_RULE_TABLE, b.table.Name)
		w.name(unix.NFTA_RULE_CHAIN, name)
	})
}

// AddRule appends a rule to a chain.
func (b *Batch) AddRule(chain string, r Rule) {
	b.do(unix.NFT_MSG_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_APPEND, "add a rule to chain "+chain+": "+r.Comment, func(w *wire) {
		w.name(unix.NFTA_RULE_TABLE, b.table.Name)
		w.name(unix.NFTA_RULE_CHAIN, chain)
		attr(w, unix.NFTA_RULE_EXPRESSIONS|unix.NLA_F_NESTED, r.Code)
		if r.Comment != "" {
			attr(w, unix.NFTA_RULE_USERDATA, comment(r.Comment))
		}
	})
}

// maxComment bounds a comment: the kernel keeps 256 bytes with a rule, less the frame by which the nft program knows them.
const maxComment = 250

func comment(s string) []byte {
	s = s[:min(len(s), maxComment)]
	return append(append([]byte{0, byte(len(s) + 1)}, s...), 0)
}

// NewRule makes a rule of expressions. It panics when they can't be written: that is a fault of the program.
func NewRule(family byte, comment string, exprs ...expr.Any) Rule {
	var w wire
	for _, e := range exprs {
		code, err := expr.Marshal(family, e)
		if err != nil {
			panic(fmt.Sprintf("nft: rule %q: %v", comment, err))
		}
		attr(&w, unix.NFTA_LIST_ELEM|unix.NLA_F_NESTED, code)
	}
	return Rule{Code: w.b, Comment: comment}
}

// AddSet makes a set if it is not there.
func (b *Batch) AddSet(s Set) {
	var flags uint32
	if s.DataLen > 0 || s.Verdicts {
		flags |= unix.NFT_SET_MAP
	}
	if s.Ranges {
		flags |= unix.NFT_SET_INTERVAL
	}
	if s.Learns {
		flags |= unix.NFT_SET_TIMEOUT | unix.NFT_SET_EVAL
	}
	b.do(unix.NFT_MSG_NEWSET, unix.NLM_F_CREATE, "make set "+s.Name, func(w *wire) {
		w.name(unix.NFTA_SET_TABLE, b.table.Name)
		w.name(unix.NFTA_SET_NAME, s.Name)
		w.u32(unix.NFTA_SET_FLAGS, flags)
		w.u32(unix.NFTA_SET_KEY_TYPE, s.KeyType)
		w.u32(unix.NFTA_SET_KEY_LEN, s.KeyLen)
		w.u32(unix.NFTA_SET_ID, uint32(len(b.what)))
		switch {
		case s.Verdicts:
			w.u32(unix.NFTA_SET_DATA_TYPE, unix.NFT_DATA_VERDICT)
		case s.DataLen > 0:
			w.u32(unix.NFTA_SET_DATA_TYPE, s.DataType)
			w.u32(unix.NFTA_SET_DATA_LEN, s.DataLen)
		}
		if s.Size > 0 {
			d := w.nest(unix.NFTA_SET_DESC)
			w.u32(unix.NFTA_SET_DESC_SIZE, s.Size)
			w.close(d)
		}
	})
}

// AddElements puts elements into a set. One that is there with other data fails the transaction: delete it first.
func (b *Batch) AddElements(s Set, list []Element) {
	b.elements(unix.NFT_MSG_NEWSETELEM, unix.NLM_F_CREATE, "add to", s, list, true)
}

// DeleteElements takes elements out of a set. They must be there.
func (b *Batch) DeleteElements(s Set, list []Element) {
	b.elements(unix.NFT_MSG_DELSETELEM, 0, "delete from", s, list, false)
}

// perMessage bounds the elements of a message: their list is one attribute, of 64 KiB at most.
const perMessage = 500

func (b *Batch) elements(typ, flags uint16, verb string, s Set, list []Element, data bool) {
	for part := range slices.Chunk(list, perMessage) {
		b.do(typ, flags, fmt.Sprintf("%s set %s %d elements", verb, s.Name, len(part)), func(w *wire) {
			w.name(unix.NFTA_SET_ELEM_LIST_TABLE, b.table.Name)
			w.name(unix.NFTA_SET_ELEM_LIST_SET, s.Name)
			all := w.nest(unix.NFTA_SET_ELEM_LIST_ELEMENTS)
			for _, e := range part {
				w.element(s, e, data)
			}
			w.close(all)
		})
	}
}

func (w *wire) element(s Set, e Element, data bool) {
	at := w.nest(unix.NFTA_LIST_ELEM)
	k := w.nest(unix.NFTA_SET_ELEM_KEY)
	attr(w, unix.NFTA_DATA_VALUE, e.Key)
	w.close(k)
	if e.End {
		w.u32(unix.NFTA_SET_ELEM_FLAGS, unix.NFT_SET_ELEM_INTERVAL_END)
	}
	switch {
	case !data:
	case s.Verdicts:
		d := w.nest(unix.NFTA_SET_ELEM_DATA)
		v := w.nest(unix.NFTA_DATA_VERDICT)
		code := uint32(gotoChain)
		if s.Jumps {
			code = jumpChain
		}
		w.u32(unix.NFTA_VERDICT_CODE, code)
		w.name(unix.NFTA_VERDICT_CHAIN, e.Data)
		w.close(v)
		w.close(d)
	case s.DataLen > 0:
		d := w.nest(unix.NFTA_SET_ELEM_DATA)
		attr(w, unix.NFTA_DATA_VALUE, e.Data)
		w.close(d)
	}
	w.close(at)
}

// The kernel's numbers of the verdicts jump, -3, and goto, -4.
const (
	jumpChain = 0xffff_fffd
	gotoChain = 0xffff_fffc
)
