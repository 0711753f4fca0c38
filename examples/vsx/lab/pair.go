package lab

import (
	"slices"
	"time"
)

func (s *Switch) vsx() resource { return s.tree["system/vsx"] }

func (s *Switch) role() string { r, _ := s.vsx()["device_role"].(string); return r }

// islUp says that the link between the switches is up and both take it for their ISL.
func (l *Lab) islUp() bool {
	for _, s := range l.switches {
		if s.vsx() == nil || !s.lagUp(refOne(s.vsx()["isl_port"])) {
			return false
		}
	}
	return l.switches[0].role() != l.switches[1].role()
}

// heard says that each switch hears the other's keepalive.
func (l *Lab) heard() bool {
	for _, s := range l.switches {
		v, p := s.vsx(), s.peer().vsx()
		if v == nil || p == nil || v["keepalive_peer_ip"] != p["keepalive_src_ip"] || !s.keepalivePort() {
			return false
		}
	}
	return true
}

// keepalivePort says that a port with link has the keepalive's address, in its VRF.
func (s *Switch) keepalivePort() bool {
	v := s.vsx()
	for path, r := range s.tree {
		address, _ := r["ip4_address"].(string)
		if name, ok := cutInterface(path); ok && r["routing"] == true && refOne(r["vrf"]) == refOne(v["keepalive_vrf"]) &&
			address != "" && hostPart(address) == v["keepalive_src_ip"] && s.portUp(name) {
			return true
		}
	}
	return false
}

func (l *Lab) inSync() bool {
	return !l.islSince.IsZero() && !l.now().Before(l.islSince.Add(handshake+l.slow))
}

func (l *Lab) alive() bool {
	return !l.kaSince.IsZero() && !l.now().Before(l.kaSince.Add(hello))
}

// settle brings what follows from configuration, cables and time up to date. It is called after each change and before each answer.
func (l *Lab) settle() {
	now := l.now()
	since := func(up bool, at *time.Time) {
		switch {
		case !up:
			*at = time.Time{}
		case at.IsZero():
			*at = now
		}
	}
	since(l.heard(), &l.kaSince)
	since(l.islUp(), &l.islSince)
	for _, s := range l.switches {
		if s.vsx() == nil {
			s.formed, s.away, s.delay = false, false, time.Time{}
			continue
		}
		switch sync := l.inSync(); {
		case sync && !s.formed: // the first time since it booted
			s.formed = true
			s.away = s.away || s.role() == "secondary"
			s.wait()
		case sync && s.away && s.delay.IsZero():
			s.wait()
		case !sync && s.formed && l.islSince.IsZero(): // split; without the keepalive the peer may be gone, and it goes on
			s.away, s.delay = s.role() == "secondary" && l.alive(), time.Time{}
		}
		if !s.delay.IsZero() && !now.Before(s.delay) {
			s.away, s.delay = false, time.Time{}
		}
	}
	l.copySynced(now)
	l.judge.see(l)
}

// wait begins the delay after a return.
func (s *Switch) wait() {
	if s.away {
		s.delay = s.lab.islSince.Add(handshake + s.lab.slow + time.Duration(number(s.vsx()["linkup_delay_timer"]))*time.Second)
	}
}

// synced are the attributes that the feature vsx-global copies to the secondary.
var synced = []string{"linkup_delay_timer", "system_mac"}

// copySynced copies what is synced from the primary, some time after it differs.
func (l *Lab) copySynced(now time.Time) {
	from, to := l.switches[0], l.switches[1]
	if from.role() == "secondary" {
		from, to = to, from
	}
	if !l.inSync() || !l.differs() {
		l.stale = time.Time{}
		return
	}
	if l.stale.IsZero() {
		l.stale = now
	}
	if now.Sub(l.stale) < copying+l.slow {
		return
	}
	for _, a := range synced {
		to.vsx()[a] = from.vsx()[a]
		if from.vsx()[a] == nil {
			delete(to.vsx(), a)
		}
	}
	to.changes++
	l.stale = time.Time{}
}

// differs says that the secondary lacks what is synced.
func (l *Lab) differs() bool {
	a, b := l.switches[0], l.switches[1]
	p := a
	if b.role() == "primary" {
		p = b
	}
	features, _ := p.vsx()["config_sync_features"].([]any)
	if a.vsx() == nil || b.vsx() == nil || !slices.Contains(features, any("vsx-global")) {
		return false
	}
	return slices.ContainsFunc(synced, func(at string) bool { return !same(a.vsx()[at], b.vsx()[at]) })
}

// holds says that a switch keeps its multi-chassis LAGs down: it returns, or lost the ISL as the secondary while the keepalive lives. A
// switch that hears nothing of its peer goes on alone.
func (s *Switch) holds() bool {
	switch {
	case s.vsx() == nil:
		return false
	case s.lab.islSince.IsZero() && s.formed:
		return s.role() == "secondary" && s.lab.alive()
	}
	return s.away
}

// state is islp_device_state: the pair, as the switch sees it.
func (s *Switch) state() string {
	l := s.lab
	switch {
	case !l.islSince.IsZero() && !l.inSync():
		return "sync_" + s.role()
	case l.inSync() && s.away:
		return "sync_secondary_linkup_delay"
	case l.inSync():
		return "peer_established"
	case !s.formed:
		return "waiting_for_peer"
	case s.role() == "secondary" && l.alive():
		return "split_system_secondary"
	}
	return "split_system_primary"
}

// status are the attributes of vsx that only the switch writes.
func (s *Switch) status() resource {
	l, p := s.lab, s.peer()
	isl, mgmt, sync, ka := "out_of_sync", "inter_switch_link_down", "peer_db_connection_error", "configured"
	if l.inSync() {
		isl, mgmt, sync = "in_sync", "operational", "in-sync"
		if l.differs() {
			sync = "configuration_sync_conflict"
		}
	}
	if v, _ := s.vsx()["config_sync_disable"].(bool); v {
		sync = "disabled"
	}
	switch {
	case l.alive():
		ka = "in_sync_established"
	case !l.kaSince.IsZero():
		ka = "init"
	case s.formed:
		ka = "failed"
	}
	r := resource{"oper_status": map[string]any{"islp_link_state": isl, "islp_device_state": s.state(), "isl_mgmt_state": mgmt,
		"config_sync_state": sync}, "keepalive_status": map[string]any{"state": ka}}
	if l.inSync() {
		r["peer_status"] = map[string]any{"peer_ready": true, "system_mac": p.tree["system"]["system_mac"],
			"platform_name": p.tree["system"]["platform_name"], "peer_sw_version": p.tree["system"]["software_version"], "device_role": p.role()}
	}
	return r
}
