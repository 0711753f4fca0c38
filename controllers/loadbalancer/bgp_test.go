package loadbalancer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/kinds/wellknown"
)

func peerOf(t *testing.T, name, text string) *peer {
	t.Helper()
	var spec peerSpec
	if err := yaml.UnmarshalStrict([]byte(text), &spec); err != nil {
		t.Fatal(err)
	}
	return newPeer(name, spec, func(name string) *corev1.Secret {
		switch name {
		case "good":
			return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "7"}, Type: corev1.SecretTypeBasicAuth,
				Data: map[string][]byte{"password": []byte("secret")}}
		case "opaque":
			return &corev1.Secret{Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"password": []byte("secret")}}
		}
		return nil
	})
}

// TestPeers: each field of a BGPPeer is read, or the peer says what is wrong with it.
func TestPeers(t *testing.T) {
	const least = "myASN: 64512\npeerASN: 64513\npeerAddress: 10.0.0.1\n"
	for _, tt := range []struct{ name, spec, want string }{ // the peer as JSON, or a part of why it is broken
		{"the least", least, `{"name":"tor","address":"10.0.0.1","myAS":64512,"peerAS":64513}`},
		{"all", least + "peerPort: 1790\nsourceAddress: 10.0.0.9\nrouterID: 1.1.1.1\nebgpMultiHop: true\nenableGracefulRestart: true\n" +
			"dualStackAddressFamily: true\nholdTime: 30s\nkeepaliveTime: 5s\nconnectTime: 2s\npassword: x\n",
			`{"name":"tor","address":"10.0.0.1","port":1790,"myAS":64512,"peerAS":64513,"source":"10.0.0.9","routerID":"1.1.1.1",` +
				`"multiHop":true,"graceful":true,"both":true,"hold":30000,"keepalive":5000,"connect":2000,"password":"x"}`},
		{"any of the same AS", "myASN: 5\ndynamicASN: internal\npeerAddress: 'fd00::1'",
			`{"name":"tor","address":"fd00::1","myAS":5,"internal":true}`},
		{"no hold time", least + "holdTime: 0s", `{"name":"tor","address":"10.0.0.1","myAS":64512,"peerAS":64513,"hold":-1}`},
		{"a secret", least + "passwordSecret: {name: good}",
			`{"name":"tor","address":"10.0.0.1","myAS":64512,"peerAS":64513,"secret":"good","secretVersion":"7"}`},
		{"no secret", least + "passwordSecret: {name: lost}", "there is no Secret metallb-system/lost"},
		{"an opaque secret", least + "passwordSecret: {name: opaque}", "not of the type kubernetes.io/basic-auth"},
		{"a secret elsewhere", least + "passwordSecret: {name: good, namespace: default}", "must be in the namespace"},
		{"two passwords", least + "password: x\npasswordSecret: {name: good}", "exclude each other"},
		{"both ways to say the AS", least + "dynamicASN: external", "not both"},
		{"no AS", "myASN: 1\npeerAddress: 10.0.0.1", "needs peerASN or dynamicASN"},
		{"no own AS", "myASN: 0\npeerASN: 1\npeerAddress: 10.0.0.1", "myASN is 0"},
		{"no address", "myASN: 1\npeerASN: 1", "is no IP address"},
		{"a source of the other family", least + "sourceAddress: 'fd00::1'", "family of peerAddress"},
		{"a router ID of IPv6", least + "routerID: 'fd00::1'", "is no IPv4 address"},
		{"a short hold time", least + "holdTime: 2s", "holdTime 2s"},
		{"a long keepalive", least + "holdTime: 9s\nkeepaliveTime: 10s", "keepaliveTime 10s"},
		{"a short pause", least + "connectTime: 1ms", "connectTime 1ms"},
		{"BFD", least + "bfdProfile: fast", "kloop speaks no BFD"},
		{"VRF", least + "vrf: red", "no VRFs"},
		{"unnumbered", "myASN: 1\npeerASN: 1\ninterface: eth0", "set peerAddress"},
		{"another AS than to others", least + "localASN: 4", `{"name":"tor","address":"10.0.0.1","myAS":4,"peerAS":64513}`},
		{"the same, of a router of any AS", "myASN: 5\ndynamicASN: external\nlocalASN: 4\npeerAddress: 10.0.0.1",
			`{"name":"tor","address":"10.0.0.1","myAS":4}`},
		{"the router's AS as ours", least + "localASN: 64513", "localASN is for routers of another AS"},
		{"another AS to our own", "myASN: 5\npeerASN: 5\nlocalASN: 4\npeerAddress: 10.0.0.1", "localASN is for routers of another AS"},
		{"another AS to any of our own", "myASN: 5\ndynamicASN: internal\nlocalASN: 4\npeerAddress: 10.0.0.1",
			"localASN is for routers of another"},
		{"a bad selector", least + "nodeSelectors: [{matchExpressions: [{key: a, operator: Like}]}]", "selector"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := peerOf(t, "tor", tt.spec)
			text, err := json.Marshal(p.BGPPeer)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(tt.want, "{") && (string(text) != tt.want || p.broken != "") || !strings.HasPrefix(tt.want, "{") &&
				!strings.Contains(p.broken, tt.want) {
				t.Errorf("%s: %s, %q, want %s", tt.name, text, p.broken, tt.want)
			}
		})
	}
	twice := []*peer{peerOf(t, "b", least), peerOf(t, "a", least), peerOf(t, "c", least+"peerPort: 1790")}
	only(twice)
	if twice[0].broken+twice[2].broken != "" || !strings.Contains(twice[1].broken, "the BGPPeer a has the same address") {
		t.Errorf("%q, %q, %q", twice[0].broken, twice[1].broken, twice[2].broken)
	}
}

