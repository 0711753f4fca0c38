package loadbalancer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// poolOf reads "NAME: SPEC" in YAML.
func poolOf(t testing.TB, name, spec string) *pool {
	t.Helper()
	var s poolSpec
	if err := yaml.UnmarshalStrict([]byte(spec), &s); err != nil {
		t.Fatal(err)
	}
	return newPool(name, labels.Set{"pool": name}, s)
}

func notes(pairs ...string) func(*corev1.Service) {
	return func(s *corev1.Service) {
		s.Annotations = map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			s.Annotations[pairs[i]] = pairs[i+1]
		}
	}
}

func has(ips ...string) func(*corev1.Service) {
	return func(s *corev1.Service) {
		for _, ip := range ips {
			s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip})
		}
	}
}

func dual(policy corev1.IPFamilyPolicy, families ...corev1.IPFamily) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.IPFamilyPolicy, s.Spec.IPFamilies = &policy, families }
}

func edited(s *corev1.Service, list ...func(*corev1.Service)) *corev1.Service {
	for _, f := range list {
		f(s)
	}
	return s
}

func local(s *corev1.Service) {
	s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
}

// allocations say what the pools give: the names are those of MetalLB's documentation and tests.
var allocations = []struct {
	name     string
	pools    map[string]string
	services []*corev1.Service
	want     string
	says     string // part of the last message
}{
	{"the first free address", map[string]string{"a": "addresses: [192.0.2.0/30]"},
		[]*corev1.Service{service("x", 3, 80), service("y", 2, 80)}, "x: 192.0.2.0 PoolAddress\ny: 192.0.2.1 PoolAddress", "from the pool a"},
	{"no pool", nil, []*corev1.Service{service("x", 3, 80)}, "x:  NoPool", "there is no IPAddressPool"},
	{"a range, to its end", map[string]string{"a": "addresses: [192.0.2.7-192.0.2.8]"},
		[]*corev1.Service{service("x", 3, 80), service("y", 2, 80), service("z", 1, 80)},
		"x: 192.0.2.7 PoolAddress\ny: 192.0.2.8 PoolAddress\nz:  PoolExhausted", "no available IPs in a"},
	{"avoidBuggyIPs", map[string]string{"a": "addresses: [192.0.2.255-192.0.3.1]\navoidBuggyIPs: true"},
		[]*corev1.Service{service("x", 3, 80), service("y", 2, 80)}, "x: 192.0.3.1 PoolAddress\ny:  PoolExhausted", ""},
	{"autoAssign false is not used unasked", map[string]string{"a": "addresses: [192.0.2.0/24]\nautoAssign: false"},
		[]*corev1.Service{service("x", 3, 80)}, "x:  NoPool", "none of 1 IPAddressPools"},
	{"autoAssign false, asked for", map[string]string{"a": "addresses: [192.0.2.0/24]\nautoAssign: false"},
		[]*corev1.Service{edited(service("x", 3, 80), notes("metallb.io/address-pool", "a")),
			edited(service("y", 2, 80), notes("metallb.io/loadBalancerIPs", "192.0.2.9")),
			edited(service("z", 1, 80), notes("metallb.universe.tf/address-pool", "a"))},
		"x: 192.0.2.0 PoolAddress\ny: 192.0.2.9 PoolAddress\nz: 192.0.2.1 PoolAddress", ""},
	{"a pool that is not there", map[string]string{"a": "addresses: [192.0.2.0/24]"},
		[]*corev1.Service{edited(service("x", 3, 80), notes("metallb.io/address-pool", "b"))}, "x:  RequestRefused", `no pool "b"`},
	{"an address outside", map[string]string{"a": "addresses: [192.0.2.0/24]"},
		[]*corev1.Service{edited(service("x", 3, 80), notes("metallb.io/loadBalancerIPs", "10.0.0.1"))}, "x:  RequestRefused",
		"is in no one pool"},
	{"an address of another pool", map[string]string{"a": "addresses: [192.0.2.0/24]", "b": "addresses: [10.0.0.0/24]"},
		[]*corev1.Service{edited(service("x", 3, 80), notes("metallb.io/loadBalancerIPs", "10.0.0.1", "metallb.io/address-pool", "a"))},
		"x:  RequestRefused", "is in the pool b, not in a"},
	{"spec.loadBalancerIP", map[string]string{"a": "addresses: [192.0.2.0/24]"},
		[]*corev1.Service{edited(service("x", 3, 80), func(s *corev1.Service) { s.Spec.LoadBalancerIP = "192.0.2.5" })},
		"x: 192.0.2.5 PoolAddress", ""},
	{"both ways to ask", map[string]string{"a": "addresses: [192.0.2.0/24]"}, []*corev1.Service{edited(service("x", 3, 80),
		func(s *corev1.Service) { s.Spec.LoadBalancerIP = "192.0.2.5" }, func(s *corev1.Service) {
			s.Annotations = map[string]string{"metallb.io/loadBalancerIPs": "192.0.2.5"}
		})}, "x:  RequestRefused", "exclude each other"},
	{"no address at all", map[string]string{"a": "addresses: [192.0.2.0/24]"},
		[]*corev1.Service{edited(service("x", 3, 80), notes("metallb.io/loadBalancerIPs", "web.example"))}, "x:  RequestRefused",
		"is no IP address"},
	{"an address in use", map[string]string{"a": "addresses: [192.0.2.0/24]"},
		[]*corev1.Service{service("x", 3, 80), edited(service("y", 2, 81), notes("metallb.io/loadBalancerIPs", "192.0.2.0"))},
		"x: 192.0.2.0 PoolAddress\ny:  RequestRefused", "in use by default/x"},
	{"shared", map[string]string{"a": "addresses: [192.0.2.0/32]"},
		[]*corev1.Service{edited(service("x", 3, 80), notes("metallb.io/allow-shared-ip", "k")),
			edited(service("y", 2, 81), notes("metallb.io/allow-shared-ip", "k"))},
		"x: 192.0.2.0 PoolAddress\ny: 192.0.2.0 PoolAddress", ""},
	{"shared, the same port", map[string]string{"a": "addresses: [192.0.2.0/32]"},
		[]*corev1.Service{edited(service("x", 3, 80), notes("metallb.io/allow-shared-ip", "k")),
			edited(service("y", 2, 80), notes("metallb.io/allow-shared-ip", "k", "metallb.io/loadBalancerIPs", "192.0.2.0"))},
		"x: 192.0.2.0 PoolAddress\ny:  RequestRefused", "has port 80/TCP too"},
	{"shared, another key", map[string]string{"a": "addresses: [192.0.2.0/32]"},
		[]*corev1.Service{edited(service("x", 3, 80), notes("metallb.io/allow-shared-ip", "k")),
			edited(service("y", 2, 81), notes("metallb.io/allow-shared-ip", "l"))}, "x: 192.0.2.0 PoolAddress\ny:  PoolExhausted", ""},
	{"shared, Local with other backends", map[string]string{"a": "addresses: [192.0.2.0/32]"},
		[]*corev1.Service{edited(service("x", 3, 80), notes("metallb.io/allow-shared-ip", "k")),
			edited(service("y", 2, 81), local, func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "y"} },
				notes("metallb.io/allow-shared-ip", "k", "metallb.io/loadBalancerIPs", "192.0.2.0"))},
		"x: 192.0.2.0 PoolAddress\ny:  RequestRefused", "has other backends"},
	{"what it has it keeps, before others get anything", map[string]string{"a": "addresses: [192.0.2.0/31]"},
		[]*corev1.Service{service("old", 9, 80), edited(service("young", 1, 80), has("192.0.2.0"))},
		"young: 192.0.2.0 PoolAddress\nold: 192.0.2.1 PoolAddress", ""},
	{"the pool is another now", map[string]string{"a": "addresses: [10.0.0.0/24]"},
		[]*corev1.Service{edited(service("x", 3, 80), has("192.0.2.0"))}, "x: 10.0.0.0 PoolAddress", ""},
	{"two have one address", map[string]string{"a": "addresses: [192.0.2.0/24]"},
		[]*corev1.Service{edited(service("x", 3, 80), has("192.0.2.5")), edited(service("y", 2, 80), has("192.0.2.5"))},
		"x: 192.0.2.5 PoolAddress\ny: 192.0.2.0 PoolAddress", ""},
	{"it asks for another now", map[string]string{"a": "addresses: [192.0.2.0/24]"},
		[]*corev1.Service{edited(service("x", 3, 80), has("192.0.2.5"), notes("metallb.io/loadBalancerIPs", "192.0.2.6"))},
		"x: 192.0.2.6 PoolAddress", ""},
	{"priority", map[string]string{"a": "addresses: [10.0.1.0/24]\nserviceAllocation: {priority: 0, namespaces: [default]}",
		"b": "addresses: [10.0.2.0/24]\nserviceAllocation: {priority: 20, namespaces: [default]}",
		"c": "addresses: [10.0.3.0/32]\nserviceAllocation: {priority: 10, namespaces: [default]}", "d": "addresses: [10.0.4.0/24]"},
		[]*corev1.Service{service("x", 3, 80), service("y", 2, 80)}, "x: 10.0.3.0 PoolAddress\ny: 10.0.2.0 PoolAddress", ""},
	{"pinned to another namespace", map[string]string{"a": "addresses: [10.0.1.0/24]\nserviceAllocation: {namespaces: [other]}"},
		[]*corev1.Service{service("x", 3, 80)}, "x:  NoPool", ""},
	{"pinned to another namespace, asked for", map[string]string{"a": "addresses: [10.0.1.0/24]\nserviceAllocation: {namespaces: [other]}"},
		[]*corev1.Service{edited(service("x", 3, 80), notes("metallb.io/address-pool", "a"))}, "x:  RequestRefused", "is not for this service"},
	{"by namespace selector", map[string]string{
		"a": "addresses: [10.0.1.0/24]\nserviceAllocation: {namespaces: [other], namespaceSelectors: [{matchLabels: {team: red}}]}"},
		[]*corev1.Service{service("x", 3, 80)}, "x: 10.0.1.0 PoolAddress", ""},
	{"by service selectors, any of them", map[string]string{
		"a": "addresses: [10.0.1.0/24]\nserviceAllocation: {serviceSelectors: [{matchLabels: {app: a}}, {matchLabels: {app: b}}]}"},
		[]*corev1.Service{edited(service("x", 3, 80), func(s *corev1.Service) { s.Labels = map[string]string{"app": "b"} }), service("y", 2, 80)},
		"x: 10.0.1.0 PoolAddress\ny:  NoPool", ""},
	{"IPv6", map[string]string{"a": "addresses: [10.0.1.0/24, 'fd00::/64']"},
		[]*corev1.Service{edited(service("x", 3, 80), dual("SingleStack", corev1.IPv6Protocol))}, "x: fd00:: PoolAddress", ""},
	{"no pool of the family", map[string]string{"a": "addresses: [10.0.1.0/24]"},
		[]*corev1.Service{edited(service("x", 3, 80), dual("SingleStack", corev1.IPv6Protocol))}, "x:  PoolExhausted", ""},
	{"RequireDualStack", map[string]string{"a": "addresses: [10.0.1.0/24]", "b": "addresses: [10.0.2.0/24, 'fd00::/64']"},
		[]*corev1.Service{edited(service("x", 3, 80), dual("RequireDualStack", corev1.IPv6Protocol, corev1.IPv4Protocol))},
		"x: fd00:: 10.0.2.0 PoolAddress", ""},
	{"RequireDualStack, one family", map[string]string{"a": "addresses: [10.0.1.0/24]"},
		[]*corev1.Service{edited(service("x", 3, 80), dual("RequireDualStack", corev1.IPv6Protocol, corev1.IPv4Protocol))},
		"x:  PoolExhausted", ""},
	{"PreferDualStack, one family", map[string]string{"a": "addresses: [10.0.1.0/24]"},
		[]*corev1.Service{edited(service("x", 3, 80), dual("PreferDualStack", corev1.IPv6Protocol, corev1.IPv4Protocol))},
		"x: 10.0.1.0 PoolAddress", ""},
	{"overlap: the first by name gives", map[string]string{"a": "addresses: [10.0.1.0/24]", "b": "addresses: [10.0.1.128-10.0.2.1]"},
		[]*corev1.Service{edited(service("x", 3, 80), notes("metallb.io/loadBalancerIPs", "10.0.1.200")),
			edited(service("y", 2, 80), notes("metallb.io/address-pool", "b"))}, "x: 10.0.1.200 PoolAddress\ny:  RequestRefused", ""},
	{"nonsense in a pool", map[string]string{"a": "addresses: [10.0.1.9-10.0.1.1]"}, []*corev1.Service{service("x", 3, 80)},
		"x:  NoPool", "is no range"},
}

