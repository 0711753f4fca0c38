package scheduler

import "sync"

// A plugin is one rule for where pods go, under upstream's name: what wakes the pods that it refused, how it filters nodes and how it
// scores them. Each file of a plugin has its functions; plugins is the table.
type plugin struct {
	name  string
	wakes event // its queueing hint: what may cure its refusals, beside a change of the node itself, which all filters look at again

	// Of one node by itself: nodeVerdicts caches what these find, and asks again when the node changes.
	preFilter  func(v *nodeVerdicts, n *nodeInfo) *refusal // before all filters
	filter     func(v *nodeVerdicts, n *nodeInfo) *refusal
	skipFilter func(v *nodeVerdicts) bool // nil: never
	score      func(v *nodeVerdicts, n *nodeInfo) int64
	skipScore  func(v *nodeVerdicts) bool
	norm       norm // of score
	weight     int64

	// Of more than one node by itself: other pods, volumes, devices.
	prepare  func(c *podClass)                                         // PreFilter: reads the demand of a class, once
	refresh  func(c *podClass)                                         // brings what the class knows up to date, before each decision
	claims   func(c *podClass, n *nodeInfo) *refusal                   // filter
	topology func(t *topologyCounts, l *topologyTerms, i int) *refusal // filter
	scoreAll func(cy *cycle, weight int64)                             // adds to the total of every feasible node

	unnamed bool // no profile can name it
}

// local says whether the plugin looks at one node by itself, and no further.
func (p *plugin) local() bool {
	return p.prepare == nil && p.refresh == nil && p.claims == nil && p.topology == nil && p.scoreAll == nil
}

// An event is a kind of change that may let an unschedulable pod fit: upstream's ClusterEvent. Sets of events are sums.
type event uint8

const (
	namespaceChanged event = 1 << iota // its labels
	nodeChanged                        // came, or changed in what the scheduler looks at
	podChanged                         // came, went, moved or got other labels
	volumeChanged                      // a claim, a volume, a storage class or what drivers say of themselves
	deviceChanged                      // a claim to devices, a slice, a class or a taint
	deviceClassChanged
	roomChanged       // some node has more room
	anyEvent    event = 1<<iota - 1
)

// The names of the plugins. VolumeBinding stands for all of upstream's about volumes.
const (
	nodeUnschedulable = "NodeUnschedulable"
	taintToleration   = "TaintToleration"
	nodeAffinity      = "NodeAffinity"
	nodePorts         = "NodePorts"
	nodeResourcesFit  = "NodeResourcesFit"
	balancedResources = "NodeResourcesBalancedAllocation"
	imageLocality     = "ImageLocality"
	nodeFeatures      = "NodeDeclaredFeatures"
	podTopologySpread = "PodTopologySpread"
	interPodAffinity  = "InterPodAffinity"
	volumeBinding     = "VolumeBinding"
	dynamicResources  = "DynamicResources"
	defaultPreemption = "DefaultPreemption"
	extenders         = "extenders"
)

// plugins is the table, with upstream's weights. Filters are asked in its order, those of one node before the others: the first
// refusal is the one that people see. Preemption and extenders have places of their own in a decision.
func plugins() []plugin {
	return []plugin{
		{name: nodeUnschedulable, filter: checkCordon},
		{name: taintToleration, filter: checkTaints, score: scoreTaints, norm: less, weight: 3},
		{name: nodeAffinity, preFilter: checkNamed, filter: checkAffinity, skipFilter: anyNode, score: scoreAffinity,
			skipScore: noPreference, norm: more, weight: 2},
		{name: nodePorts, filter: checkPorts, skipFilter: noPorts},
		{name: nodeResourcesFit, wakes: deviceClassChanged, filter: checkFit, score: scoreFit, weight: 1},
		{name: nodeFeatures, filter: checkFeatures, skipFilter: noFeatures},
		{name: balancedResources, score: scoreBalanced, weight: 1},
		{name: imageLocality, score: scoreImages, skipScore: noImages, weight: 1},
		{name: podTopologySpread, wakes: namespaceChanged | nodeChanged | podChanged,
			prepare: readSpread, topology: checkSpread, scoreAll: (*cycle).scoreSpread, weight: 2},
		{name: interPodAffinity, wakes: namespaceChanged | nodeChanged | podChanged,
			prepare: readAffinity, refresh: findExisting, topology: checkPodAffinity, scoreAll: (*cycle).scorePodAffinity, weight: 2},
		{name: volumeBinding, wakes: volumeChanged, prepare: readClaims, refresh: refreshVolumes, claims: checkVolumes,
			scoreAll: (*cycle).scoreVolumes, weight: 1},
		{name: dynamicResources, wakes: deviceChanged, refresh: refreshDevices, claims: checkDevices, scoreAll: (*cycle).scoreDevices, weight: 1},
		{name: defaultPreemption},
		{name: extenders, wakes: roomChanged, unnamed: true}, // who knows what matters to them
	}
}

// wakers says for each plugin what may cure its refusals.
var wakers = sync.OnceValue(func() map[string]event {
	by := map[string]event{}
	for _, p := range plugins() {
		by[p.name] = p.wakes
	}
	return by
})

// maxScore is the best that a plugin can say of a node.
const maxScore = 100

// A refusal says why a node can't take a pod. Refusals are shared, never changed.
type refusal struct {
	plugin       string
	reasons      []string
	unresolvable bool // removing pods from the node would not help
}

// norm says how the scores of a plugin compare between nodes.
type norm uint8

const (
	absolute norm = iota // 0 … maxScore as it is
	more                 // in proportion to the highest among the feasible nodes
	less                 // the same, the highest being the worst
)
