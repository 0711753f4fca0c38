package lab

import (
	"fmt"
	"strings"
)

// ShowVSXStatus returns the output of `show vsx status` on the console.
func (s *Switch) ShowVSXStatus() string {
	s.lab.mu.Lock()
	defer s.lab.mu.Unlock()
	s.lab.settle()
	if s.vsx() == nil {
		return "VSX is not configured\n"
	}
	st, sys, p := s.status(), s.tree["system"], s.peer()
	oper := st["oper_status"].(map[string]any)
	reach := "peer_unreachable"
	if s.lab.inSync() {
		reach = "peer_reachable"
	}
	var b strings.Builder
	b.WriteString("VSX Operational State\n---------------------\n")
	for _, row := range [][2]string{{"ISL channel", shown(oper["islp_link_state"])}, {"ISL mgmt channel", fmt.Sprint(oper["isl_mgmt_state"])},
		{"Config Sync Status", fmt.Sprint(oper["config_sync_state"])}, {"NAE", reach}, {"HTTPS Server", reach}} {
		fmt.Fprintf(&b, "  %-23s : %s\n", row[0], row[1])
	}
	fmt.Fprintf(&b, "\n%-18s  %-18s  %s\n%-18s  %-18s  %s\n", "Attribute", "Local", "Peer", "------------", "--------", "--------")
	peer := func(v any) string {
		if !s.lab.inSync() {
			return ""
		}
		return fmt.Sprint(v)
	}
	ps := p.tree["system"]
	for _, row := range [][3]string{
		{"ISL link", refOne(s.vsx()["isl_port"]), peer(refOne(p.vsx()["isl_port"]))},
		{"ISL version", "2", peer(2)},
		{"System MAC", fmt.Sprint(sys["system_mac"]), peer(ps["system_mac"])},
		{"Platform", fmt.Sprint(sys["platform_name"]), peer(ps["platform_name"])},
		{"Software Version", fmt.Sprint(sys["software_version"]), peer(ps["software_version"])},
		{"Device Role", s.role(), peer(p.role())},
	} {
		b.WriteString(strings.TrimRight(fmt.Sprintf("%-18s  %-18s  %s", row[0], row[1], row[2]), " ") + "\n")
	}
	return b.String()
}

// shown is a state as the console prints it.
func shown(state any) string {
	words := strings.Split(fmt.Sprint(state), "_")
	for i, w := range words {
		words[i] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, "-")
}
