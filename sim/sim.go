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
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// Fake is the annotation that makes a node a simulated one; its value is "fake". It is kwok's.
const Fake = nodelifecycle.Fake

// Lost is the annotation that makes a simulated node fall silent, with all its pods, until it is taken away. The value
// does not matter.
const Lost = nodelifecycle.Lost

// The annotations of pods. Their values do not matter, but for Exit.
const (
	Exit    = "sim.kloop.dev/exit"    // its containers end with this code
	Hold    = "sim.kloop.dev/hold"    // it never starts
	Unready = "sim.kloop.dev/unready" // it runs and is never ready
	Keep    = "sim.kloop.dev/keep"    // it belongs to a Job and runs on all the same
)

// Simulated says whether a node lives in simulation.
func Simulated(n *corev1.Node) bool { return n != nil && n.Annotations[Fake] == "fake" }

// Loops returns the loops that simulate.
func Loops() []loop.Loop { return LoopsIn(netip.Prefix{}) }

// LoopsIn returns the loops that simulate, with pod addresses of a range; the zero prefix means 10.128.0.0/9.
func LoopsIn(pods netip.Prefix) []loop.Loop {
	ips := inRange(pods)
	return []loop.Loop{nodeLoop(), podLoop(ips), heartbeat{}}
}

// alive says whether a node lives in simulation and is heard.
func alive(n *corev1.Node) bool { return Simulated(n) && n.Annotations[Lost] == "" }

// simulatedPod says whether a pod runs on a simulated node that is heard.
func simulatedPod(read resource.Reader, p *corev1.Pod) bool {
	return p.Spec.NodeName != "" && alive(resource.Get(read, kinds.Nodes, "", p.Spec.NodeName))
}
