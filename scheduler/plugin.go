package scheduler

// plugin numbers the plugins as bits, so that a set of them is a number.
type plugin uint32

const (
	nodeUnschedulable plugin = 1 << iota
	taintToleration
	nodeAffinity
	nodePorts
	nodeResourcesFit
	volumeBinding
	podTopologySpread
	interPodAffinity
	dynamicResources
	nodeFeatures
	extenders
)

// maxScore is the best that a plugin can say of a node.
const maxScore = 100

// A refusal says why a node can't take a pod. Refusals are shared, never changed.
type refusal struct {
	plugin   plugin
	reasons  []string
	hopeless bool // removing pods from the node would not help
}

// A filter is a plugin's check of one node by itself.
type filter struct {
	name    string
	applies func(o *outlook) bool
	check   func(o *outlook, s *slot) *refusal
}

// A score ranks one node by itself; its kind says how results compare between nodes.
type score struct {
	name    string
	weight  int64
	applies func(o *outlook) bool
	of      func(o *outlook, s *slot) int64
	norm    norm
}

type norm uint8

const (
	absolute norm = iota // 0 … maxScore as it is
	more                 // in proportion to the highest among the nodes that can take the pod
	less                 // the same, the highest being the worst
)

func always(*outlook) bool { return true }

// filters is the table of checks in their order: the first refusal is the one that people see. The checks that
// depend on more than the node and what is on it come after them: volumes (see volumes), PodTopologySpread and
// InterPodAffinity (see terrain), DynamicResources (see devices).
func filters() []filter {
	return []filter{
		{"NodeAffinity", func(o *outlook) bool { return o.only != nil }, checkNamed},
		{"NodeUnschedulable", always, checkCordon},
		{"TaintToleration", always, checkTaints},
		{"NodeAffinity", func(o *outlook) bool { return wantsNodes(o.pod) }, checkAffinity},
		{"NodePorts", func(o *outlook) bool { return len(o.need.ports) > 0 }, checkPorts},
		{"NodeResourcesFit", always, checkFit},
		{"NodeDeclaredFeatures", func(o *outlook) bool { return !o.features.IsEmpty() }, checkFeatures},
	}
}

// scores is the table of rankings with upstream's weights. PodTopologySpread and InterPodAffinity, each of
// weight 2, are in terrain.
func scores() []score {
	return []score{
		{"TaintToleration", 3, always, scoreTaints, less},
		{"NodeAffinity", 2, func(o *outlook) bool { return o.preferred != nil }, scoreAffinity, more},
		{"NodeResourcesFit", 1, always, scoreFit, absolute},
		{"NodeResourcesBalancedAllocation", 1, always, scoreBalanced, absolute},
		{"ImageLocality", 1, func(o *outlook) bool { return len(o.images) > 0 }, scoreImages, absolute},
	}
}
