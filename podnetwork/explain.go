package podnetwork

import (
	"fmt"
	"io"
	"strings"

	"github.com/kloop-dev/kloop/resource"
)

// Explain writes what the pod network of a node is to be, as the Nodes have it. Whether a router stands between two machines only they
// themselves know.
func Explain(out io.Writer, read resource.Reader, node, mode string) error {
	c := newCensus(read, node)
	want, notes := plan(c, ground{}, mode)
	way := map[string]string{ModeVXLAN: "in the tunnel", ModeRoutes: "by a route, if no router is between",
		ModeWireGuard: "encrypted"}[mode]
	if way == "" {
		way = "by a route, or if a router is between, in the tunnel"
	}
	var text strings.Builder
	fmt.Fprintf(&text, "pod network on node %s\n", node)
	for _, p := range c.own.ranges {
		fmt.Fprintf(&text, "  %-18s %s\n", "pods here", p)
	}
	if want.tunnel != nil {
		fmt.Fprintf(&text, "  %-18s %s, VXLAN %d to UDP port %d, as %s\n", "tunnel", Tunnel, tunnelID, TunnelPort, want.tunnel.mac)
	}
	if want.secret != nil {
		fmt.Fprintf(&text, "  %-18s %s, WireGuard to UDP port %d\n", "tunnel", Secret, SecretPort)
		notes = append(notes, want.secret.mute...)
	}
	for _, m := range c.peers {
		for _, p := range m.ranges {
			at := "an address that its Node does not tell yet"
			if len(m.addrs) > 0 {
				at = m.addrs[0].String()
			}
			fmt.Fprintf(&text, "  %-18s to %s at %s, %s\n", p, m.name, at, way)
		}
	}
	if mode == ModeRoutes { // whether a router is between is not known here
		notes = c.notes
	}
	if c.trouble != "" {
		notes = append([]string{c.trouble}, notes...)
	}
	for _, n := range notes {
		fmt.Fprintf(&text, "  %-18s %s\n", "but", n)
	}
	_, err := io.WriteString(out, text.String())
	return err
}
