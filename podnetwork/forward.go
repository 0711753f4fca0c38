package podnetwork

import (
	"fmt"
	"strings"

	"github.com/google/nftables"
)

// obstacles are the chains of others that drop forwarded packets unless a rule of theirs lets them pass: what kloop accepts in a
// table of its own they drop all the same. Docker makes such a chain, and so do firewalls. Packet filters of the kernel's older kind
// are not seen.
func obstacles() (notes []string) {
	c, err := nftables.New()
	if err != nil {
		return nil // the masquerading rules will say so
	}
	for _, family := range []nftables.TableFamily{nftables.TableFamilyIPv4, nftables.TableFamilyINet} {
		chains, err := c.ListChainsOfTableFamily(family)
		if err != nil {
			continue
		}
		for _, ch := range chains {
			if ch.Hooknum == nil || *ch.Hooknum != *nftables.ChainHookForward || ch.Policy == nil || *ch.Policy != nftables.ChainPolicyDrop ||
				ch.Type != nftables.ChainTypeFilter || strings.HasPrefix(ch.Table.Name, "kloop") {
				continue
			}
			notes = append(notes, fmt.Sprintf(
				"the chain %s of the table %s drops forwarded packets, and so those of pods, unless its rules let them "+
					"pass: with Docker, iptables -I DOCKER-USER -s RANGE -j ACCEPT, and again with -d, for network.podCIDR", ch.Name, ch.Table.Name))
		}
	}
	return notes
}
