package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/kloop-dev/kloop/packaging"
)

// Uninstall stops the unit and takes away what Install has made. Data, running pods, and settings that somebody changed stay. The program
// goes with the last unit that needs it.
func (s *Service) Uninstall(ctx context.Context) error {
	if s.Args != nil {
		return errors.New("a service is removed whatever its flags are: give none")
	}
	if err := s.check(); err != nil {
		return err
	}
	if !s.Installed() {
		return fmt.Errorf("%s is not installed", s.Unit)
	}
	if err := s.disable(ctx); err != nil {
		return err
	}
	unit, env := s.path(units, s.Unit+".service"), s.path(settings, s.Unit+".env")
	err := remove(unit, unit+".before", env, env+".before")
	if !s.image() {
		err = errors.Join(err, s.systemctl(ctx, "daemon-reload"))
	}
	if err != nil || s.another() {
		return err
	}
	return errors.Join(s.removeProgram(), s.removeSettings())
}

// Installed says whether there is something to uninstall.
func (s *Service) Installed() bool {
	if s.byPackage() {
		return true
	}
	_, err := os.Stat(s.path(units, s.Unit+".service"))
	return err == nil
}

// another says whether another unit is installed, which needs program and settings.
func (s *Service) another() bool {
	for _, u := range Units {
		other := Service{Unit: u, Root: s.Root}
		if u != s.Unit && other.Installed() {
			return true
		}
	}
	return s.byPackage()
}

func (s *Service) disable(ctx context.Context) error {
	if s.image() {
		return s.systemctl(ctx, "--root="+s.Root, "disable", s.Unit)
	}
	return s.systemctl(ctx, "disable", "--now", s.Unit)
}

func (s *Service) removeProgram() error {
	file := s.path(program)
	for _, name := range plugins {
		link := filepath.Join(filepath.Dir(file), name)
		if to, err := os.Readlink(link); err == nil && to == filepath.Base(program) {
			if err := remove(link); err != nil {
				return err
			}
		}
	}
	return remove(file, file+".before")
}

// removeSettings removes them if nobody has changed them.
func (s *Service) removeSettings() error {
	path := s.path(settings, "kloop.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil // there are none
	}
	ours, err := packaging.Files.ReadFile("kloop.yaml")
	if err != nil || !bytes.Equal(text, ours) {
		return err
	}
	if err := remove(path); err != nil {
		return err
	}
	_ = os.Remove(s.path(settings)) // others may have files there
	return nil
}

func (s *Service) systemctl(ctx context.Context, args ...string) error {
	if s.Systemctl != nil {
		return s.Systemctl(ctx, args...)
	}
	out, err := exec.CommandContext(ctx, "systemctl", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("systemctl %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}
