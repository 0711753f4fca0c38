package lab

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"
)

// A judge looks at every write that comes over the API, and at what it does to the pair. Of an operator it holds that it
//
//   - never has a request that writes under way on both switches at once;
//   - writes to no switch while the other is off, nor while the pair is split and the keepalive is lost;
//   - never brings the ISL up, changes it or takes it away while the keepalive is not established;
//   - never changes on one switch what carries traffic while the other does not forward, nor takes the last leg of a LAG down;
//   - never changes a role, and never takes a switch out of its pair.
//
// What got worse so lately that the operator could not have read it yet excuses a write: see grace.
type judge struct {
	worse   time.Time // when the pair last got worse by itself
	last    seen
	writing [2]int // requests under way
	writes  []string
	faults  []string
}

// grace is the time that an operator has to see that the pair got worse.
const grace = 5 * time.Second

// maxKept bounds what a judge remembers.
const maxKept = 10000

// seen is the state of the pair, as the judge sees it.
type seen struct {
	on, forwards [2]bool
	isl, alive   bool
	formed       bool
	split        bool
	vsx          [2]string // role; "": none
	lags         map[string][2]bool
}

func (l *Lab) seen() seen {
	v := seen{isl: l.islUp(), alive: l.alive(), lags: map[string][2]bool{}}
	for i, s := range l.switches {
		v.on[i], v.vsx[i] = s.up(), s.role()
		v.forwards[i] = s.up() && !s.holds()
		v.formed = v.formed || s.formed
		for _, m := range s.mcLAGs() {
			x := v.lags[m]
			x[i] = s.lagUp(m)
			v.lags[m] = x
		}
	}
	v.split = l.switches[0].formed && l.switches[1].formed && !v.isl && v.on[0] && v.on[1]
	return v
}

// worsened says that something was lost between two states.
func worsened(was, now seen) bool {
	for i := range was.on {
		if was.on[i] && !now.on[i] || was.forwards[i] && !now.forwards[i] {
			return true
		}
		for m, x := range was.lags {
			if x[i] && !now.lags[m][i] {
				return true
			}
		}
	}
	return was.isl && !now.isl || was.alive && !now.alive || !was.split && now.split
}

// see notes when the pair got worse.
func (j *judge) see(l *Lab) {
	now := l.seen()
	if worsened(j.last, now) {
		j.worse = l.now()
	}
	j.last = now
}

func (j *judge) fault(format string, args ...any) {
	if len(j.faults) < maxKept {
		j.faults = append(j.faults, fmt.Sprintf(format, args...))
	}
}

// A deed is a write that was done, and how the pair was before it.
type deed struct {
	method, path string
	err          error
	before       seen
	worse        time.Time // when the pair had got worse before
	old          resource  // what was written to; nil: it is new
}

// write judges a write.
func (j *judge) write(l *Lab, s *Switch, d deed) {
	what, before := d.method+" "+d.path, d.before
	i, o := s.self, 1-s.self
	if len(j.writes) < maxKept {
		j.writes = append(j.writes, fmt.Sprintf("%s %d %s %v", l.now().UTC().Format(time.TimeOnly), i, what, d.err))
	}
	if j.writing[o] > 0 {
		j.fault("%s on %d while a write to the other is under way", what, i)
	}
	after := l.seen()
	if before.vsx[i] != "" && after.vsx[i] != before.vsx[i] {
		j.fault("%s changed the role of %d from %q to %q", what, i, before.vsx[i], after.vsx[i])
	}
	if l.now().Sub(d.worse) <= grace || d.err != nil {
		return
	}
	name, isPort := cutInterface(d.path)
	isl := isPort && name == refOne(s.vsx()["isl_port"])
	changed := d.old != nil && differ(d.old, s.tree[d.path])
	_, carries := before.lags[name]
	carries = carries || isPort && d.old["type"] == "vlan"
	switch {
	case !before.on[o]:
		j.fault("%s on %d while the other is off", what, i)
	case before.split && !before.alive:
		j.fault("%s on %d while the pair is split without keepalive", what, i)
	case !before.alive && (before.isl != after.isl || isl && changed && before.isl):
		j.fault("%s on %d touched the ISL while there is no keepalive", what, i)
	case before.formed && !before.forwards[o] && (before.isl && !after.isl || carries && changed):
		j.fault("%s on %d while the other does not forward", what, i)
	}
	for m, x := range before.lags {
		if y := after.lags[m]; x[i] && !y[i] && !x[o] {
			j.fault("%s on %d took %s down while it is down on the other", what, i, m)
		}
	}
}

// differ compares two resources, but for what people read.
func differ(a, b resource) bool {
	a, b = maps.Clone(a), maps.Clone(b)
	delete(a, "description")
	delete(b, "description")
	return !reflect.DeepEqual(a, b)
}

// Writing tells the judge that a request that writes begins on its way to a switch, or has ended.
func (s *Switch) Writing(begins bool) {
	s.lab.mu.Lock()
	defer s.lab.mu.Unlock()
	if begins {
		s.lab.judge.writing[s.self]++
	} else {
		s.lab.judge.writing[s.self]--
	}
}

// Faults are the rules that were broken, each time that one was.
func (l *Lab) Faults() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.judge.faults)
}

// Writes are the writes that the switches saw.
func (l *Lab) Writes() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.judge.writes)
}
