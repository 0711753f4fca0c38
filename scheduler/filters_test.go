package scheduler

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestFilters decides one pod on a site of a few nodes: where it goes, or what the message says.
func TestFilters(t *testing.T) {
	labelled := []*corev1.Node{node("n1", "zone: a, disk: ssd, num: '3'", ""), node("n2", "zone: b", "")}
	cordoned := []*corev1.Node{node("n1", "",
		"spec: {unschedulable: true, taints: [{key: node.kubernetes.io/unschedulable, effect: NoSchedule}]}")}
	taints := []*corev1.Node{
		node("n1", "", "spec: {taints: [{key: a, value: x, effect: NoSchedule}]}"),
		node("n2", "", "spec: {taints: [{key: b, effect: NoExecute}, {key: c, effect: PreferNoSchedule}]}"),
	}
	small := []*corev1.Node{node("n1", "", "")}
	able := []*corev1.Node{node("able", "", "")}
	able[0].Status.DeclaredFeatures = []string{"Other", "UserNamespacesHostNetworkSupport"}
	for _, test := range []struct {
		name       string
		nodes      []*corev1.Node
		asks, spec string
		want       string
	}{
		{"none", nil, "", "", "no nodes available to schedule pods"},
		{"plain", small, "", "", "n1"},
		{"cordoned", cordoned, "", "", "0/1 nodes are available: 1 node(s) were unschedulable."},
		{"cordoned, tolerated", cordoned, "", "tolerations: [{key: node.kubernetes.io/unschedulable, operator: Exists}]", "n1"},
		{"tainted", taints, "", "", "0/2 nodes are available: 2 node(s) had untolerated taint(s)."},
		{"taint tolerated by value", taints, "", "tolerations: [{key: a, value: x, effect: NoSchedule}]", "n1"},
		{"taint of another value", taints, "", "tolerations: [{key: a, value: y}]",
			"0/2 nodes are available: 2 node(s) had untolerated taint(s)."},
		{"taint of another effect", taints, "", "tolerations: [{key: b, operator: Exists, effect: NoSchedule}]",
			"0/2 nodes are available: 2 node(s) had untolerated taint(s)."},
		{"taint tolerated by key", taints, "", "tolerations: [{key: b, operator: Exists}]", "n2"},
		{"all tolerated, fewer soft taints win", taints, "", "tolerations: [{key: a, operator: Exists}, {key: b, operator: Exists}]", "n1"},
		{"selector", labelled, "", "nodeSelector: {zone: b}", "n2"},
		{"selector of nothing", labelled, "", "nodeSelector: {zone: c}",
			"0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."},
		{"affinity absent", labelled, "", required("{key: disk, operator: DoesNotExist}"), "n2"},
		{"affinity greater", labelled, "", required("{key: num, operator: Gt, values: ['2']}"), "n1"},
		{"affinity less", labelled, "", required("{key: num, operator: Lt, values: ['3']}"),
			"0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."},
		{"affinity by name", labelled, "cpu=9", named("n2"),
			"0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't satisfy plugin(s) [NodeAffinity]."},
		{"affinity by name fits", labelled, "", named("n2"), "n2"},
		{"preferred", labelled, "",
			"affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: " +
				"[{key: zone, operator: In, values: [b]}]}}]}}", "n2"},
		{"cpu", small, "cpu=5", "", "0/1 nodes are available: 1 Insufficient cpu."},
		{"cpu and memory", small, "cpu=5,memory=9Gi", "", "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory."},
		{"unknown resource", small, "example.com/x=1", "", "0/1 nodes are available: 1 Insufficient example.com/x."},
		{"just fits", small, "cpu=4,memory=8Gi", "", "n1"},
		{"init container", small, "cpu=1", "initContainers: [{name: i, image: i, resources: {requests: {cpu: 5}}}]",
			"0/1 nodes are available: 1 Insufficient cpu."},
		{"sidecar adds up", small, "cpu=3",
			"initContainers: [{name: i, image: i, restartPolicy: Always, resources: {requests: {cpu: 2}}}]",
			"0/1 nodes are available: 1 Insufficient cpu."},
		{"overhead", small, "cpu=4", "overhead: {cpu: 1m}", "0/1 nodes are available: 1 Insufficient cpu."},
		{"a feature that no node declares", small, "", "hostNetwork: true\nhostUsers: false",
			"0/1 nodes are available: 1 node(s) didn't match Pod's required features."},
		{"a feature that one declares", append(able, small...), "", "hostNetwork: true\nhostUsers: false", "able"},
		{"pod level", small, "", "resources: {requests: {cpu: 5}}", "0/1 nodes are available: 1 Insufficient cpu."},
		{"missing claim", small, "", "volumes: [{name: v, persistentVolumeClaim: {claimName: none}}]",
			`0/1 nodes are available: persistentvolumeclaim "none" not found.`},
		{"spread without label", small, "", hardSpread("rack", 1),
			"0/1 nodes are available: 1 node(s) didn't match pod topology spread constraints (missing required label)."},
		{"affinity to nobody", small, "", affinity("podAffinity", "kubernetes.io/hostname", "app: other"),
			"0/1 nodes are available: 1 node(s) didn't match pod affinity rules."},
		{"affinity to itself", small, "", affinity("podAffinity", "kubernetes.io/hostname", "app: a"), "n1"},
		{"affinity to itself without label", small, "", affinity("podAffinity", "rack", "app: a"),
			"0/1 nodes are available: 1 node(s) didn't match pod affinity rules."},
	} {
		t.Run(test.name, func(t *testing.T) {
			st := site(test.nodes...)
			st.read = noObjects{}
			if got := st.where(pod("p", "app: a", test.asks, test.spec)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func required(expr string) string {
	return "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [" +
		expr + "]}]}}}"
}

func named(name string) string {
	return "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: " +
		"[{key: metadata.name, operator: In, values: [" + name + "]}]}]}}}"
}

func hardSpread(key string, skew int, more ...string) string {
	return spreadBy(key, skew, "DoNotSchedule", more...)
}

func spreadBy(key string, skew int, action string, more ...string) string {
	return "topologySpreadConstraints: [{maxSkew: " + string(rune('0'+skew)) + ", topologyKey: " + key + ", whenUnsatisfiable: " + action +
		", labelSelector: {matchLabels: {app: a}}" + strings.Join(append([]string{""}, more...), ", ") + "}]"
}

func affinity(kind, key, match string, more ...string) string {
	return "affinity: {" + kind + ": {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: " + key +
		", labelSelector: {matchLabels: {" + match + "}}" +
		strings.Join(append([]string{""}, more...), ", ") + "}]}}"
}

// TestPodsOnNodes decides pods that mind the pods that are there.
func TestPodsOnNodes(t *testing.T) {
	nodes := func() []*corev1.Node {
		return []*corev1.Node{node("n1", "zone: a", ""), node("n2", "zone: a", ""), node("n3", "zone: b", ""), node("n4", "", "")}
	}
	type there struct{ node, labels, spec string }
	for _, test := range []struct {
		name  string
		there []there
		spec  string
		want  []string
	}{
		{"spread fills the empty zone", []there{{"n1", "app: a", ""}}, hardSpread("zone", 1), []string{"n3"}},
		{"others don't count", []there{{"n1", "app: b", ""}}, hardSpread("zone", 1), []string{"n1", "n2", "n3"}},
		{"skew of two", []there{{"n1", "app: a", ""}}, hardSpread("zone", 2), []string{"n1", "n2", "n3"}},
		{"too few domains", []there{{"n1", "app: a", ""}, {"n3", "app: a", ""}}, hardSpread("zone", 1, "minDomains: 3"),
			[]string{
				"0/4 nodes are available: 1 node(s) didn't match pod topology spread constraints (missing required label), " +
					"3 node(s) didn't match pod topology spread constraints."}},
		{"excluded nodes don't count", []there{{"n1", "app: a", ""}}, hardSpread("zone", 1) + "\nnodeSelector: {zone: a}", []string{"n1", "n2"}},
		{"excluded nodes count", []there{{"n1", "app: a", ""}}, hardSpread("zone", 1, "nodeAffinityPolicy: Ignore") + "\nnodeSelector: {zone: a}",
			[]string{
				"0/4 nodes are available: 2 node(s) didn't match Pod's node affinity/selector, " +
					"2 node(s) didn't match pod topology spread constraints."}},
		{"soft spread", []there{{"n1", "app: a", ""}}, spreadBy("zone", 1, "ScheduleAnyway"), []string{"n3"}},
		{"label keys", []there{{"n1", "app: a, v: other", ""}}, hardSpread("zone", 1, "matchLabelKeys: [v]"), []string{"n1", "n2", "n3"}},
		{"near its friend", []there{{"n3", "app: db", ""}}, affinity("podAffinity", "zone", "app: db"), []string{"n3"}},
		{"near its friend by zone", []there{{"n2", "app: db", ""}}, affinity("podAffinity", "zone", "app: db"), []string{"n1", "n2"}},
		{"near a friend of both terms", []there{{"n1", "app: db", ""}, {"n3", "app: db, tier: x", ""}},
			"affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: " +
				"[{topologyKey: zone, labelSelector: {matchLabels: {app: db}}}, {topologyKey: zone, labelSelector: {matchLabels: {tier: x}}}]}}",
			[]string{"n3"}},
		{"terms of different namespaces", []there{{"n1", "app: db", ""}},
			"affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: " +
				"[{topologyKey: zone, labelSelector: {matchLabels: {app: db}}}, {topologyKey: zone, namespaces: " +
				"[other], labelSelector: {matchLabels: {app: db}}}]}}",
			[]string{"0/4 nodes are available: 4 node(s) didn't match pod affinity rules."}},
		{"away by zone", []there{{"n1", "app: x", ""}}, affinity("podAntiAffinity", "zone", "app: x"), []string{"n3", "n4"}},
		{"kept away by others", []there{{"n1", "app: x", affinity("podAntiAffinity", "zone", "app: a")}}, "", []string{"n3", "n4"}},
		{"no place", []there{{"n1", "app: x", ""}, {"n3", "app: x", ""},
			{"n4", "app: y", affinity("podAntiAffinity", "kubernetes.io/hostname", "app: a")}},
			affinity("podAntiAffinity", "zone", "app: x"),
			[]string{
				"0/4 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules, " +
					"3 node(s) didn't match pod anti-affinity rules."}},
		{"other namespaces", []there{{"n1", "app: x", ""}}, affinity("podAntiAffinity", "zone", "app: x", "namespaces: [other]"),
			[]string{"n1", "n2", "n3", "n4"}},
		{"all namespaces", []there{{"n1", "app: x", ""}}, affinity("podAntiAffinity", "zone", "app: x", "namespaceSelector: {}"),
			[]string{"n3", "n4"}},
		{"some namespaces", []there{{"n1", "app: x", ""}}, affinity("podAntiAffinity", "zone", "app: x",
			"namespaceSelector: {matchLabels: {a: b}}"), []string{"n1", "n2", "n3", "n4"}},
		{"preferred by those there", []there{{"n3", "app: x",
			"affinity: {podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: " +
				"[{weight: 9, podAffinityTerm: {topologyKey: zone, labelSelector: {matchLabels: {app: a}}}}]}}"}},
			"", []string{"n3"}},
		{"prefers", []there{{"n3", "app: x", ""}},
			"affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: " +
				"[{weight: 9, podAffinityTerm: {topologyKey: zone, labelSelector: {matchLabels: {app: x}}}}]}}",
			[]string{"n1", "n2", "n4"}},
		{"port taken", []there{{"n1", "", port80}, {"n2", "", port80}, {"n3", "", port80}}, port80, []string{"n4"}},
		{"port taken everywhere", []there{{"n1", "", port80}, {"n2", "", port80}, {"n3", "", port80}, {"n4", "", port80}}, port80,
			[]string{"0/4 nodes are available: 4 node(s) didn't have free ports for the requested pod ports."}},
	} {
		t.Run(test.name, func(t *testing.T) {
			st := site(nodes()...)
			st.read = noObjects{}
			for i, x := range test.there {
				st.add(pod("there"+string(rune('0'+i)), x.labels, "", x.spec), x.node)
			}
			if got := st.where(pod("p", "app: a, v: mine", "", test.spec)); !strings.Contains(strings.Join(test.want, "|")+"|", got+"|") {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

const port80 = "initContainers: [{name: s, image: i, restartPolicy: Always, ports: [{containerPort: 80, hostPort: 80}]}]"

func TestPorts(t *testing.T) {
	for _, test := range []struct {
		name string
		a, b port
		want bool
	}{
		{"the same port", port{"", "TCP", 80}, port{"", "TCP", 80}, true},
		{"another protocol", port{"", "TCP", 80}, port{"", "UDP", 80}, false},
		{"another port", port{"", "TCP", 80}, port{"", "TCP", 81}, false},
		{"another address", port{"10.0.0.1", "TCP", 80}, port{"10.0.0.2", "TCP", 80}, false},
		{"all addresses after one", port{"10.0.0.1", "TCP", 80}, port{"", "TCP", 80}, true},
		{"one address after all", port{"", "TCP", 80}, port{"10.0.0.1", "TCP", 80}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newNodeInfo("n")
			s.takePort(test.a, 1)
			if got := checkPorts(&nodeVerdicts{need: &need{ports: []port{test.b}}}, s) != nil; got != test.want {
				t.Errorf("%v, then %v: %v", test.a, test.b, got)
			}
			s.takePort(test.a, -1)
			if len(s.ports) != 0 {
				t.Errorf("%v stays", test.a)
			}
		})
	}
}
