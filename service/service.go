// Package service makes a machine run kloop as a service of systemd, takes another version into use, and takes all of it away.
//
//	/usr/local/bin/kloop              the program, kubectl-why and the like beside it; kloop.before is the one that it replaced
//	/etc/systemd/system/UNIT.service  the unit, as package packaging has it
//	/etc/kloop/UNIT.env               flags for it, in KLOOP_ARGS
//	/etc/kloop/kloop.yaml             settings, if there were none
//
// A program that a package has put into /usr/bin stays the package's, and so do its units: then only the flags are written.
package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/packaging"
)

// A Service is kloop as one unit of systemd.
type Service struct {
	Unit    string   // Cluster, Server or Node
	Root    string   // where the machine's files are; "" is the machine itself, and only its systemd starts anything
	Program string   // the file of the program to install
	Args    []string // flags for it; nil: those of before

	// Systemctl runs systemctl with arguments; nil: the one on the path.
	Systemctl func(ctx context.Context, args ...string) error

	live bool // Root stands for the machine itself, in tests
}

// The units.
const (
	Cluster = "kloop"        // a cluster, with this machine as its node
	Server  = "kloop-server" // a control plane without a node
	Node    = "kloop-node"   // a node of a cluster elsewhere
)

// Units are all of them.
var Units = []string{Cluster, Server, Node}

// The places of an installation's files, below Root.
const (
	packaged = "/usr/bin/kloop"
	program  = "/usr/local/bin/kloop"
	units    = "/etc/systemd/system"
	settings = "/etc/kloop"
)

// plugins are the names by which kubectl finds kloop's commands.
var plugins = []string{"kubectl-why", "kubectl-gaps", "kubectl-loops"}

func (s *Service) path(parts ...string) string {
	return filepath.Join(append([]string{s.Root, "/"}, parts...)...)
}

// image says that the files are those of another machine: nothing runs there.
func (s *Service) image() bool { return s.Root != "" && !s.live }

// byPackage says that the program, and its units, are those of the system's package manager.
func (s *Service) byPackage() bool { return filepath.Clean(s.Program) == s.path(packaged) }

// DataDir is the directory of the unit's data.
func (s *Service) DataDir() string {
	switch s.Unit {
	case Server:
		return s.path("/var/lib/kloop-server")
	case Node:
		return s.path("/var/lib/kloop-node")
	}
	return s.path("/var/lib/kloop")
}

// Install puts the program, the unit and its settings in place, has systemd start the unit now and with the machine, and returns when it is
// ready. What runs already is replaced; its pods go on running. If the new program does not become ready, the one before is put back and
// started, and the error says so. A program that can't work with the data that there is changes nothing.
func (s *Service) Install(ctx context.Context) error {
	if err := s.check(); err != nil {
		return err
	}
	if err := cluster.CheckFormat(s.DataDir()); err != nil {
		return err
	}
	undo, err := s.place()
	if err != nil {
		return errors.Join(err, undo())
	}
	if s.image() {
		return s.systemctl(ctx, "--root="+s.Root, "enable", s.Unit)
	}
	if err := s.systemctl(ctx, "daemon-reload"); err != nil {
		return errors.Join(err, undo())
	}
	err = s.systemctl(ctx, "enable", s.Unit)
	if err == nil {
		err = s.systemctl(ctx, "restart", s.Unit)
	}
	if err == nil {
		return nil
	}
	err = fmt.Errorf("start %s: %w; journalctl -u %s says why", s.Unit, err, s.Unit)
	return errors.Join(err, s.back(ctx, undo))
}

// back takes the program before into use again.
func (s *Service) back(ctx context.Context, undo func() error) error {
	_, none := os.Stat(s.path(units, s.Unit+".service.before"))
	if none != nil && !s.byPackage() {
		// There was none: nothing is to go on failing with every start of the machine.
		return errors.Join(s.systemctl(ctx, "disable", "--now", s.Unit), undo(), s.systemctl(ctx, "daemon-reload"))
	}
	if err := errors.Join(undo(), s.systemctl(ctx, "daemon-reload"), s.systemctl(ctx, "restart", s.Unit)); err != nil {
		return fmt.Errorf("go back to the program before: %w", err)
	}
	return errors.New("the program before runs again")
}

// check says what would make the installation fail half way.
func (s *Service) check() error {
	if _, err := packaging.Files.Open(s.Unit + ".service"); err != nil {
		return fmt.Errorf("%q is no service: use one of %s", s.Unit, strings.Join(Units, ", "))
	}
	for _, a := range s.Args {
		if a == "" || strings.ContainsAny(a, " \t\n\"'\\$") {
			return fmt.Errorf("the argument %q can't stand in a unit's environment: say it in %s", a, s.path(settings, "kloop.yaml"))
		}
	}
	if s.image() || s.Systemctl != nil {
		return nil
	}
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		return errors.New("this machine's services are not kept by systemd: have your own start kloop up, or write the files for another " +
			"machine with --root DIR")
	}
	if os.Getuid() != 0 {
		return errors.New("a service is installed by root: use sudo")
	}
	return nil
}

// place writes the files. undo puts back what was there, as far as it came.
func (s *Service) place() (undo func() error, err error) {
	var done []func() error
	undo = func() error {
		var err error
		for _, back := range slices.Backward(done) {
			err = errors.Join(err, back())
		}
		return err
	}
	put := func(path string, mode fs.FileMode, from io.Reader) error {
		back, err := replace(path, mode, from)
		if back != nil {
			done = append(done, back)
		}
		return err
	}
	if !s.byPackage() {
		if err := s.putProgram(put); err != nil {
			return undo, err
		}
		unlink, err := s.link()
		if done = append(done, unlink); err != nil {
			return undo, err
		}
	}
	if s.Args != nil {
		text := "KLOOP_ARGS=" + strings.Join(s.Args, " ") + "\n"
		if err := put(s.path(settings, s.Unit+".env"), 0o600, strings.NewReader(text)); err != nil { // a token may be in it
			return undo, err
		}
	}
	yaml := s.path(settings, "kloop.yaml")
	if _, err := os.Stat(yaml); err == nil {
		return undo, nil
	}
	text, err := packaging.Files.ReadFile("kloop.yaml")
	if err != nil {
		return undo, err
	}
	return undo, put(yaml, 0o644, bytes.NewReader(text))
}

// putProgram writes the program and the unit that runs it.
func (s *Service) putProgram(put func(string, fs.FileMode, io.Reader) error) error {
	f, err := os.Open(s.Program)
	if err != nil {
		return fmt.Errorf("read the program: %w", err)
	}
	defer f.Close()
	text, err := packaging.Files.ReadFile(s.Unit + ".service")
	if err != nil {
		return err
	}
	if err := put(s.path(program), 0o755, f); err != nil {
		return err
	}
	unit := strings.ReplaceAll(string(text), packaged, program)
	return put(s.path(units, s.Unit+".service"), 0o644, strings.NewReader(unit))
}

// link makes the names by which kubectl finds kloop's commands. What others have put there stays. undo removes those that are new.
func (s *Service) link() (undo func() error, err error) {
	var made []string
	undo = func() error { return remove(made...) }
	for _, name := range plugins {
		path := s.path(filepath.Dir(program), name)
		switch err := os.Symlink(filepath.Base(program), path); {
		case err == nil:
			made = append(made, path)
		case !errors.Is(err, fs.ErrExist):
			return undo, fmt.Errorf("link %s: %w", name, err)
		}
	}
	return undo, nil
}