func TestAllocation(t *testing.T) {
	for _, tt := range allocations {
		t.Run(tt.name, func(t *testing.T) {
			w := &world{mode: Pools, services: tt.services, ends: map[*corev1.Service]backends{},
				spaces: map[string]labels.Set{"default": {"team": "red"}}}
			for name, spec := range tt.pools {
				w.pools = append(w.pools, poolOf(t, name, spec))
			}
			w.sort()
			got := fromPools(w)
			if lines(got) != tt.want || !strings.Contains(got[len(got)-1].address.says, tt.says) {
				t.Errorf("got\n%s (%s), want\n%s (%s)", lines(got), got[len(got)-1].address.says, tt.want, tt.says)
			}
		})
	}
}

// TestNoAddressTwice: however many services there are, and whatever they had before, no two that do not share have one address.
func TestNoAddressTwice(t *testing.T) {
	w := &world{mode: Pools, ends: map[*corev1.Service]backends{}, pools: []*pool{poolOf(t, "a", "addresses: [10.0.0.0/21, 'fd00::/64']")}}
	for i := range 3000 {
		s := service(fmt.Sprint("s", i), i%7, 80)
		if i%3 == 0 {
			has(fmt.Sprintf("10.0.%d.%d", i%8, i%256))(s)
		}
		w.services = append(w.services, s)
	}
	w.sort()
	seen, given := map[string]bool{}, 0
	for _, d := range fromPools(w) {
		for _, ip := range d.ips {
			if seen[ip] {
				t.Fatalf("%s is given twice", ip)
			}
			seen[ip] = true
			given++
		}
	}
	if given != 2048 || w.pools[0].want != (poolStatus{AssignedIPv4: 2048, AvailableIPv6: 1<<63 - 1}) {
		t.Errorf("%d addresses are given of 2048, %+v", given, w.pools[0].want)
	}
}

