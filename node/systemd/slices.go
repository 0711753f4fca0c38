package systemd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// first is the machine's first process, as the bus knows it.
var first = message{path: "/org/freedesktop/systemd1", iface: "org.freedesktop.systemd1.Manager", dest: "org.freedesktop.systemd1"}

const (
	unitExists = "org.freedesktop.systemd1.UnitExists"
	noSuchUnit = "org.freedesktop.systemd1.NoSuchUnit"
)

// A Property of a unit, by its name in D-Bus. Its value is a string, a bool or a uint64.
type Property struct {
	Name  string
	Value any
}

// noUnits are the further units of a transient one.
type noUnits struct{}

// Slices are those of systemd. The bus is reached when they are first used, and again after it was lost. Safe for concurrent use.
type Slices struct {
	socket string
	mu     sync.Mutex
	c      *conn // nil: not connected
}

// NewSlices returns the slices of the systemd that is on the bus at a socket.
func NewSlices(socket string) *Slices { return &Slices{socket: socket} }

// Set has a slice run and have the properties, until the machine ends. Those that are not named stay as they are.
func (s *Slices) Set(name string, list []Property) error {
	list = append(list, accounting...)
	there, err := s.active(name)
	if err == nil && !there {
		_, err = s.do("StartTransientUnit", name, "replace", append(list, made...), noUnits{})
		if there = refused(err, unitExists); there { // but it does not run
			_, err = s.do("StartUnit", name, "replace")
		}
		if err == nil {
			err = s.wait(name, true)
		}
	}
	if there && err == nil {
		_, err = s.do("SetUnitProperties", name, true, list)
	}
	return told(name, err)
}

var (
	accounting = []Property{{"CPUAccounting", true}, {"MemoryAccounting", true}, {"TasksAccounting", true}, {"IOAccounting", true}}
	made       = []Property{{"Description", "pods of kloop"}, {"DefaultDependencies", false}} // only when a slice is made
)

// Stop ends a slice, with all that systemd runs in it. One that is not there has ended.
func (s *Slices) Stop(name string) error {
	_, err := s.do("StopUnit", name, "replace")
	if err == nil {
		err = s.wait(name, false)
	}
	if refused(err, noSuchUnit) {
		return nil
	}
	return told(name, err)
}

func told(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("tell systemd of %s: %w", name, err)
}

func refused(err error, name string) bool {
	var r *refusal
	return errors.As(err, &r) && (name == "" || r.name == name)
}

// wait waits until a slice runs, or does not.
func (s *Slices) wait(name string, want bool) error {
	const pause = 5 * time.Millisecond
	var last error
	for range patience / pause {
		is, err := s.active(name)
		if err == nil && is == want {
			return nil
		}
		last = err // nobody answers while systemd or the bus starts again
		time.Sleep(pause)
	}
	return cmp.Or(last, context.DeadlineExceeded)
}

// active says whether a slice runs. A bus that does not tell says neither.
func (s *Slices) active(name string) (bool, error) {
	unit, err := s.do("GetUnit", name)
	var state any
	if path, ok := unit.(string); ok {
		state, err = s.call(&message{path: path, iface: "org.freedesktop.DBus.Properties", member: "Get", dest: first.dest},
			"org.freedesktop.systemd1.Unit", "ActiveState")
	}
	if refused(err, noSuchUnit) || refused(err, "org.freedesktop.DBus.Error.UnknownObject") { // it went between the two questions
		return false, nil
	}
	return state == "active", err
}

// do calls a method of systemd.
func (s *Slices) do(member string, args ...any) (any, error) {
	m := first.named(member)
	return s.call(&m, args...)
}

// call returns the first value of an answer. A connection that was lost meanwhile is made anew, once.
func (s *Slices) call(m *message, args ...any) (any, error) {
	ctx := context.Background() // each call has a limit of its own
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		fresh := s.c == nil
		if fresh {
			c, err := dial(ctx, s.socket)
			if err != nil {
				return nil, err
			}
			s.c = c
		}
		answer, err := s.c.call(ctx, *m, args...)
		if err == nil {
			return answer.first(), nil
		}
		if refused(err, "") {
			return nil, err
		}
		s.c.close()
		s.c = nil
		if fresh {
			return nil, err
		}
	}
}
