package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A step is one line of the table that is printed at the end.
type step struct {
	name  string
	lanes []string
	first bool // nothing goes on without it
	run   func(*job) error
	kind  kind
}

// A kind says what a step spends its time with. Steps of one kind run one after the other; see run in main.go for what runs beside what.
type kind int

const (
	makes   kind = iota // the processor, on what others need
	fetches             // the network
	works               // the processor
	waits               // clusters, which wait for each other
	sleeps              // timers of protocols, in networks of its own: a twentieth of a processor
	alone               // guests: what a machine interpreted does beside others takes ten times as long
	idles               // the processor, when nothing else asks for it: beside guests, which leave a third of two of them
)

const budget = 60 << 20 // bytes of bin/kloop

var (
	both = []string{"all", "check"}
	all  = []string{"all"}
)

var steps = []step{
	{"build", both, true, func(j *job) error { return errors.Join(j.script("make", "-s", "bin/kloop"), small("bin/kloop")) }, makes},
	{"lint-fast", []string{"check"}, false, func(j *job) error { return j.script("scripts/lint", "fast") }, works},
	{"unit-fast", []string{"check"}, false, (*job).unitFast, works},

	{"runtime", all, true, func(j *job) error { return j.asRoot("scripts/runtime", "etcd=etcd-server", "docker-registry") }, fetches},
	{"vm", all, false, func(j *job) error { return j.asRoot("scripts/vm", "fetch") }, fetches},
	{"browser", all, false, func(j *job) error { return j.asRoot("scripts/browser") }, fetches},
	{"shell", all, false, func(j *job) error { return j.script("scripts/lint", "shell") }, fetches},
	{"kubectl", all, true, func(j *job) error { return j.script("make", "-s", "bin/kubectl") }, makes},
	{"arm64", []string{"apart"}, false, arm64, works},
	{"unit", all, false, (*job).unit, works},
	{"race", all, false, (*job).raceWhole, works},
	{"race-short", all, false, (*job).racePart, works},
	{"cross", all, false, func(*job) error { return cross() }, works},
	{"bgp", all, false, (*job).bgp, sleeps},
	{"images", all, false, func(j *job) error { return j.asRoot("scripts/image-nginx") }, waits},
	{"e2e", all, false, (*job).e2e, waits},
	{"postgres", all, false, (*job).postgres, waits},
	{"ecosystem", all, false, func(j *job) error { return j.asRoot("scripts/ecosystem", "--fast") }, waits},
	{"oracle", all, false, func(j *job) error { return j.script("scripts/oracle") }, waits},
	{"site", all, false, func(j *job) error { return j.in("tools/site").tests(quiet, ".") }, waits},
	{"race-clusters", all, false, (*job).raceClusters, waits},
	{"guests", all, false, func(j *job) error { return j.tests(once, "./"+guests) }, alone},
	{"lint", all, false, func(j *job) error { return j.idle().script("scripts/lint", "go") }, idles},
}

// The linter has vetted what is tested, and nobody debugs these programs: both would be half of what a test costs that is compiled anew.
var (
	quiet = []string{"-vet=off", "-ldflags=-w"}
	once  = slices.Clip(append(slices.Clip(quiet), "-count=1"))
)

// postgres tests the example, a module of its own: on envtest and in simulation, and with real containers.
func (j *job) postgres() error {
	const dir = "examples/postgres"
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	assets, kloop := filepath.Join(root, dir, "bin/assets"), filepath.Join(root, "bin/kloop")
	if err := j.script(kloop, "envtest", assets); err != nil {
		return err
	}
	j = j.in(dir, "KUBEBUILDER_ASSETS="+assets, "KLOOP="+kloop)
	err = j.tests(quiet, "./...")
	if made := j.asRoot("make", "-s", "-C", dir, "image"); made != nil || !isRoot() {
		return errors.Join(err, made)
	}
	return errors.Join(err, j.tests(append(once, "-tags=e2e"), "./e2e"))
}

// bgp speaks to GoBGP, which is in a module of its own.
func (j *job) bgp() error {
	if !isRoot() {
		return j.skip()
	}
	return j.in("test/bgp").tests(once, ".")
}

// e2e tests with real containers. What the addresses of a cluster matter to runs with IPv6 alone and with both too; with both the nodes
// lie behind a router, so that the tunnel carries them. With IPv6 alone the loops and agents are processes apart from the server, over
// HTTP; what heals is tested that way too.
func (j *job) e2e() error {
	if !isRoot() {
		return j.skip()
	}
	tagged := append(once, "-tags=e2e")
	families := append(slices.Clip(tagged), "-run=TestFamilies|TestTwoNodes|TestNetworkPolicy")
	heals, err := testsOf("test/e2e/heal_test.go", "test/e2e/restart_test.go", "test/e2e/apart_test.go")
	apart := append(slices.Clip(tagged), families[len(families)-1]+"|"+strings.Join(heals, "|"))
	return errors.Join(err, j.tests(tagged, "./test/e2e/..."),
		j.in(".", "KLOOP_E2E_FAMILIES=6", "KLOOP_E2E_APART=1").tests(apart, "./test/e2e"),
		j.in(".", "KLOOP_E2E_FAMILIES=46", "KLOOP_E2E_ROUTED=1").tests(families, "./test/e2e"))
}

var testName = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// testsOf are the names of the tests in files.
func testsOf(files ...string) (names []string, err error) {
	for _, path := range files {
		text, wrong := os.ReadFile(path)
		err = errors.Join(err, wrong)
		for _, m := range testName.FindAllStringSubmatch(string(text), -1) {
			names = append(names, m[1])
		}
	}
	return names, err
}

// cross checks the types of all that runs on other systems: without Linux that is everything but nodes. It takes a tenth of the time of
// a build, and finds what one does but for the linker's errors; scripts/release builds all.
func cross() error {
	return errors.Join(typeCheck("linux", "arm64", "."), typeCheck("darwin", "arm64", "."), typeCheck("windows", "amd64", "."),
		typeCheck("linux", "arm", "."))
}

// arm64 builds the program for another processor to the end.
func arm64(j *job) error {
	return j.in(".", "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0").script("go", "build", "-o", os.DevNull, ".")
}

func small(path string) error {
	info, err := os.Stat(path)
	if err == nil && info.Size() > budget {
		err = fmt.Errorf("%s has %d bytes, more than its budget of %d: look for what is new with go tool nm -size -sort size, "+
			"and for <ReflectMethod> in what -ldflags=-dumpdep prints", path, info.Size(), budget)
	}
	return err
}
