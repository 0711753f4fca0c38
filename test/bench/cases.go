package main

import "context"

// A measurement is one thing that is measured.
type measurement struct {
	name   string
	run    func(ctx context.Context, b *bench) error // nil: only own kloops can be asked (cold start)
	stores []string                                  // of own kloops; nil: etcd alone
	args   []string                                  // of own kloops: the command and its flags
	sim    bool                                      // own kloops have simulated nodes
	nodes  int                                       // that many; 0: as --sim-nodes says
	real   bool                                      // own kloops have a node with real pods
	cell   *cell                                     // where those are; nil: where this program is
	again  *process                                  // an own kloop on the data of this one
}

// measurements in the order in which they run.
func measurements() []measurement {
	both, up := []string{"etcd", "memory"}, []string{"up", "--node", "none"}
	return []measurement{
		{name: "ready", stores: both, args: up},
		{name: "idle", run: idle, stores: both, args: up},
		{name: "create-configmaps", run: createConfigMaps, args: up},
		{name: "create-pods", run: createPods, args: up},
		{name: "get", run: get, args: up},
		{name: "list", run: list, args: up},
		{name: "why", run: explained, stores: []string{"memory"}, args: []string{"server", "--convergence=false"}},
		{name: "watch", run: watch, args: up},
		{name: "watch-agents", run: agents, args: up},
		{name: "watch-sparse", run: sparse, args: []string{"server"}},
		{name: "informers", run: beginning, args: up},
		{name: "storm", run: storms, args: []string{"server"}},
		{name: "apply", run: apply, args: []string{"server"}},
		{name: "custom", run: custom, stores: both, args: []string{"server"}},
		{name: "definitions", run: defined, args: []string{"server"}},
		{name: "deployment", run: deployment, stores: both, args: up, sim: true},
		{name: "life", run: life, args: up, sim: true},
		{name: "nodes", run: nodes, args: up},
		{name: "bind", run: bind, args: up, sim: true, nodes: bindNodes},
		{name: "namespace", run: namespace, args: up},
		{name: "pods", args: []string{"up", "--node", "real"}, real: true},
	}
}

func names() (list []string) {
	for _, m := range measurements() {
		list = append(list, m.name)
	}
	return list
}

// A bench is one run of one measurement.
type bench struct {
	*target
	*options
	rep   *report
	label string // added to the names of figures
}

// figure notes a result.
func (b *bench) figure(name string, value float64, unit string) {
	b.rep.add(name, b.label, value, unit)
}
