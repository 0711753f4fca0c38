package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kloop-dev/kloop/examples/vsx/aoscx"
)

// missing compares what the spec says with what was read. The order is that of a pair that is set up anew: the keepalive before the ISL,
// the ISL before what runs over it, and on a pair the secondary before the primary where the primary then finds it.
func missing(p *VSXPairSpec, w *world) (list []change) {
	both := []side{secondary, primary}
	for _, s := range both {
		list = append(list, keepalivePath(p, w, s)...)
	}
	for _, s := range both {
		if id := p.InterSwitchLink.NativeVLAN; !slices.Contains(w.at(s).vlans, strconv.Itoa(id)) {
			list = append(list, newVLAN(s, VLAN{ID: id}))
		}
		list = append(list, islLag(p, w, s)...)
	}
	for _, s := range both {
		list = append(list, vsxOf(p, w, s)...)
	}
	for _, s := range both {
		list = append(list, islUp(p, w, s)...)
	}
	for _, v := range p.vlans() {
		for _, s := range both {
			if !slices.Contains(w.at(s).vlans, strconv.Itoa(v.ID)) {
				list = append(list, newVLAN(s, v))
			}
		}
	}
	for _, m := range p.MCLAGs {
		for _, s := range both {
			list = append(list, mcLag(m, w, s)...)
		}
	}
	for _, g := range p.Gateways {
		for _, s := range both {
			list = append(list, gateway(g, w, s)...)
		}
	}
	if len(list) > 0 {
		return list
	}
	for _, s := range both {
		if !w.at(s).saved {
			list = append(list, change{on: s, risk: save, what: "write memory",
				do: func(ctx context.Context, c *aoscx.Client) error { return c.Save(ctx) }})
		}
	}
	return list
}

// vlans are those of the spec, and those that its LAGs and gateways need.
func (p *VSXPairSpec) vlans() []VLAN {
	list := slices.Clone(p.VLANs)
	need := func(id int) {
		if id > 1 && !slices.ContainsFunc(list, func(v VLAN) bool { return v.ID == id }) {
			list = append(list, VLAN{ID: id})
		}
	}
	for _, m := range p.MCLAGs {
		need(m.NativeVLAN)
		for _, id := range m.VLANs {
			need(id)
		}
	}
	for _, g := range p.Gateways {
		need(g.VLAN)
	}
	return list
}

func interfacePath(name string) string { return aoscx.Path("system", "interfaces", name) }

// edit is a change of an interface that is there.
func edit(s side, r risk, name, what string, attrs func(*aoscx.Client) map[string]any) change {
	return change{on: s, risk: r, what: name + ": " + what, do: func(ctx context.Context, c *aoscx.Client) error {
		return c.Edit(ctx, interfacePath(name), attrs(c))
	}}
}

// replaced is a map that takes the place of what is there, where others are merged with it.
type replaced map[string]any

func vlanMap(c *aoscx.Client, ids ...int) replaced {
	m := replaced{}
	for _, id := range ids {
		m[strconv.Itoa(id)] = c.RefTo("system", "vlans", strconv.Itoa(id))
	}
	return m
}

// vlan is a reference to a VLAN, as it is written: a map of one.
func vlan(c *aoscx.Client, id int) replaced { return vlanMap(c, id) }

func newVLAN(s side, v VLAN) change {
	return change{on: s, what: fmt.Sprintf("vlan %d", v.ID), do: func(ctx context.Context, c *aoscx.Client) error {
		return c.Post(ctx, "system/vlans", map[string]any{"id": v.ID, "name": cmp.Or(v.Name, fmt.Sprintf("VLAN%d", v.ID)),
			"type": "static", "admin": "up"})
	}}
}

// describe is missing where a description is another one. Empty: it is not managed.
func describe(s side, i *aoscx.Interface, name, want string) []change {
	if want == "" || i == nil || i.Description == want {
		return nil
	}
	return []change{edit(s, text, name, "description "+want, func(*aoscx.Client) map[string]any {
		return map[string]any{"description": want}
	})}
}

