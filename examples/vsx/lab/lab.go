// Package lab simulates a pair of AOS-CX switches, the cables between them, and the people who work on them. Each switch speaks the REST
// API as far as public documents tell how; the pair behaves as the VSX guide describes: the inter-switch link comes in sync some time
// after it is up, a switch that returns delays its multi-chassis LAGs, and on a lost link the secondary shuts them if the keepalive lives.
//
// A Judge sees every request. What an operator may never do is at the top of judge.go.
package lab

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Times of the simulated switches.
const (
	handshake = 8 * time.Second  // until an ISL that is up is in sync
	hello     = 3 * time.Second  // until a keepalive that can be heard is established
	boot      = 90 * time.Second // of a switch
	copying   = 4 * time.Second  // until a change that is synced is on the secondary
)

// A Lab is two switches and what connects them. Its methods may be called at once.
type Lab struct {
	mu       sync.Mutex
	now      func() time.Time
	switches [2]*Switch
	cut      map[string]bool // cables between ports of the same name
	slow     time.Duration   // that the handshake takes longer

	islSince, kaSince time.Time // since when they are up; zero: they are not
	stale             time.Time // since when the secondary lacks what is synced; zero: it does not

	judge judge
}

// A Switch is one of them.
type Switch struct {
	lab  *Lab
	self int

	tree     tree
	startup  tree      // nil: nothing was saved
	changes  int       // of the configuration
	bootedAt time.Time // when it was, or will be, up
	off      bool
	formed   bool      // it was in sync with its peer since it booted
	away     bool      // it returns: its multi-chassis LAGs wait
	delay    time.Time // until when; zero: the wait has not begun

	sessions map[string]session
	issued   int
	refs     bool // references are maps, not paths
	denied   bool // the API only reads
}

// New makes two switches as they leave the factory, with an administrator's password and cables between the ports of the same names.
func New(now func() time.Time) *Lab {
	l := &Lab{now: now, cut: map[string]bool{}}
	l.judge.worse = now()
	for i := range l.switches {
		l.switches[i] = &Switch{lab: l, self: i, tree: factory(i), bootedAt: now(), sessions: map[string]session{}}
	}
	return l
}

// Switch returns one of the two: 0 or 1.
func (l *Lab) Switch(i int) *Switch { return l.switches[i] }

// References has the switches write references as maps or as paths: releases differ.
func (l *Lab) References(asMaps bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.switches {
		s.refs = asMaps
	}
}

// Cut takes the cable between two ports of this name away, or puts it back.
func (l *Lab) Cut(port string, away bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut[port] = away
	l.settle()
}

// Slow has the ISL take longer to come in sync.
func (l *Lab) Slow(by time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slow = by
}

// Reboot restarts a switch, with its startup configuration.
func (s *Switch) Reboot() { s.restart(boot) }

// Replace puts a new switch in the place of one, which has no configuration.
func (s *Switch) Replace() {
	s.lab.mu.Lock()
	s.startup = nil
	s.lab.mu.Unlock()
	s.restart(boot)
}

// Power switches a switch off, or on.
func (s *Switch) Power(on bool) {
	if on {
		s.restart(boot)
		return
	}
	s.lab.mu.Lock()
	defer s.lab.mu.Unlock()
	s.off = true
	s.lab.settle()
}

func (s *Switch) restart(took time.Duration) {
	s.lab.mu.Lock()
	defer s.lab.mu.Unlock()
	s.tree, s.changes = factory(s.self), s.changes+1
	if s.startup != nil {
		s.tree = s.startup.clone()
	}
	s.off, s.bootedAt, s.sessions = false, s.lab.now().Add(took), map[string]session{}
	s.formed, s.away, s.delay = false, s.tree["system/vsx"] != nil, time.Time{}
	s.lab.settle()
}

// ReadOnly has the API take no writes, or take them again.
func (s *Switch) ReadOnly(on bool) {
	s.lab.mu.Lock()
	defer s.lab.mu.Unlock()
	s.denied = on
}