func TestAnnounce(t *testing.T) {
	three := func() []*corev1.Node {
		list := []*corev1.Node{node("a", "", "10.0.0.1"), node("b", "", "10.0.0.2"), node("c", "", "10.0.0.3")}
		list[2].Labels["rack"] = "far"
		return list
	}
	for _, tt := range []struct {
		name    string
		adverts []string // "bgp " before the spec: a BGPAdvertisement
		edit    func(s *corev1.Service, w *world)
		on      string
		want    string // address, candidates sorted by name with interfaces, and the reason
	}{
		{"no advertisement", nil, nil, "a", "192.0.2.0: NoAdvertisement"},
		{"an empty one is for all", []string{"{}"}, nil, "a", "192.0.2.0: a b c Candidates"},
		{"another pool", []string{"ipAddressPools: [other]"}, nil, "a", "192.0.2.0: NoAdvertisement"},
		{"the pool by label", []string{"ipAddressPoolSelectors: [{matchLabels: {pool: p}}]"}, nil, "a", "192.0.2.0: a b c Candidates"},
		{"node selectors", []string{"nodeSelectors: [{matchLabels: {rack: far}}]"}, nil, "a", "192.0.2.0: c Candidates"},
		{"no node selected", []string{"nodeSelectors: [{matchLabels: {rack: moon}}]"}, nil, "a", "192.0.2.0: NoNode"},
		{"service selectors", []string{"serviceSelectors: [{matchLabels: {app: other}}]"}, nil, "a", "192.0.2.0: NoAdvertisement"},
		{"service selectors and sharing", []string{"serviceSelectors: [{}]"},
			func(s *corev1.Service, _ *world) { notes("metallb.io/allow-shared-ip", "k")(s) }, "a", "192.0.2.0: SharedWithSelector"},
		{"interfaces", []string{"{interfaces: [eth1], nodeSelectors: [{matchLabels: {rack: far}}]}", "interfaces: [eth0]"}, nil, "a",
			"192.0.2.0: a[eth0] b[eth0] c[eth0 eth1] Candidates"},
		{"one advertisement has all interfaces", []string{"{}", "interfaces: [eth0]"}, nil, "a", "192.0.2.0: a b c Candidates"},
		{"no endpoint", []string{"{}"}, nil, "", "192.0.2.0: NoEndpoint"},
		{"Local", []string{"{}"}, func(s *corev1.Service, _ *world) { local(s) }, "b c", "192.0.2.0: b c Candidates"},
		{"Local, only on a node that is not selected", []string{"nodeSelectors: [{matchLabels: {rack: far}}]"},
			func(s *corev1.Service, _ *world) { local(s) }, "b", "192.0.2.0: NoLocalEndpoint"},
		{"excluded, unavailable, not ready", []string{"{}"}, func(_ *corev1.Service, w *world) {
			w.nodes[0].Labels[corev1.LabelNodeExcludeBalancers] = ""
			w.nodes[1].Status.Conditions = append(w.nodes[1].Status.Conditions,
				corev1.NodeCondition{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue})
			w.nodes[2].Status.Conditions = nil
		}, "a", "192.0.2.0: NoNode"},
		{"cordoned nodes take part", []string{"{}"}, func(_ *corev1.Service, w *world) { w.nodes[0].Spec.Unschedulable = true }, "a",
			"192.0.2.0: a b c Candidates"},
		{"BGP only", []string{"bgp {}"}, nil, "a", "192.0.2.0: NoPeer"},
		{"BGP beside", []string{"bgp {}", "{}"}, nil, "a", "192.0.2.0: a b c Candidates"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := service("web", 1, 80)
			w := &world{mode: Pools, services: []*corev1.Service{s}, nodes: three(), pools: []*pool{poolOf(t, "p", "addresses: [192.0.2.0/24]")}}
			w.ends = map[*corev1.Service]backends{s: {tt.on != "", strings.Fields(tt.on)}}
			for i, text := range tt.adverts {
				text, bgp := strings.CutPrefix(text, "bgp ")
				var spec advertSpec
				if err := yaml.UnmarshalStrict([]byte(text), &spec); err != nil {
					t.Fatal(err)
				}
				w.adverts = append(w.adverts, newAdvert(fmt.Sprint("ad", i), bgp || strings.Contains(tt.adverts[i], "bgp"), spec, nil))
			}
			if tt.edit != nil {
				tt.edit(s, w)
			}
			list, out, _ := plan(w)
			var names []string
			for _, c := range out[0].candidates {
				if len(c.Interfaces) > 0 {
					c.Node += fmt.Sprint(c.Interfaces)
				}
				names = append(names, c.Node)
			}
			if got := fmt.Sprintf("%s: %s", out[0].address, strings.Join(append(slices.Sorted(slices.Values(names)), list[0].announced.reason),
				" ")); got != tt.want {
				t.Errorf("%s (%s), want %s", got, list[0].announced.says, tt.want)
			}
		})
	}
}

