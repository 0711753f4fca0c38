// Package servers tests three servers that share a store, each in a network namespace of its own, while they are killed and
// cut off from each other. It needs root and bin/kloop, or another kloop that KLOOP names.
package servers