// keepalivePath: the VRF, and the routed port in it.
func keepalivePath(p *VSXPairSpec, w *world, s side) (list []change) {
	o, k, address := w.at(s), &p.Keepalive, p.at(s).KeepaliveAddress
	if !slices.Contains(o.vrfs, k.VRF) {
		list = append(list, change{on: s, what: "vrf " + k.VRF, do: func(ctx context.Context, c *aoscx.Client) error {
			return c.Post(ctx, "system/vrfs", map[string]any{"name": k.VRF})
		}})
	}
	i := o.ports[k.Port]
	if i == nil || !i.Routing || i.VRF.One() != k.VRF || i.IP4 != address || !i.Up() {
		list = append(list, edit(s, keepalive, k.Port, fmt.Sprintf("vrf attach %s, ip address %s, no shutdown", k.VRF, address),
			func(c *aoscx.Client) map[string]any {
				return map[string]any{"routing": true, "vrf": replaced{k.VRF: c.RefTo("system", "vrfs", k.VRF)}, "ip4_address": address,
					"admin": "up", "user_config": map[string]any{"admin": "up"}}
			}))
	}
	return append(list, describe(s, i, k.Port, k.Description)...)
}

func (i *ISL) sorted() []string {
	list := slices.Clone(i.Ports)
	slices.Sort(list)
	return list
}

// islLag: the LAG of the ISL, as a trunk of all VLANs, and its members. It is made while it is down.
func islLag(p *VSXPairSpec, w *world, s side) (list []change) {
	o, isl := w.at(s), &p.InterSwitchLink
	name, ports := lagName(isl.LAG), isl.sorted()
	lag := o.ports[name]
	trunk := func(c *aoscx.Client) map[string]any {
		return map[string]any{"routing": false, "vlan_mode": "native-tagged", "vlan_tag": vlan(c, isl.NativeVLAN), "vlan_trunks": replaced{},
			"lacp": "active"}
	}
	switch {
	case lag == nil:
		list = append(list, change{on: s, what: "interface lag " + strconv.Itoa(isl.LAG), do: func(ctx context.Context, c *aoscx.Client) error {
			body := trunk(c)
			body["name"], body["type"], body["admin"], body["description"] = name, "lag", "down", isl.Description
			return c.Post(ctx, "system/interfaces", body)
		}})
	case lag.Routing || lag.VLANMode != "native-tagged" || lag.VLANTag.One() != strconv.Itoa(isl.NativeVLAN) || len(lag.VLANTrunks) > 0 ||
		lag.LACP != "active":
		list = append(list, edit(s, link, name, fmt.Sprintf("vlan trunk native %d tag, allowed all, lacp mode active", isl.NativeVLAN), trunk))
	}
	return append(append(list, describe(s, lag, name, isl.Description)...), members(o, s, link, "", name, ports)...)
}

// members are those that a LAG lacks, one by one, and those that it has beside them. A port that becomes one is not a member anywhere yet:
// that is no risk to what runs over the LAG.
func members(o *observed, s side, r risk, mclag, name string, ports []string) (list []change) {
	var have []string
	if lag := o.ports[name]; lag != nil {
		have = lag.Members
	}
	if slices.Equal(have, ports) {
		for _, port := range ports {
			if i := o.ports[port]; i != nil && !i.Up() {
				list = append(list, edit(s, additive, port, "no shutdown", up))
			}
		}
		return list
	}
	joins := additive
	if o.ports[name] == nil {
		joins = r // it waits for its LAG
	}
	for _, port := range ports {
		if i := o.ports[port]; i == nil || key(i) != name || !i.Up() {
			list = append(list, edit(s, joins, port, "lag "+strings.TrimPrefix(name, "lag"), func(*aoscx.Client) map[string]any {
				return map[string]any{"other_config": map[string]any{"lacp-aggregation-key": strings.TrimPrefix(name, "lag")}, "admin": "up",
					"user_config": map[string]any{"admin": "up"}}
			}))
		}
	}
	kind := r
	if mclag == "" && len(have) == 0 {
		kind = additive // an ISL without members is down
	}
	c := edit(s, kind, name, "members "+strings.Join(ports, " "), func(c *aoscx.Client) map[string]any {
		refs := replaced{}
		for _, port := range ports {
			refs[port] = c.RefTo("system", "interfaces", port)
		}
		return map[string]any{"interfaces": refs}
	})
	c.lag = mclag
	return append(list, c)
}

