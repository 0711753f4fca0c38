package podnetwork

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/kloop-dev/kloop/internal/atomicfile"
)

// A CNI names the files by which the container runtime joins pods to the network.
type CNI struct {
	File string // the configuration; "": somebody else writes it
	Dir  string // where the plugin keeps which addresses are given out
}

// write writes the configuration if it is not that already: the runtime loads it again when it changes. Sandboxes that run keep what they
// have; those with addresses of another range the agent makes anew.
func (c CNI) write(ranges []netip.Prefix, mtu int) error {
	if c.File == "" {
		return nil
	}
	text, err := c.config(ranges, mtu)
	if err != nil {
		return err
	}
	if have, err := os.ReadFile(c.File); err == nil && bytes.Equal(have, text) {
		return nil
	}
	dir := filepath.Dir(c.File)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write the CNI configuration: %w", err)
	}
	// containerd 1 takes no notice of files that appear, but of those that are renamed in the directory. It reads no file that ends in .new.
	if err := atomicfile.Write(c.File, text, 0o600); err != nil {
		return fmt.Errorf("write the CNI configuration: %w", err)
	}
	return nil
}

// config is the pod network as the plugins make it: a bridge on the node, addresses from its own ranges, host ports by nftables or
// iptables, whichever the plugin finds. Pods are masqueraded by our own rule.
func (c CNI) config(ranges []netip.Prefix, mtu int) ([]byte, error) {
	var pools, routes []any
	for _, p := range ranges {
		pools = append(pools, []any{map[string]any{"subnet": p.String()}})
		everywhere := "0.0.0.0/0"
		if p.Addr().Is6() {
			everywhere = "::/0"
		}
		routes = append(routes, map[string]any{"dst": everywhere})
	}
	bridge := map[string]any{"type": "bridge", "bridge": Bridge, "isGateway": true, "hairpinMode": true, "mtu": mtu,
		"ipam": map[string]any{"type": "host-local", "dataDir": c.Dir, "ranges": pools, "routes": routes}}
	ports := map[string]any{"type": "portmap", "capabilities": map[string]bool{"portMappings": true}}
	return json.MarshalIndent(map[string]any{"cniVersion": "1.0.0", "name": "kloop", "plugins": []any{bridge, ports}}, "", "  ")
}