// TestOrderOfCandidates: weights decide, then a hash, whatever the order in which nodes came.
func TestOrderOfCandidates(t *testing.T) {
	s := service("web", 1, 80)
	order := func(nodes ...*corev1.Node) (names []string) {
		w := &world{mode: Pools, services: []*corev1.Service{s}, nodes: nodes, pools: []*pool{poolOf(t, "p", "addresses: [192.0.2.0/24]")},
			ends: map[*corev1.Service]backends{s: {any: true}}}
		var spec advertSpec
		if err := yaml.UnmarshalStrict([]byte("preferredNodeSelectors: [{weight: 10, preference: {matchLabels: {fast: 'yes'}}}]"),
			&spec); err != nil {
			t.Fatal(err)
		}
		w.adverts = []*advert{newAdvert("ad", false, spec, nil)}
		_, out, _ := plan(w)
		for _, c := range out[0].candidates {
			names = append(names, c.Node)
		}
		return names
	}
	a, b, c := node("a", "", "10.0.0.1"), node("b", "", "10.0.0.2"), node("c", "", "10.0.0.3")
	first := order(a, b, c)
	if again := order(c, b, a); fmt.Sprint(again) != fmt.Sprint(first) {
		t.Errorf("%v, then %v", first, again)
	}
	last := map[string]*corev1.Node{"a": a, "b": b, "c": c}[first[2]]
	last.Labels["fast"] = "yes"
	if now := order(a, b, c); now[0] != last.Name {
		t.Errorf("%v, but %s is preferred", now, last.Name)
	}
	var many []*corev1.Node
	for i := range 100 {
		many = append(many, node(fmt.Sprint("n", i), "", fmt.Sprint("10.0.1.", i)))
	}
	if got := order(many...); len(got) != mostCandidates {
		t.Errorf("%d candidates", len(got))
	}
}

func TestDefinitions(t *testing.T) {
	list, err := definitions()
	if err != nil || len(list) != 8 {
		t.Fatalf("%d definitions, %v", len(list), err)
	}
	for _, d := range list {
		if !isDefinition(d.Name) || d.Name != d.Spec.Names.Plural+"."+d.Spec.Group {
			t.Errorf("%s", d.Name)
		}
	}
}
