package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/test/need"
)

// tree is what stands below a directory: files with their contents, links with their targets.
func tree(t *testing.T, root string) map[string]string {
	t.Helper()
	have := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name := strings.TrimPrefix(path, root)
		if d.Type() == fs.ModeSymlink {
			to, err := os.Readlink(path)
			have[name] = "-> " + to
			return err
		}
		text, err := os.ReadFile(path)
		have[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return have
}

func equal(t *testing.T, got, want map[string]string) {
	t.Helper()
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s is left", name)
		}
	}
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s is %q, want %q", name, got[name], text)
		}
	}
}

// A manager stands for systemd: it notes what it is told, and fails at what the test wants.
type manager struct {
	told []string
	bad  func(what string) error
}

func (m *manager) systemctl(_ context.Context, args ...string) error {
	what := strings.Join(args, " ")
	m.told = append(m.told, what)
	if m.bad != nil {
		return m.bad(what)
	}
	return nil
}

// installed writes a program of some version outside of the machine, and installs it. Root is kept from Install, which would tell nobody
// of a start: the machine is the directory, and systemd the manager.
func (m *manager) install(t *testing.T, root, unit, version string, args []string) error {
	t.Helper()
	program := filepath.Join(t.TempDir(), "kloop")
	if err := os.WriteFile(program, []byte(version), 0o755); err != nil {
		t.Fatal(err)
	}
	s := Service{Unit: unit, Root: root, Program: program, Args: args, Systemctl: m.systemctl, live: true}
	return s.Install(t.Context())
}

func TestInstallUpgradeUninstall(t *testing.T) {
	root, m := t.TempDir(), &manager{}
	if err := os.MkdirAll(filepath.Join(root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	before := tree(t, root)
	if err := m.install(t, root, Cluster, "one", []string{"--listen", ":7443"}); err != nil {
		t.Fatal(err)
	}
	if err := m.install(t, root, Cluster, "two", nil); err != nil {
		t.Fatal(err)
	}
	have := tree(t, root)
	unit := have["/etc/systemd/system/kloop.service"]
	for name, want := range map[string]string{"/usr/local/bin/kloop": "two", "/usr/local/bin/kloop.before": "one",
		"/usr/local/bin/kubectl-why": "-> kloop", "/etc/kloop/kloop.env": "KLOOP_ARGS=--listen :7443\n"} {
		t.Run(name, func(t *testing.T) {
			if have[name] != want {
				t.Errorf("%s is %q, want %q", name, have[name], want)
			}
		})
	}
	if !strings.Contains(unit, "ExecStart=/usr/local/bin/kloop up $KLOOP_ARGS\n") || !strings.Contains(unit, "KillMode=process\n") {
		t.Errorf("the unit is\n%s", unit)
	}
	want := []string{"daemon-reload", "enable kloop", "restart kloop", "daemon-reload", "enable kloop", "restart kloop"}
	if !slices.Equal(m.told, want) {
		t.Errorf("systemd was told %q", m.told)
	}
	m.told = nil
	if err := m.install(t, root, Server, "two", nil); err != nil {
		t.Fatal(err)
	}
	for _, u := range []string{Cluster, Server} { // the second takes the program with it
		if _, err := os.Stat(filepath.Join(root, program)); err != nil {
			t.Errorf("the program went before %s: %v", u, err)
		}
		s := Service{Unit: u, Root: root, Systemctl: m.systemctl, live: true}
		if err := s.Uninstall(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.Uninstall(t.Context()); err == nil {
			t.Error("what is not installed was uninstalled")
		}
	}
	equal(t, tree(t, root), before)
	if !slices.Contains(m.told, "disable --now kloop") || !slices.Contains(m.told, "disable --now kloop-server") {
		t.Errorf("systemd was told %q", m.told)
	}
}

// TestNewProgramDoesNotStart: the one before is put back as it was, or nothing is left of a first one.
func TestNewProgramDoesNotStart(t *testing.T) {
	for _, first := range []bool{true, false} {
		t.Run(fmt.Sprint(first), func(t *testing.T) {
			root, m := t.TempDir(), &manager{}
			if !first {
				if err := m.install(t, root, Cluster, "good", []string{"--log=debug"}); err != nil {
					t.Fatal(err)
				}
			}
			before := tree(t, root)
			m.told = nil
			m.bad = func(what string) error {
				if text, _ := os.ReadFile(filepath.Join(root, program)); what == "restart kloop" && string(text) == "bad" {
					return errors.New("timeout")
				}
				return nil
			}
			err := m.install(t, root, Cluster, "bad", []string{"--log=info"})
			if err == nil || !strings.Contains(err.Error(), "timeout") || strings.Contains(err.Error(), "runs again") == first {
				t.Errorf("installed with %v", err)
			}
			equal(t, tree(t, root), before)
			last := map[bool]string{true: "daemon-reload", false: "restart kloop"}[first]
			if m.told[len(m.told)-1] != last {
				t.Errorf("systemd was told %q", m.told)
			}
		})
	}
}

// TestOlderProgram: one that can't work with the data changes nothing and stops nothing.
func TestOlderProgram(t *testing.T) {
	root, m := t.TempDir(), &manager{}
	if err := m.install(t, root, Cluster, "new", nil); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "var/lib/kloop")
	note := fmt.Sprintf(`{"format":%d,"program":"v1.38.0+kloop.9.0.0"}`, cluster.Format+1)
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "format.json"), []byte(note), 0o600)); err != nil {
		t.Fatal(err)
	}
	before := tree(t, root)
	m.told = nil
	if err := m.install(t, root, Cluster, "old", nil); !errors.Is(err, cluster.ErrNewer) {
		t.Errorf("installed with %v", err)
	}
	equal(t, tree(t, root), before)
	if len(m.told) > 0 {
		t.Errorf("systemd was told %q", m.told)
	}
}

