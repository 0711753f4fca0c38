package nft

import (
	"bytes"
	"fmt"

	"golang.org/x/sys/unix"
)

// Generation counts the transactions on the packet filter of this network namespace, anybody's. As long as it stands still
// nothing has changed, but for elements that packets added.
func (c *Conn) Generation() (gen uint32, err error) {
	err = c.ask(unix.NFT_MSG_GETGEN, unix.NLM_F_ACK, unix.AF_UNSPEC, func(*wire) {}, func() {}, func(b []byte) {
		gen = number(find(b, unix.NFTA_GEN_ID))
	})
	if err != nil {
		return 0, fmt.Errorf("ask nftables for its generation: %w", err)
	}
	return gen, nil
}

// Exists says whether the table is there.
func (c *Conn) Exists(t Table) (bool, error) {
	err := c.ask(unix.NFT_MSG_GETTABLE, unix.NLM_F_ACK, t.Family, func(w *wire) {
		w.name(unix.NFTA_TABLE_NAME, t.Name)
	}, func() {}, func([]byte) {})
	if NotThere(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for %s: %w", t, err)
	}
	return true, nil
}

// Chains returns the table's chains by name. Rules carry their comments, not their code.
func (c *Conn) Chains(t Table) (map[string]*Chain, error) {
	var list map[string]*Chain
	err := c.ask(unix.NFT_MSG_GETCHAIN, unix.NLM_F_DUMP, t.Family, func(*wire) {}, func() { list = map[string]*Chain{} }, func(b []byte) {
		if text(find(b, unix.NFTA_CHAIN_TABLE)) == t.Name {
			ch := chain(b)
			list[ch.Name] = ch
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list the chains of %s: %w", t, err)
	}
	err = c.ask(unix.NFT_MSG_GETRULE, unix.NLM_F_DUMP, t.Family, func(w *wire) { w.name(unix.NFTA_RULE_TABLE, t.Name) }, func() {
		for _, ch := range list {
			ch.Rules = nil
		}
	}, func(b []byte) {
		if ch := list[text(find(b, unix.NFTA_RULE_CHAIN))]; ch != nil && text(find(b, unix.NFTA_RULE_TABLE)) == t.Name {
			ch.Rules = append(ch.Rules, Rule{Comment: uncomment(find(b, unix.NFTA_RULE_USERDATA))})
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list the rules of %s: %w", t, err)
	}
	return list, nil
}

func chain(b []byte) *Chain {
	ch := &Chain{Name: text(find(b, unix.NFTA_CHAIN_NAME))}
	if h := find(b, unix.NFTA_CHAIN_HOOK); h != nil {
		ch.Hook = &Hook{Type: text(find(b, unix.NFTA_CHAIN_TYPE)), Num: number(find(h, unix.NFTA_HOOK_HOOKNUM)),
			Priority: int32(number(find(h, unix.NFTA_HOOK_PRIORITY)))}
	}
	return ch
}

func uncomment(b []byte) string {
	if len(b) < 3 || b[0] != 0 || int(b[1])+2 > len(b) {
		return ""
	}
	return string(bytes.TrimRight(b[2:2+int(b[1])], "\x00"))
}

// Sets returns the table's sets by name, but for anonymous ones.
func (c *Conn) Sets(t Table) (map[string]Set, error) {
	var list map[string]Set
	err := c.ask(unix.NFT_MSG_GETSET, unix.NLM_F_DUMP, t.Family, func(w *wire) {
		w.name(unix.NFTA_SET_TABLE, t.Name)
	}, func() { list = map[string]Set{} }, func(b []byte) {
		flags := number(find(b, unix.NFTA_SET_FLAGS))
		if text(find(b, unix.NFTA_SET_TABLE)) != t.Name || flags&unix.NFT_SET_ANONYMOUS != 0 {
			return
		}
		s := Set{Name: text(find(b, unix.NFTA_SET_NAME)),
			KeyLen: number(find(b, unix.NFTA_SET_KEY_LEN)), KeyType: number(find(b, unix.NFTA_SET_KEY_TYPE)),
			DataType: number(find(b, unix.NFTA_SET_DATA_TYPE)), DataLen: number(find(b, unix.NFTA_SET_DATA_LEN)),
			Learns: flags&unix.NFT_SET_EVAL != 0, Ranges: flags&unix.NFT_SET_INTERVAL != 0, Size: number(find(find(b, unix.NFTA_SET_DESC),
				unix.NFTA_SET_DESC_SIZE))}
		if s.DataType == unix.NFT_DATA_VERDICT {
			s.Verdicts, s.DataType, s.DataLen = true, 0, 0
		}
		list[s.Name] = s
	})
	if err != nil {
		return nil, fmt.Errorf("list the sets of %s: %w", t, err)
	}
	return list, nil
}

// Elements returns what is in a set: data by key.
func (c *Conn) Elements(t Table, set string) (map[string]string, error) {
	var list map[string]string
	err := c.ask(unix.NFT_MSG_GETSETELEM, unix.NLM_F_DUMP, t.Family, func(w *wire) {
		w.name(unix.NFTA_SET_ELEM_LIST_TABLE, t.Name)
		w.name(unix.NFTA_SET_ELEM_LIST_SET, set)
	}, func() { list = map[string]string{} }, func(b []byte) {
		for _, e := range attrs(find(b, unix.NFTA_SET_ELEM_LIST_ELEMENTS)) {
			data := find(e, unix.NFTA_SET_ELEM_DATA)
			value := string(find(data, unix.NFTA_DATA_VALUE))
			if v := find(data, unix.NFTA_DATA_VERDICT); v != nil {
				value = text(find(v, unix.NFTA_VERDICT_CHAIN))
			}
			list[string(find(find(e, unix.NFTA_SET_ELEM_KEY), unix.NFTA_DATA_VALUE))] = value
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list the elements of %s of %s: %w", set, t, err)
	}
	return list, nil
}
