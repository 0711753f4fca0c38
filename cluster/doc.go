// Package cluster is the map: it puts the parts together in one process, in the order in which they start, and stops
// them in reverse. `kloop up` runs it; Go tests embed it.
//
// Start with the zero Config runs a whole cluster in memory, on a free port of the loopback address: API server,
// controllers, scheduler. It has no node; Config.SimNodes gives it some whose pods run in simulation. A cluster takes
// some 20 ms and two MiB, so every test can have its own, and a hundred of them fit into a process: they share
// nothing. See the examples.
//
// Cluster.Rest is for client-go and all that stands on it, controller-runtime included; Cluster.Client skips HTTP;
// Cluster.Kubeconfig is for programs. Cluster.Stop ends everything that Start began and returns when it has ended.
//
// Config's fields are plain values, and the zero value of each suits most clusters; docs/config.md describes what the
// file and the flags of kloop make of them. New fields may be added; none that is there changes its meaning.
package cluster