// Logout ends all sessions.
func (s *Switch) Logout() {
	s.lab.mu.Lock()
	defer s.lab.mu.Unlock()
	clear(s.sessions)
}

// CLI changes an attribute as a person does on the console; nil takes it away. It says nothing where the resource is not there.
func (s *Switch) CLI(path, attribute string, value any) {
	s.lab.mu.Lock()
	defer s.lab.mu.Unlock()
	if r := s.tree[path]; r != nil {
		r[attribute] = value
		if value == nil {
			delete(r, attribute)
		}
		if attribute == "admin" && r["user_config"] != nil {
			r["user_config"] = map[string]any{"admin": value}
		}
		s.changes++
	}
	s.lab.settle()
}

// Remove takes a resource away, as a person does.
func (s *Switch) Remove(path string) {
	s.lab.mu.Lock()
	defer s.lab.mu.Unlock()
	delete(s.tree, path)
	s.changes++
	s.lab.settle()
}

// Attribute returns an attribute of a resource; nil: the switch has none.
func (s *Switch) Attribute(path, name string) any {
	s.lab.mu.Lock()
	defer s.lab.mu.Unlock()
	return s.tree[path][name]
}

func (s *Switch) up() bool { return !s.off && !s.lab.now().Before(s.bootedAt) }

func (s *Switch) peer() *Switch { return s.lab.switches[1-s.self] }

// adminUp says that an interface is meant to be up.
func (s *Switch) adminUp(name string) bool {
	r := s.tree[ifPath(name)]
	if u, ok := r["user_config"].(map[string]any); ok && u["admin"] != nil {
		return u["admin"] == "up"
	}
	return r["admin"] == "up"
}

// portUp says that a port has link. Ports between the switches need both ends; at others there is a server that is always on.
func (s *Switch) portUp(name string) bool {
	if !s.up() || !s.adminUp(name) || s.lab.cut[name] {
		return false
	}
	if r := s.tree[ifPath(name)]; s.between(name) && r != nil {
		return s.peer().up() && s.peer().adminUp(name)
	}
	return s.tree[ifPath(name)] != nil
}

// between says that the port is cabled to the peer's port of the same name: all of slot 1/1 from 48 on are.
func (s *Switch) between(name string) bool {
	var n int
	_, err := fmt.Sscanf(name, "1/1/%d", &n)
	return err == nil && n >= firstBetween
}

const firstBetween = 48

// lagUp says that a LAG has a member with link. A multi-chassis LAG may be held down; the ISL needs a member on both sides.
func (s *Switch) lagUp(name string) bool {
	r := s.tree[ifPath(name)]
	if r == nil || !s.up() || !s.adminUp(name) {
		return false
	}
	if other, _ := r["other_config"].(map[string]any); other["mclag_enabled"] == true && s.holds() {
		return false
	}
	return slices.ContainsFunc(refNames(r["interfaces"]), func(port string) bool {
		return s.portUp(port) && s.member(port, name) && (!s.between(port) || s.peer().inSomeLAG(port))
	})
}

func (s *Switch) member(port, lag string) bool {
	other, _ := s.tree[ifPath(port)]["other_config"].(map[string]any)
	return fmt.Sprint("lag", other["lacp-aggregation-key"]) == lag
}

func (s *Switch) inSomeLAG(port string) bool {
	for path, r := range s.tree {
		if lag, ok := cutInterface(path); ok && r["type"] == "lag" && s.adminUp(lag) && s.member(port, lag) &&
			slices.Contains(refNames(r["interfaces"]), port) {
			return true
		}
	}
	return false
}

// mcLAGs are the multi-chassis LAGs of a switch, in no order.
func (s *Switch) mcLAGs() (list []string) {
	for path, r := range s.tree {
		other, _ := r["other_config"].(map[string]any)
		if name, ok := cutInterface(path); ok && other["mclag_enabled"] == true {
			list = append(list, name)
		}
	}
	return list
}
