package proxy

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
)

// A way says what happens to a new connection. Many addresses share one: it has the number of endpoints to choose from, not the
// endpoints. So the kernel needs one chain for each way, tens for a large cluster, and a service is nothing but elements of maps.
type way struct {
	kind   kind
	n      int    // pick: endpoints to choose from; split: how many the policy Cluster has
	local  int    // pick: 1 to choose from those of the policy Local; split: how many that has
	sticky int32  // a client keeps its endpoint until so many seconds after its last connection; 0: it does not
	masq   bool   // pick: connections get an address of this node as their source
	from   string // only clients in these ranges, others are dropped; separated by commas
}

type kind byte

const (
	refuse kind = iota // answer that nobody is there
	drop               // say nothing: a load balancer then tries another node
	pick               // lead to one of n endpoints
	split              // clients on this node: as the policy Cluster; others: to an endpoint on this node, or drop
)

// name is the name of the way's chain.
func (w way) name() string {
	var b strings.Builder
	if w.from != "" {
		fmt.Fprintf(&b, "from-%016x-", digest(w.from))
	}
	switch w.kind {
	case refuse:
		b.WriteString("refuse")
	case drop:
		b.WriteString("drop")
	case pick:
		b.WriteString("pick")
		if w.local != 0 {
			b.WriteString("-local")
		}
		fmt.Fprintf(&b, "-%d", w.n)
	case split:
		fmt.Fprintf(&b, "split-%d-%d", w.n, w.local)
	}
	if w.sticky != 0 {
		fmt.Fprintf(&b, "-sticky-%d", w.sticky)
	}
	if w.masq {
		b.WriteString("-masq")
	}
	return b.String()
}

// leadsTo lists the ways whose chains this one's goes to.
func (w way) leadsTo() (list []way) {
	plain := w
	plain.from = ""
	switch {
	case w.from != "" && (w.kind == refuse || w.kind == drop):
		return []way{plain, {kind: drop}}
	case w.from != "":
		return []way{plain}
	case w.kind == split:
		all := way{kind: pick, n: w.n, sticky: w.sticky}
		marked := all
		marked.masq = true
		return []way{all, marked, w.onNode()}
	case w.masq:
		plain.masq = false
		return []way{plain}
	}
	return nil
}

// onNode leads a split's clients from outside.
func (w way) onNode() way {
	if w.local == 0 {
		return way{kind: drop}
	}
	return way{kind: pick, n: w.local, local: 1, sticky: w.sticky}
}

// digest turns a name into a number that nobody can make another name for: two services with one number would share their
// endpoints.
func digest(s string) uint64 {
	sum := sha256.Sum256([]byte(s))
	return binary.BigEndian.Uint64(sum[:])
}
