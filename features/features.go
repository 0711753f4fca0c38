// Package features says which Kubernetes a cluster is: the minor version whose API and rules it has, and which feature
// gates are on. Both are in one value that never changes, Set; the set of kinds (resource.Set) and with it the front
// door are built with one. There is nothing global: each of many clusters in a process has its own.
//
// Where behaviour depends on it:
//
//   - In the server: s.Kinds.Features().On("WatchList"), s.Kinds.Features().AtLeast(37).
//   - In a kind's rules: the functions of resource.Gated, a field of its Def, get the Set beside the objects. What a
//     kind does without any cluster at hand, in tests and in other programs, follows the newest version.
//   - Whether a kind or version is served at all: the table in package kinds, in served.go.
//   - Fields: what older versions do not have follows from the types, and package openapi knows it.
//
// A nil *Set is the newest version with its defaults, so that nobody need make one who does not care.
package features

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A Set is a version and what is on in it. It never changes, and is safe for concurrent use.
type Set struct {
	minor int
	on    map[string]bool // every gate that the version knows
}

// newest is the meaning of a nil Set.
var newest = sync.OnceValue(func() *Set {
	s := &Set{minor: Newest, on: map[string]bool{}}
	for name, g := range Known(Newest) {
		s.on[name] = g.Default
	}
	return s
})

// New returns the Set of a version in which the given gates differ from the defaults. AllAlpha and AllBeta stand for all gates
// of that stage that are not named. Every gate that the version does not know or does not let switch is in the error, in
// upstream's words.
func New(minor int, asked map[string]bool) (*Set, error) {
	if minor < Oldest || minor > Newest {
		return nil, fmt.Errorf("version 1.%d: use 1.%d or 1.%d", minor, Oldest, Newest)
	}
	known := Known(minor)
	s := &Set{minor: minor, on: map[string]bool{}}
	var errs []error
	for name, g := range known {
		s.on[name] = g.Default
		if on, all := asked[allOf[g.Stage]]; all {
			s.on[name] = on
		}
	}
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		g, ok := known[name]
		switch on := asked[name]; {
		case !ok:
			errs = append(errs, fmt.Errorf("unrecognized feature gate: %s", name))
		case g.Locked && on != g.Default:
			errs = append(errs, fmt.Errorf("cannot set feature gate %s to %t, feature is locked to %t", name, on, g.Default))
		default:
			s.on[name] = on
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return s, nil
}

// Told returns the Set of a server that says itself which version it is and what is on. Versions that are not known here count as the
// nearest that is, and gates that the version does not know do not count.
func Told(minor int, on map[string]bool) *Set {
	minor = min(max(minor, Oldest), Newest)
	s := &Set{minor: minor, on: map[string]bool{}}
	for name, g := range Known(minor) {
		s.on[name] = g.Default
		if is, told := on[name]; told {
			s.on[name] = is
		}
	}
	return s
}

// On says whether a feature is on. One that the version does not know is not.
func (s *Set) On(gate string) bool {
	if s == nil {
		s = newest()
	}
	return s.on[gate]
}

// Minor is the version's: 37 of 1.37.
func (s *Set) Minor() int {
	if s == nil {
		return Newest
	}
	return s.minor
}

// AtLeast says whether the version is this one, by its minor, or a later one.
func (s *Set) AtLeast(minor int) bool { return s.Minor() >= minor }

// Emulates says whether the version is not the one that was built.
func (s *Set) Emulates() bool { return s.Minor() != Newest }

// String is the version: 1.37.
func (s *Set) String() string { return "1." + strconv.Itoa(s.Minor()) }

// Parse reads a version as users write it: 1.36, v1.36, or with the component's name as upstream's flag has it, kube=1.36.
// What is empty is the newest.
func Parse(text string) (minor int, err error) {
	if text == "" {
		return Newest, nil
	}
	component, version, named := strings.Cut(text, "=")
	if !named {
		version = text
	} else if component != "kube" {
		return 0, fmt.Errorf("%q: there is no component %q, use kube=1.%d", text, component, Oldest)
	}
	for minor := Oldest; minor <= Newest; minor++ {
		if strings.TrimPrefix(version, "v") == fmt.Sprintf("1.%d", minor) {
			return minor, nil
		}
	}
	return 0, fmt.Errorf("version %q can't be emulated: use 1.%d or 1.%d", version, Oldest, Newest)
}
