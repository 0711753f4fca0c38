package cluster

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/controllers/nodelifecycle"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kit"
	"github.com/kloop-dev/kloop/kit/whole"
)

func TestWantedLoops(t *testing.T) {
	table, err := whole.Kit().Loops(kit.Cluster{Kinds: kinds.NewSet()})
	if err != nil {
		t.Fatal(err)
	}
	const some, plain = "deployment replicaset volume-binder job selinux-warning", "deployment replicaset volume-binder job"
	tests := []struct{ asked, want, err string }{
		{"", plain, ""},
		{"*", plain, ""},
		{"* selinux-warning-controller", some, ""},
		{"selinux-warning", "selinux-warning", ""},
		{"* -deployment", "replicaset volume-binder job", ""},
		{"-deployment-controller *", "replicaset volume-binder job", ""},
		{"job-controller persistentvolume-binder-controller", "volume-binder job", ""},
		{"-job", "", ""},
		{"* -deploymnt", "", "did you mean deployment?"},
		{"job -job", "", "both on and off"},
		{"-*", "", `no controller "*"`},
	}
	for _, tt := range tests {
		t.Run(tt.asked, func(t *testing.T) {
			got, err := wantedLoops(table, strings.Fields(tt.asked))
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got %v, want %q in it", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			on := map[string]bool{}
			for _, e := range got {
				on[e.LoopName()] = true
			}
			for _, name := range strings.Fields(some) {
				if on[name] != strings.Contains(" "+tt.want+" ", " "+name+" ") {
					t.Errorf("%s runs: %v", name, on[name])
				}
			}
		})
	}
}

func TestChosen(t *testing.T) {
	all := admission.Chain{{Name: "A"}, {Name: "Bee"}, {Name: "C"}}
	tests := []struct{ on, off, want, err string }{
		{"", "", "A Bee C", ""},
		{"C A", "", "A Bee C", ""},
		{"", "Bee", "A C", ""},
		{"Beee", "", "", "did you mean Bee?"},
		{"A", "A", "", "both enabled and disabled"},
	}
	for _, tt := range tests {
		t.Run(tt.on, func(t *testing.T) {
			got, err := chosen(all, strings.Fields(tt.on), strings.Fields(tt.off))
			var list []string
			for _, p := range got {
				list = append(list, p.Name)
			}
			if (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) || strings.Join(list, " ") != tt.want {
				t.Errorf("on %q, off %q: %v, %v", tt.on, tt.off, list, err)
			}
		})
	}
}

// TestConfigRefusesWhatCantBeMeant starts nothing.
func TestConfigRefusesWhatCantBeMeant(t *testing.T) {
	prefix := netip.MustParsePrefix
	tests := []struct {
		name string
		cfg  Config
		err  string
	}{
		{"service range too small", Config{ServiceCIDRs: []netip.Prefix{prefix("10.0.0.0/30")}}, "too small"},
		{"two service ranges of a family",
			Config{ServiceCIDRs: []netip.Prefix{prefix("10.0.0.0/24"), prefix("10.1.0.0/24")}}, "one of IPv4"},
		{"node ports upside down", Config{NodePortLow: 40000, NodePortHigh: 39999}, "the lower port first"},
		{"pod range too small", Config{PodCIDRs: []netip.Prefix{prefix("10.0.0.0/25")}}, "/8 to /24"},
		{"pods and services of two families",
			Config{PodCIDRs: []netip.Prefix{prefix("fd00::/64")}}, "no addresses of the family of 10.96.0.0/16"},
		{"two pod ranges of a family",
			Config{PodCIDRs: []netip.Prefix{prefix("10.0.0.0/16"), prefix("10.1.0.0/16")}}, "one of IPv4 and one of IPv6"},
		{"one length for nodes of two families",
			Config{PodCIDRs: []netip.Prefix{prefix("10.0.0.0/16"), prefix("fd00::/56")}, NodeCIDRs: true, NodeCIDRBits: 24}, "say how long"},
		{"pod range with too many shares",
			Config{PodCIDRs: []netip.Prefix{prefix("10.0.0.0/16"), prefix("fd00::/40")}, NodeCIDRs: true}, "/64 of the pod range fd00::/40"},
		{"unknown authorization mode", Config{Authorization: []string{"RBAK"}}, "did you mean RBAC?"},
		{"authorization mode twice", Config{Authorization: []string{"RBAC", "RBAC"}}, "twice"},
		{"unknown feature", Config{Features: map[string]bool{"WatchLists": true}}, "did you mean WatchList?"},
		{"node monitor too fast", Config{NodeMonitorPeriod: time.Microsecond}, "100ms or more"},
		{"negative grace", Config{NodeMonitorGrace: -time.Second}, "negative"},
		{"certificate without its key", Config{ServingCert: "x"}, "needs its key"},
		{"proxy mode of old", Config{ProxyMode: "iptables"}, "use nftables"},
		{"unknown scheduler of IPVS", Config{ProxyMode: ProxyIPVS, ProxyScheduler: "lcc"}, "wlc"},
		{"negative timeout of IPVS", Config{ProxyMode: ProxyIPVS, IPVS: IPVS{UDPTimeout: -1}}, "negative"},
		{"IPVS with its feature gate off",
			Config{ProxyMode: ProxyIPVS, Features: map[string]bool{"KubeProxyIPVS": false}}, "feature gate"},
		{"IPVS settings in another mode", Config{IPVS: IPVS{LooseARP: true}}, "mode ipvs"},
		{"scheduler without a proxy", Config{ProxyMode: ProxyNone, ProxyScheduler: "rr"}, "needs its mode ipvs"},
		{"scheduler without IPVS", Config{ProxyScheduler: "rr"}, "needs its mode ipvs"},
		{"encryption without a store on disk", Config{EncryptionConfig: "x"}, "encrypts nothing"},
		{"unknown admission plugin", Config{AdmissionOn: []string{"AlwaysDeny"}}, "no plugins of admission"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := tt.cfg.withDefaults(); err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%+v: got %v, want %q in it", tt.cfg, err, tt.err)
			}
		})
	}
	if _, err := (Config{}).withDefaults(); err != nil {
		t.Errorf("the zero value: %v", err)
	}
}

func TestResyncOf(t *testing.T) {
	cfg := Config{NodeMonitorPeriod: 1, BinderPeriod: 3}
	for loop, want := range map[string]time.Duration{"node-lifecycle": 1, "volume-binder": 3, "volume-phase": 3, "job": 0} {
		t.Run(loop, func(t *testing.T) {
			if got := cfg.resync(loop); got != want {
				t.Errorf("%s: %d, want %d", loop, got, want)
			}
		})
	}
	known := map[string]bool{}
	table, err := whole.Kit().Loops(kit.Cluster{Kinds: kinds.NewSet()})
	if err != nil {
		t.Fatal(err)
	}
	if DefaultNodeGrace != nodelifecycle.DefaultGrace {
		t.Error("a node is lost after another time than its loop says")
	}
	for _, e := range table {
		known[e.LoopName()] = true
	}
	for _, loop := range []string{"node-lifecycle", "volume-binder", "volume-phase"} {
		if !known[loop] {
			t.Errorf("no loop is called %s", loop)
		}
	}
}
