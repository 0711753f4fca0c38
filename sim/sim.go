// Package sim gives a cluster nodes whose pods run in simulation: they get addresses, become ready, end and are
// deleted as real ones would, and cost a few writes each. Every Node with kwok's annotation is simulated, those
// that Nodes makes and those that anybody else creates.
//
// A pod's annotations choose its fate: see the constants.
package sim

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/controllers/nodelifecycle"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/loop"
)

// Fake is the annotation that makes a node a simulated one; its value is "fake". It is kwok's.
const Fake = nodelifecycle.Fake

// Lost is the annotation that makes a simulated node fall silent, with all its pods, until it is taken away. Any value
// will do but the empty one.
const Lost = nodelifecycle.Lost

// Agent is the annotation of a simulated node whose pods have events and ids as those of a node agent. Any value will do
// but the empty one. The nodes that Nodes makes have it; others are as quiet as kwok's.
const Agent = prefix + "agent"

const prefix = "sim.kloop.dev/"

// The annotations of pods: see docs/simulation.md. Those in ofNodes may stand on a node and hold for its pods then.
const (
	Exit      = prefix + "exit"       // its containers end with this code, and so does the pod
	Hold      = prefix + "hold"       // it never starts
	Unready   = prefix + "unready"    // it runs and is not ready, for as long as it has this
	Still     = prefix + "still"      // its status stays as it is, until it is deleted
	Keep      = prefix + "keep"       // it belongs to a Job and runs on all the same
	Run       = prefix + "run"        // how long containers run that end or crash
	Crash     = prefix + "crash"      // its containers crash with this code; "CODExN": only N times
	Pull      = prefix + "pull"       // how long it takes to pull an image
	PullError = prefix + "pull-error" // images that can't be pulled, with commas between them; "*": all
	Init      = prefix + "init"       // how long an init container runs
	InitExit  = prefix + "init-exit"  // the code that init containers end with
	Ready     = prefix + "ready"      // how long a container runs before it is ready
	Stop      = prefix + "stop"       // how long containers take to stop
	ProbeFail = prefix + "probe-fail" // probes that fail: KIND, KIND/CONTAINER or KIND=FROM, with commas between them
)

// Simulated says whether a node lives in simulation.
func Simulated(n *corev1.Node) bool { return core.Simulated(n) }

// Loops returns the loops that simulate.
func Loops() []loop.Loop { return LoopsIn() }

// LoopsIn returns the loops that simulate, with pod addresses of a range, or of one of each family; none means 10.128.0.0/9.
func LoopsIn(pods ...netip.Prefix) []loop.Loop {
	ips := inRanges(pods)
	return []loop.Loop{nodeLoop(ips.hosts()), storageLoop(), podLoop(ips), heartbeat{}}
}

// alive says whether a node lives in simulation and is heard.
func alive(n *corev1.Node) bool { return Simulated(n) && n.Annotations[Lost] == "" }
