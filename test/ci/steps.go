package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A step is one line of the table that is printed at the end.
type step struct {
	name  string
	lanes []string
	first bool // nothing goes on without it
	run   func(*session) error
	kind  kind
}

// A kind says what a step spends its time with.
type kind int

const (
	tests    kind = iota // measures, waits: nothing runs beside it
	compiles             // the processor
	fetches              // the network: runs beside the steps that compile
)

// A session is one run of the checks.
type session struct {
	flickers  string // the file of tests that failed once and passed alone
	now       func() time.Time
	began     time.Time
	times     []took
	flickered []string
	skipped   []string
}

type took struct {
	name string
	time time.Duration
	err  error
	last bool // nothing goes on after it
}

const budget = 60 << 20 // bytes of bin/kloop

var (
	both = []string{"all", "check"}
	all  = []string{"all"}
)

var steps = []step{
	{"build", both, true, func(*session) error { return errors.Join(script("make", "-s", "bin/kloop"), small("bin/kloop")) }, compiles},
	{"lint-fast", []string{"check"}, false, func(*session) error { return script("scripts/lint", "fast") }, compiles},
	{"unit-fast", []string{"check"}, false, (*session).unitFast, tests},

	{"runtime", all, true, func(*session) error {
		return asRoot(func() error { return script("scripts/runtime", "etcd=etcd-server") })
	}, fetches},
	{"vm", all, false, func(*session) error { return asRoot(func() error { return script("scripts/vm", "fetch") }) }, fetches},
	{"browser", all, false, func(*session) error { return asRoot(func() error { return script("scripts/browser") }) }, fetches},
	{"shell", all, false, func(*session) error { return script("scripts/lint", "shell") }, fetches},
	{"kubectl", all, true, func(*session) error { return script("make", "-s", "bin/kubectl") }, compiles},
	{"lint", all, false, func(*session) error { return script("scripts/lint", "go") }, compiles},
	{"cross", all, false, func(*session) error { return cross() }, compiles},
	{"images", all, false, func(*session) error { return asRoot(func() error { return script("scripts/image-nginx") }) }, tests},
	{"arm64", []string{"apart"}, false, func(*session) error { return arm64() }, compiles},
	{"unit", all, false, func(s *session) error { return s.tests(quiet, "./...") }, tests},
	{"site", all, false, func(s *session) error { return s.testsOf("tools/site", quiet, ".") }, tests},
	{"bgp", all, false, func(s *session) error { // a module of its own: GoBGP is the peer
		return asRoot(func() error { return s.testsOf("test/bgp", once, ".") })
	}, tests},
	{"race", all, false, (*session).race, tests},
	{"oracle", all, false, func(*session) error { return script("scripts/oracle") }, tests},
	{"postgres", all, false, (*session).postgres, tests},
	{"e2e", all, false, func(s *session) error {
		return asRoot(func() error {
			return errors.Join(s.tests(append(once, "-tags=e2e"), "./test/e2e/..."), s.families("6"), s.families("46"))
		})
	}, tests},
}

// The linter has vetted what is tested, and nobody debugs these programs: both would be half of what a test costs that is compiled anew.
var (
	quiet = []string{"-vet=off", "-ldflags=-w"}
	once  = slices.Clip(append(slices.Clip(quiet), "-count=1"))
)

// postgres tests the example, a module of its own: on envtest and in simulation, and with real containers.
func (s *session) postgres() error {
	const dir = "examples/postgres"
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	assets, kloop := filepath.Join(root, dir, "bin/assets"), filepath.Join(root, "bin/kloop")
	if err := errors.Join(os.Setenv("KUBEBUILDER_ASSETS", assets), os.Setenv("KLOOP", kloop)); err != nil {
		return err
	}
	defer os.Unsetenv("KUBEBUILDER_ASSETS")
	defer os.Unsetenv("KLOOP")
	if err := script(kloop, "envtest", assets); err != nil {
		return err
	}
	return errors.Join(s.testsOf(dir, quiet, "./..."), asRoot(func() error {
		if err := script("make", "-s", "-C", dir, "image"); err != nil {
			return err
		}
		return s.testsOf(dir, append(once, "-tags=e2e"), "./e2e")
	}))
}

// families runs what the addresses of a cluster matter to with others than IPv4. With both the nodes lie behind a router, so that the
// tunnel carries them.
func (s *session) families(f string) error {
	const name, routed = "KLOOP_E2E_FAMILIES", "KLOOP_E2E_ROUTED"
	if err := os.Setenv(name, f); err != nil {
		return err
	}
	defer os.Unsetenv(name)
	if len(f) > 1 {
		if err := os.Setenv(routed, "1"); err != nil {
			return err
		}
		defer os.Unsetenv(routed)
	}
	return s.tests(append(once, "-tags=e2e", "-run=TestFamilies|TestTwoNodes|TestNetworkPolicy"), "./test/e2e")
}

// cross checks the types of all that runs on other systems: without Linux that is everything but nodes. It takes a tenth of the time of
// a build, and finds what one does but for the linker's errors; scripts/release builds all.
func cross() error {
	return errors.Join(typeCheck("linux", "arm64", "."), typeCheck("darwin", "arm64", "."), typeCheck("windows", "amd64", "."),
		typeCheck("linux", "arm", "."))
}

// arm64 builds the program for another processor to the end.
func arm64() error {
	cmd := exec.Command("go", "build", "-o", os.DevNull, ".")
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build for linux/arm64: %w", err)
	}
	return nil
}

func script(name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
	}
	return nil
}

// asRoot runs what needs root, or says that it does not.
func asRoot(run func() error) error {
	if os.Getuid() == 0 {
		return run()
	}
	fmt.Println("skipped: real containers need root")
	for need := range strings.SplitSeq(os.Getenv("KLOOP_MUST"), ",") {
		if need == "root" {
			return errors.New("KLOOP_MUST names root")
		}
	}
	return nil
}

func small(path string) error {
	info, err := os.Stat(path)
	if err == nil && info.Size() > budget {
		err = fmt.Errorf("%s has %d bytes, more than its budget of %d: look for what is new with go tool nm -size -sort size, "+
			"and for <ReflectMethod> in what -ldflags=-dumpdep prints", path, info.Size(), budget)
	}
	return err
}

// summary is the end of the output: the skipped tests, the times, and in the last line the tests that failed once.
func (s *session) summary() string {
	var b strings.Builder
	b.WriteString("\n")
	if len(s.skipped) > 0 {
		fmt.Fprintf(&b, "skipped: %s\n\n", strings.Join(s.skipped, " "))
	}
	for _, t := range s.times {
		mark := ""
		if t.err != nil {
			mark = "  FAILED"
		}
		fmt.Fprintf(&b, "%-12s %6.0f s%s\n", t.name, t.time.Seconds(), mark)
	}
	fmt.Fprintf(&b, "%-12s %6.0f s\n", "together", s.now().Sub(s.began).Seconds())
	if len(s.flickered) > 0 {
		fmt.Fprintf(&b, "failed once and passed alone, written to %s: %s\n", s.flickers, strings.Join(s.flickered, " "))
	}
	return b.String()
}
