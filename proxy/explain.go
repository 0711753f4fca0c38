package proxy

import (
	"cmp"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	"github.com/kloop-dev/kloop/resource"
)

// Explain writes what the proxy of a node would have the kernel do, for people: each address of each service, and where a connection
// to it goes. It needs no rights on the machine, and changes nothing.
func Explain(out io.Writer, read resource.Reader, cfg Config) error {
	b := newBook(newHere(&cfg, read, interfaces(cfg)))
	b.fill(read)
	var text strings.Builder
	h := b.here
	fmt.Fprintf(&text, "services on node %s\n", h.node)
	for _, line := range []struct {
		what string
		list string
		none string
	}{
		{"zone", h.zone, "unknown: hints for zones don't count"},
		{"cluster IPs", commas(h.services), "none"},
		{"pods of this node", commas(h.pods), "unknown: clients from elsewhere keep their address"},
		{"node ports at", commas(h.nodePorts), "no address: the Node has none"},
	} {
		fmt.Fprintf(&text, "  %-18s %s\n", line.what, cmp.Or(line.list, line.none))
	}
	for _, s := range b.inOrder() {
		b.explain(&text, s)
	}
	_, err := io.WriteString(out, text.String())
	return err
}

func commas[T fmt.Stringer](list []T) string {
	var words []string
	for _, x := range list {
		words = append(words, x.String())
	}
	return strings.Join(words, ", ")
}

// inOrder lists the services by name.
func (b *book) inOrder() []*service {
	var list []*service
	for _, s := range b.services {
		list = append(list, s)
	}
	slices.SortFunc(list, func(x, y *service) int {
		return cmp.Or(cmp.Compare(x.name.Namespace, y.name.Namespace), cmp.Compare(x.name.Name, y.name.Name))
	})
	return list
}

func (b *book) explain(out *strings.Builder, s *service) {
	fmt.Fprintf(out, "\nservice %s\n", s.name)
	owns := b.owner(s)
	for i := range s.claims {
		c := &s.claims[i]
		where := fmt.Sprintf("%s/%s", netip.AddrPortFrom(c.at.ip, c.at.port), map[uint8]string{6: "TCP", 17: "UDP", 132: "SCTP"}[c.at.protocol])
		what := s.says(c)
		if !owns(c) {
			what = "another service has this address"
		}
		kind := []string{"cluster IP", "node port", "load balancer", "external IP"}[c.kind]
		fmt.Fprintf(out, "  %-13s  %-28s %s\n", kind, where, what)
	}
	if s.health != nil {
		fmt.Fprintf(out, "  %-13s  %-28d %d ready here\n", "health check", s.health.port, s.health.local)
	}
}

// says puts a claim's way into words.
func (s *service) says(c *claim) string {
	w := c.way
	ends := func(id uint64) string {
		for _, l := range s.lists {
			if l.id == id && l.v6 == c.at.ip.Is6() {
				return commas(l.ends)
			}
		}
		return "nothing"
	}
	var text string
	switch {
	case w.kind == refuse:
		text = "refused: no endpoints"
	case w.kind == drop:
		text = "dropped: no endpoint on this node"
	case w.kind == split && w.local == 0:
		text = fmt.Sprintf("from this node and its pods: %s; others: dropped, no endpoint here", ends(c.list))
	case w.kind == split:
		text = fmt.Sprintf("from this node and its pods: %s; others: %s", ends(c.list), ends(c.list|1))
	default:
		text = ends(c.list | uint64(w.local))
	}
	if w.masq {
		text += "; with this node's address as source"
	}
	if w.sticky != 0 {
		text += fmt.Sprintf("; a client stays for %d s", w.sticky)
	}
	if w.from != "" {
		text += "; only from " + strings.ReplaceAll(w.from, ",", ", ")
	}
	return text
}
