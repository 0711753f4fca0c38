package clusters

import (
	"errors"
	"os/exec"
)

// supervised says why clusters by name are not made here: their supervisor and its processes speak over sockets of datagrams.
func supervised() error {
	return errors.New("clusters by name need Linux or macOS: use kloop up --sim-nodes N here")
}

func apart(*exec.Cmd) error { return supervised() }

func detach(*exec.Cmd) {}
