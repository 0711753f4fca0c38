package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/kloop-dev/kloop/examples/vsx/aoscx"
)

// mcLag: a LAG over both switches, on one of them.
func mcLag(m MCLAG, w *world, s side) (list []change) {
	o, name := w.at(s), lagName(m.ID)
	ports := slices.Sorted(slices.Values(m.Ports))
	lag := o.ports[name]
	var trunks []string
	for _, id := range m.VLANs {
		trunks = append(trunks, strconv.Itoa(id))
	}
	slices.Sort(trunks)
	attrs := func(c *aoscx.Client) map[string]any {
		return map[string]any{"routing": false, "vlan_mode": "native-untagged", "vlan_tag": vlan(c, m.NativeVLAN),
			"vlan_trunks": vlanMap(c, m.VLANs...), "lacp": "active", "other_config": map[string]any{"mclag_enabled": true},
			"admin": "up", "user_config": map[string]any{"admin": "up"}}
	}
	switch {
	case lag == nil:
		list = append(list, change{on: s, risk: traffic, lag: name, what: fmt.Sprintf("interface lag %d multi-chassis", m.ID),
			do: func(ctx context.Context, c *aoscx.Client) error {
				body := attrs(c)
				body["name"], body["type"], body["description"] = name, "lag", m.Description
				return c.Post(ctx, "system/interfaces", body)
			}})
	case lag.Routing || lag.VLANMode != "native-untagged" || lag.VLANTag.One() != strconv.Itoa(m.NativeVLAN) ||
		!slices.Equal(lag.VLANTrunks, trunks) || lag.LACP != "active" || lag.Other["mclag_enabled"] != true || !lag.Up():
		c := edit(s, traffic, name, fmt.Sprintf("multi-chassis, vlan trunk native %d, allowed %v, lacp mode active, no shutdown",
			m.NativeVLAN, trunks), attrs)
		c.lag = name
		list = append(list, c)
	}
	return append(append(list, describe(s, lag, name, m.Description)...), members(o, s, traffic, name, name, ports)...)
}

// gateway: the interface of a VLAN, with an address that both switches answer for.
func gateway(g Gateway, w *world, s side) []change {
	i, name, own := w.at(s).ports[vlanName(g.VLAN)], vlanName(g.VLAN), g.PrimaryAddress
	if s == secondary {
		own = g.SecondaryAddress
	}
	attrs := func(c *aoscx.Client) map[string]any {
		return map[string]any{"ip4_address": own, "vsx_virtual_ip4": []string{g.IP}, "vsx_virtual_gw_mac_v4": g.MAC, "admin": "up",
			"user_config": map[string]any{"admin": "up"}}
	}
	what := fmt.Sprintf("ip address %s, active-gateway ip %s mac %s", own, g.IP, g.MAC)
	switch {
	case i == nil:
		return []change{{on: s, risk: traffic, what: name + ": " + what, do: func(ctx context.Context, c *aoscx.Client) error {
			body := attrs(c)
			body["name"], body["type"], body["vlan_tag"] = name, "vlan", vlan(c, g.VLAN)
			body["vrf"] = map[string]any{"default": c.RefTo("system", "vrfs", "default")}
			return c.Post(ctx, "system/interfaces", body)
		}}}
	case i.IP4 != own || !slices.Equal(i.VirtualIP4, []string{g.IP}) || i.VirtualMAC != g.MAC || !i.Up():
		return []change{edit(s, traffic, name, what, attrs)}
	}
	return nil
}
