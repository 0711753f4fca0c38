//go:build !linux

package cli

import (
	"context"
	"errors"

	"github.com/kloop-dev/kloop/cluster"
)

// thisMachine becomes no node: nodes are machines with Linux.
var thisMachine cluster.Machine

// installRuntime says the same.
func installRuntime(_ context.Context, _ stdio, wanted bool) error {
	if wanted {
		return errors.New("--install-runtime: nodes are machines with Linux")
	}
	return nil
}

// nodeCmd says why this machine can't be a node.
func nodeCmd(context.Context, stdio, []string) error {
	return errors.New("nodes are machines with Linux: run kloop node on one, or kloop up --sim-nodes N here")
}

// meantForNode leaves flags of kloop node to the machine with Linux that they are for.
func meantForNode(stdio, []string) error { return nil }