func up(*aoscx.Client) map[string]any {
	return map[string]any{"admin": "up", "user_config": map[string]any{"admin": "up"}}
}

// key is the LAG that a port belongs to.
func key(i *aoscx.Interface) string {
	switch k := i.Other["lacp-aggregation-key"].(type) {
	case string:
		return "lag" + k
	case float64:
		return fmt.Sprintf("lag%d", int(k))
	}
	return ""
}

// vsxOf: the pair, as one of the switches has it. A switch that is in none is put into it at once, keepalive and all, while its ISL is
// down.
func vsxOf(p *VSXPairSpec, w *world, s side) (list []change) {
	v, vrf := w.at(s).vsx, p.Keepalive.VRF
	own, _, _ := strings.Cut(p.at(s).KeepaliveAddress, "/")
	peer, _, _ := strings.Cut(p.at(s.other()).KeepaliveAddress, "/")
	path := func(c *aoscx.Client) map[string]any {
		return map[string]any{"keepalive_vrf": replaced{vrf: c.RefTo("system", "vrfs", vrf)}, "keepalive_src_ip": own, "keepalive_peer_ip": peer}
	}
	if v == nil {
		return []change{{on: s, what: "vsx, role " + s.String(), do: func(ctx context.Context, c *aoscx.Client) error {
			body := path(c)
			lag := lagName(p.InterSwitchLink.LAG)
			body["isl_port"] = map[string]any{lag: c.RefTo("system", "interfaces", lag)}
			body["device_role"], body["linkup_delay_timer"] = s.String(), p.LinkupDelay
			if p.SystemMAC != "" {
				body["system_mac"] = p.SystemMAC
			}
			return c.Post(ctx, "system/vsx", body)
		}}}
	}
	set := func(r risk, what string, attrs func(c *aoscx.Client) map[string]any) {
		list = append(list, change{on: s, risk: r, what: "vsx: " + what, do: func(ctx context.Context, c *aoscx.Client) error {
			return c.Edit(ctx, "system/vsx", attrs(c))
		}})
	}
	if v.KeepaliveVRF.One() != vrf || v.KeepaliveFrom != own || v.KeepalivePeer != peer {
		set(keepalive, fmt.Sprintf("keepalive peer %s source %s vrf %s", peer, own, vrf), path)
	}
	copied := s == secondary && p.ConfigSync != nil && slices.Contains(p.ConfigSync.Features, "vsx-global") // the primary's word counts
	if v.LinkupDelay != p.LinkupDelay && !copied {
		set(pair, fmt.Sprintf("linkup-delay-timer %d", p.LinkupDelay),
			func(*aoscx.Client) map[string]any { return map[string]any{"linkup_delay_timer": p.LinkupDelay} })
	}
	if p.SystemMAC != "" && v.SystemMAC != p.SystemMAC && !copied {
		set(pair, "system-mac "+p.SystemMAC, func(*aoscx.Client) map[string]any { return map[string]any{"system_mac": p.SystemMAC} })
	}
	if p.ConfigSync != nil && s == primary {
		want, have := slices.Sorted(slices.Values(p.ConfigSync.Features)), slices.Sorted(slices.Values(v.SyncFeatures))
		if !slices.Equal(want, have) || v.SyncOff {
			set(pair, "vsx-sync "+strings.Join(want, " "), func(*aoscx.Client) map[string]any {
				return map[string]any{"config_sync_features": want, "config_sync_disable": false}
			})
		}
	}
	return list
}

// islUp brings the ISL up, when both switches know that they are a pair.
func islUp(p *VSXPairSpec, w *world, s side) []change {
	name := lagName(p.InterSwitchLink.LAG)
	lag := w.at(s).ports[name]
	if lag != nil && lag.Up() {
		return nil
	}
	return []change{edit(s, raise, name, "no shutdown", up)}
}
