package main

import (
	"cmp"
	"strings"

	"github.com/kloop-dev/kloop/examples/vsx/aoscx"
)

// maxMissing bounds how many missing changes a status lists.
const maxMissing = 50

// tell writes what was read into the status, in the words of the switches' command line.
func tell(p *VSXPair, w world) {
	st := &p.Status
	st.Primary, st.Secondary = deviceStatus(&w.primary), deviceStatus(&w.secondary)
	st.ISL = agreed(st.Primary.ISL, st.Secondary.ISL)
	st.Keepalive = agreed(st.Primary.Keepalive, st.Secondary.Keepalive)
	st.ConfigSync = agreed(st.Primary.ConfigSync, st.Secondary.ConfigSync)
	st.Peer = "unreachable"
	if w.primary.inSync() && w.secondary.inSync() {
		st.Peer = "reachable"
	}
	st.Missing = nil
	for _, s := range plan(p, w) {
		if len(st.Missing) < maxMissing {
			st.Missing = append(st.Missing, s.Name)
		}
	}
}

// agreed is the word of both switches, or both words.
func agreed(a, b string) string {
	if a == b {
		return a
	}
	return cmp.Or(a, "?") + "/" + cmp.Or(b, "?")
}

func deviceStatus(o *observed) DeviceStatus {
	if o.err != nil {
		return DeviceStatus{Problem: o.err.Error()}
	}
	d := DeviceStatus{Reachable: true, Hostname: o.system.Hostname, Platform: o.system.Platform, Software: o.system.Software,
		SystemMAC: o.system.MAC, State: "No-VSX"}
	if v := o.vsx; v != nil {
		d.Role, d.State, d.ISL, d.ISLMgmt = v.Role, aoscx.Word(v.Oper.Device), aoscx.Word(v.Oper.ISL), v.Oper.Mgmt
		d.Keepalive = strings.TrimPrefix(aoscx.Word(v.KeepaliveState.State), "In-Sync-")
		d.ConfigSync, d.PeerMAC = aoscx.Word(v.Oper.Sync), v.Peer.MAC
	}
	return d
}