// TestByPackage: a program of the system's package manager is not copied, and its unit not written.
func TestByPackage(t *testing.T) {
	root, m := t.TempDir(), &manager{}
	file := filepath.Join(root, packaged)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte("deb"), 0o755)); err != nil {
		t.Fatal(err)
	}
	before := tree(t, root)
	s := Service{Unit: Node, Root: root, Program: file, Args: []string{"--server", "https://a:6443"}, Systemctl: m.systemctl, live: true}
	if err := s.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, program)); err == nil {
		t.Error("the program was copied")
	}
	if text := tree(t, root)["/etc/kloop/kloop-node.env"]; text != "KLOOP_ARGS=--server https://a:6443\n" {
		t.Errorf("flags %q", text)
	}
	s.Args = nil
	if err := s.Uninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	have := tree(t, root)
	delete(have, "/etc/kloop/kloop.yaml") // a package has it, and takes it away
	equal(t, have, before)
}

func TestRefused(t *testing.T) {
	for _, s := range []Service{{Unit: "kloops"}, {Unit: Cluster, Args: []string{"--log", "a b"}}, {Unit: Cluster, Args: []string{""}},
		{Unit: Cluster, Args: []string{"$HOME"}}, {Unit: Cluster, Program: "/nowhere/kloop"}} {
		s.Root = t.TempDir()
		s.Systemctl = (&manager{}).systemctl
		if err := s.Install(t.Context()); err == nil {
			t.Errorf("%+v was installed", s)
		}
		equal(t, tree(t, s.Root), nil)
	}
}

// TestSystemd has systemd's own tools read the units: they are enabled in an image of a machine, and found good.
func TestSystemd(t *testing.T) {
	_, err := exec.LookPath("systemd-analyze")
	need.Have(t, need.Systemd, err)
	root := t.TempDir()
	for _, dir := range []string{"lib/systemd/system", "etc"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, target := range []string{"sysinit", "basic", "multi-user", "network-online", "network", "shutdown", "umount"} {
		text := "[Unit]\nDescription=" + target + "\nDefaultDependencies=no\n"
		if err := os.WriteFile(filepath.Join(root, "lib/systemd/system", target+".target"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	kill := filepath.Join(root, "bin/kill") // of ExecReload
	if err := errors.Join(os.Mkdir(filepath.Dir(kill), 0o755), os.WriteFile(kill, []byte("#!/bin/sh\n"), 0o755)); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	before := tree(t, root)
	for _, unit := range Units {
		s := Service{Unit: unit, Root: root, Program: self}
		if err := s.Install(t.Context()); err != nil {
			t.Fatal(err)
		}
		wants := filepath.Join(root, units, "multi-user.target.wants", unit+".service")
		if _, err := os.Readlink(wants); err != nil {
			t.Errorf("%s does not start with the machine: %v", unit, err)
		}
		out, err := exec.CommandContext(t.Context(), "systemd-analyze", "--root="+root, "--man=no", "verify", unit+".service").CombinedOutput()
		if err != nil || strings.Contains(string(out), unit) {
			t.Errorf("verify %s: %v\n%s", unit, err, out)
		}
	}
	exposed := exec.CommandContext(t.Context(), "systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager",
		filepath.Join(root, units, Server+".service"))
	if out, err := exposed.CombinedOutput(); err != nil {
		t.Errorf("the server's unit is confined less than it was: %v\n%s", err, out)
	}
	for _, unit := range Units {
		s := Service{Unit: unit, Root: root, Program: self}
		if err := s.Uninstall(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	equal(t, tree(t, root), before)
}
