//go:build !linux

package clusters

import (
	"errors"
	"net/netip"
	"os/exec"
)

// errLinux says why there are no real nodes here: each is a network namespace.
var errLinux = errors.New("real nodes need Linux: use simulated ones here, with --sim-nodes N")

func canNetwork() error { return errLinux }

func unused(netip.Prefix) bool { return false }

func wire(*Cluster) error   { return errLinux }
func unwire(*Cluster) error { return nil }

const agentRoot = "" // of real nodes

func makeMountNamespaces(*Cluster) error { return errLinux }
func closeMountNamespaces(*Cluster)      {}

// spawn starts the process of a simulated cluster: there is no other.
func spawn(_ *Cluster, cmd *exec.Cmd, _ int) error { return apart(cmd) }

// Sweep finds nothing: nothing of kloop runs on this system but the process itself.
func Sweep(string) (left []string, err error) { return nil, nil }

// Reset refuses: what it takes away is made on Linux alone.
func Reset(dir string, _ bool) (left []string, err error) {
	return nil, errors.New("only on Linux does kloop make more than its data directory: stop it, and remove " + dir)
}

// RunningPods is the number of pods of a data directory that run here: none.
func RunningPods(string) int { return 0 }
