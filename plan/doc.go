// Package plan is a what-if simulation of a cluster: it forks one into memory, applies a change to the fork in simulated time, and tells
// what follows.
//
// Read takes a Fork of any cluster by what its API shows to the caller, without the values of Secrets. Run starts a front door and all
// loops on the fork, with every node in simulation, lets them come to rest, applies the Change as its author would, lets them come
// to rest again, and compares. The Report says what was made, changed and removed, which gaps remain and why, how few pods of each
// workload were available and for how long, and what could not be known.
//
//	Fork      read.go, list.go, redact.go    a cluster as data
//	world     world.go, adopt.go, assume.go  the fork, running: a front door, the loops, stand-ins for controllers outside
//	turns     turns.go, hand.go              who goes next: the same fork and change give the same answer
//	Change    change.go, apply.go, drain.go  what is done to it
//	Report    diff.go, track.go, gaps.go     what followed; text.go says it to people
//
// Nothing is ever written to the cluster that was forked, and nothing outside the process is called while a plan runs.
package plan