func TestCommunities(t *testing.T) {
	names := map[string]string{"no-export": "65535:65281", "wide": "large:1:2:4294967295", "odd": "x"}
	for _, tt := range []struct{ words, want string }{
		{"64512:7", "[4227858439] []"}, {"large:1:2:3", "[] [[1 2 3]]"}, {"no-export,wide", "[4294967041] [[1 2 4294967295]]"},
		{"65536:1", "no A:B"}, {"1:2:3", "no A:B"}, {"large:1:2", "no A:B"}, {"odd", "no A:B"}, {"unknown", "no A:B"}, {"1:-1", "no A:B"},
		{strings.Repeat("1:1,", 60) + "1:1", "more than 60"},
	} {
		t.Run(tt.words, func(t *testing.T) {
			plain, large, err := communities(strings.Split(tt.words, ","), names)
			if got := fmt.Sprint(plain, large, err); !strings.Contains(got, tt.want) {
				t.Errorf("%s: %s, want %s", tt.words, got, tt.want)
			}
		})
	}
}

// TestRoutes: which node tells which peers the way to a service, and what the service says of it.
func TestRoutes(t *testing.T) {
	const tor = "myASN: 64512\npeerASN: 64513\npeerAddress: 10.0.0.1\n"
	up := func(nodes ...string) func(*corev1.Service, *world) {
		return func(_ *corev1.Service, w *world) {
			for _, n := range nodes {
				w.sessions[n] = map[string]wellknown.BGPSession{"p0": {Established: true}, "p1": {Established: true}}
			}
		}
	}
	all := func(steps ...func(*corev1.Service, *world)) func(*corev1.Service, *world) {
		return func(s *corev1.Service, w *world) {
			for _, f := range steps {
				f(s, w)
			}
		}
	}
	for _, tt := range []struct {
		name    string
		adverts []string // BGPAdvertisements; "l2 " before the spec: an L2Advertisement
		peers   []string
		edit    func(s *corev1.Service, w *world)
		on      string
		want    string // the routes of each node that has a plan, the reason
		says    string
	}{
		{"all nodes", []string{"{}"}, []string{tor}, up("a", "b", "c"), "a",
			"a:192.0.2.9/32>p0 b:192.0.2.9/32>p0 c:192.0.2.9/32>p0 Routes", "3 BGP sessions have the way to it"},
		{"one session is down", []string{"{}"}, []string{tor}, up("a", "b"), "a",
			"a:192.0.2.9/32>p0 b:192.0.2.9/32>p0 c:192.0.2.9/32>p0 Routes", "2 of 3 BGP sessions have the way to it; node c, BGPPeer p0"},
		{"no session", []string{"{}"}, []string{tor}, func(_ *corev1.Service, w *world) {
			w.sessions["a"] = map[string]wellknown.BGPSession{"p0": {Trouble: "connection refused"}}
		}, "a", "a:192.0.2.9/32>p0 b:192.0.2.9/32>p0 c:192.0.2.9/32>p0 NoSession", "node a, BGPPeer p0: connection refused"},
		{"a node that is not ready keeps its routes", []string{"{}"}, []string{tor}, all(up("a", "b", "c"),
			func(_ *corev1.Service, w *world) { w.nodes[0].Status.Conditions = nil }), "a",
			"a:192.0.2.9/32>p0 b:192.0.2.9/32>p0 c:192.0.2.9/32>p0 Routes", "node a, BGPPeer p0: the node is not ready"},
		{"no peer", []string{"{}"}, nil, nil, "a", "NoPeer", "there is no BGPPeer"},
		{"a broken peer", []string{"{}"}, []string{tor + "bfdProfile: x"}, nil, "a", "NoPeer",
			"BGPPeer p0 can't be used: kloop speaks no BFD"},
		{"a peer of some nodes", []string{"{}"}, []string{tor + "nodeSelectors: [{matchLabels: {rack: far}}]"}, up("c"), "a",
			"c:192.0.2.9/32>p0 Routes", ""},
		{"an advertisement of some nodes", []string{"nodeSelectors: [{matchLabels: {rack: far}}]"}, []string{tor}, up("a", "b", "c"), "a",
			"a: b: c:192.0.2.9/32>p0 Routes", ""},
		{"peers by name", []string{"peers: [p1]"}, []string{tor, strings.Replace(tor, "0.1", "0.2", 1)}, up("a", "b", "c"), "a",
			"a:192.0.2.9/32>p1 b:192.0.2.9/32>p1 c:192.0.2.9/32>p1 Routes", ""},
		{"peers that are not there", []string{"peers: [other]"}, []string{tor}, up("a"), "a", "a: b: c: NoPeer", "no BGPPeer is for ad0"},
		{"Local", []string{"{}"}, []string{tor}, all(up("a", "b", "c"), func(s *corev1.Service, _ *world) { local(s) }), "b",
			"a: b:192.0.2.9/32>p0 c: Routes", ""},
		{"Local, none there", []string{"{}"}, []string{tor}, func(s *corev1.Service, _ *world) { local(s) }, "other",
			"a: b: c: NoLocalEndpoint", ""},
		{"no endpoint", []string{"{}"}, []string{tor}, nil, "", "a: b: c: NoEndpoint", ""},
		{"excluded and unavailable", []string{"{}"}, []string{tor}, all(up("a", "b", "c"), func(_ *corev1.Service, w *world) {
			w.nodes[0].Labels[corev1.LabelNodeExcludeBalancers] = ""
			w.nodes[1].Status.Conditions = append(w.nodes[1].Status.Conditions,
				corev1.NodeCondition{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue})
		}), "a", "a: b: c:192.0.2.9/32>p0 Routes", ""},
		{"an aggregate", []string{"aggregationLength: 30\nlocalPref: 5\ncommunities: ['1:1']", "communities: ['1:2', 'large:1:2:3']"},
			[]string{tor + "nodeSelectors: [{matchLabels: {rack: far}}]"}, up("c"), "a",
			"c:192.0.2.8/30>p0 5 [65537] 192.0.2.9/32>p0 [65538] [[1 2 3]] Routes", ""},
		{"two advertisements of one prefix", []string{"localPref: 5\ncommunities: ['1:1']", "localPref: 6\ncommunities: ['1:2']"},
			[]string{tor + "nodeSelectors: [{matchLabels: {rack: far}}]"}, up("c"), "a", "c:192.0.2.9/32>p0 5 [65537 65538] Routes", ""},
		{"an aggregate beyond the pool", []string{"aggregationLength: 23"}, []string{tor}, up("a"), "a", "a: b: c: AggregateTooWide",
			"192.0.2.0/23, which reaches beyond"},
		{"a family that the session does not carry", []string{"{}"}, []string{strings.Replace(tor, "10.0.0.1", "'fd00::1'", 1)},
			up("a"), "a",
			"a: b: c: NoPeer", "set dualStackAddressFamily"},
		{"both families", []string{"{}"}, []string{strings.Replace(tor, "10.0.0.1", "'fd00::1'", 1) +
			"dualStackAddressFamily: true\nnodeSelectors: [{matchLabels: {rack: far}}]"}, up("c"), "a", "c:192.0.2.9/32>p0 Routes", ""},
		{"an unknown community", []string{"communities: [x]"}, []string{tor}, nil, "a", "a: b: c: NoAdvertisement", `the community "x"`},
		{"layer 2 beside", []string{"l2 {}", "{}"}, []string{tor + "nodeSelectors: [{matchLabels: {rack: far}}]"}, nil, "a",
			"c:192.0.2.9/32>p0 Candidates", "by BGP: none of 1 BGP sessions is up"},
		{"layer 2 fails", []string{"l2 nodeSelectors: [{matchLabels: {rack: moon}}]", "{}"},
			[]string{tor + "nodeSelectors: [{matchLabels: {rack: far}}]"}, up("c"), "a", "c:192.0.2.9/32>p0 Routes",
			"by layer 2: none of 3 nodes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := service("web", 1, 80)
			notes("metallb.io/loadBalancerIPs", "192.0.2.9")(s)
			w := &world{mode: Pools, services: []*corev1.Service{s}, pools: []*pool{poolOf(t, "p", "addresses: [192.0.2.0/24]")},
				nodes:    []*corev1.Node{node("a", "", "10.0.0.1"), node("b", "", "10.0.0.2"), node("c", "", "10.0.0.3")},
				sessions: map[string]map[string]wellknown.BGPSession{}}
			w.nodes[2].Labels["rack"] = "far"
			w.ends = map[*corev1.Service]backends{s: {tt.on != "", strings.Fields(tt.on)}}
			for i, text := range tt.adverts {
				text, l2 := strings.CutPrefix(text, "l2 ")
				var spec advertSpec
				if err := yaml.UnmarshalStrict([]byte(text), &spec); err != nil {
					t.Fatal(err)
				}
				w.adverts = append(w.adverts, newAdvert(fmt.Sprint("ad", i), !l2, spec, nil))
			}
			for i, text := range tt.peers {
				w.peers = append(w.peers, peerOf(t, fmt.Sprint("p", i), text))
			}
			if tt.edit != nil {
				tt.edit(s, w)
			}
			list, _, spoken := plan(w)
			if got := spokenText(spoken.plans(w)) + list[0].announced.reason; got != tt.want ||
				!strings.Contains(list[0].announced.says, tt.says) {
				t.Errorf("%s (%s), want %s (%s)", got, list[0].announced.says, tt.want, tt.says)
			}
		})
	}
}

