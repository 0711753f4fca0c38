package runtime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
)

// An installer is a distribution's package manager, and the names that it has for what a node needs.
type installer struct {
	program  string
	args     []string
	packages []string
}

// installers is the table of them, in the order in which they are looked for.
var installers = []installer{
	{"apt-get", []string{"install", "-y", "--no-install-recommends"}, []string{"containerd", "runc", "containernetworking-plugins",
		"iptables"}},
	{"dnf", []string{"install", "-y"}, []string{"containerd", "runc", "containernetworking-plugins", "iptables-nft"}},
	{"apk", []string{"add"}, []string{"containerd", "containerd-ctr", "runc", "cni-plugins", "iptables"}},
	{"pacman", []string{"-S", "--noconfirm", "--needed"}, []string{"containerd", "runc", "cni-plugins", "iptables"}},
}

// command is the command line that installs what a node needs here.
func (i installer) command() []string {
	return append(append([]string{i.program}, i.args...), i.packages...)
}

// here finds the machine's package manager.
func here() (installer, bool) {
	for _, i := range installers {
		if _, err := exec.LookPath(i.program); err == nil {
			return i, true
		}
	}
	return installer{}, false
}

// missing says in one line that this machine has no runtime, and what to do.
func missing(what string) error {
	how := "install containerd, runc and the CNI plugins"
	if i, ok := here(); ok {
		how = strings.Join(i.command(), " ") + " (kloop up --install-runtime does it)"
	}
	return fmt.Errorf("no %s: %s; or run with --sim-nodes N for simulated nodes", what, how)
}

// Install has the machine's package manager install what a node needs, and shows what it says. It needs root. Services of the packages
// are not started on Debian: a node runs a containerd of its own.
func Install(ctx context.Context, out io.Writer) (err error) {
	i, ok := here()
	if !ok {
		return errors.New("no package manager that is known here: install containerd, runc and the CNI plugins yourself")
	}
	if i.program == "apt-get" {
		undo, err := holdServices(servicePolicy)
		if err != nil {
			return err
		}
		defer undo()
		if err := run(ctx, out, i.program, "update", "-qq"); err != nil {
			return err
		}
	}
	line := i.command()
	return run(ctx, out, line[0], line[1:]...)
}

func run(ctx context.Context, out io.Writer, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("install a container runtime: %s: %w", strings.Join(cmd.Args, " "), err)
	}
	return nil
}

// servicePolicy is the program that Debian's packages ask whether they may start a service.
const servicePolicy = "/usr/sbin/policy-rc.d"

// holdServices has it say no, unless the machine has one already. undo takes it away.
func holdServices(path string) (undo func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return func() {}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("keep services from starting: %w", err)
	}
	_, err = f.WriteString("#!/bin/sh\nexit 101\n")
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("keep services from starting: %w", err), os.Remove(path))
	}
	return func() { _ = os.Remove(path) }, nil // left behind, it only keeps services from starting
}