func spokenText(plans map[string]wellknown.BGPPlan) string {
	var words []string
	for node, p := range plans {
		text := ""
		for _, r := range p.Routes {
			text += " " + strings.Join(r.Prefixes, ",") + ">" + r.Peer
			if r.LocalPref > 0 {
				text += fmt.Sprint(" ", r.LocalPref)
			}
			if len(r.Communities) > 0 {
				text += fmt.Sprint(" ", r.Communities)
			}
			if len(r.Large) > 0 {
				text += fmt.Sprint(" ", r.Large)
			}
		}
		words = append(words, node+":"+strings.TrimPrefix(text, " ")+" ")
	}
	slices.Sort(words)
	return strings.Join(words, "")
}

// TestPlanFits: what a node may have to announce at most fits into an annotation, which has 256 KiB with all others.
func TestPlanFits(t *testing.T) {
	w := &world{mode: Pools, ends: map[*corev1.Service]backends{}, nodes: []*corev1.Node{node("a", "", "10.0.0.1")},
		pools: []*pool{poolOf(t, "p", "addresses: ['fd00:1234:5678:9abc:def0:1234:5678:0/112']")}}
	for i := range 8 {
		w.peers = append(w.peers, peerOf(t, fmt.Sprint("peer-with-a-name-", i), fmt.Sprint("myASN: 1\npeerASN: 2\npeerAddress: 'fd00::",
			i, "'")))
	}
	var spec advertSpec
	w.adverts = []*advert{newAdvert("ad", true, spec, nil)}
	for i := range mostRoutes + 100 {
		s := edited(service(fmt.Sprint("s", i), i, 80), dual("SingleStack", corev1.IPv6Protocol))
		w.services = append(w.services, s)
		w.ends[s] = backends{any: true}
	}
	list, _, spoken := plan(w)
	text, err := json.Marshal(spoken.plans(w)["a"])
	if err != nil || len(text) > 200<<10 || len(spoken.ways["a"]) != mostRoutes {
		t.Errorf("%d octets, %d routes, %v", len(text), len(spoken.ways["a"]), err)
	}
	if v := list[len(list)-1].announced; !strings.Contains(v.says, "which is the most") {
		t.Errorf("%+v", v)
	}
}
