package systemd

import (
	"context"
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A manager of units on a bus: what it was asked to do, and its slices with their properties.
type units struct {
	*conn
	mu     sync.Mutex
	asked  []string
	active map[string]map[string]any
	known  string // a slice that it knows and does not run
	away   int    // questions about units that are not answered, as while systemd starts again
}

func manage(t *testing.T, socket string) *units {
	t.Helper()
	c, err := dial(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	u := &units{conn: c, active: map[string]map[string]any{}}
	m := message{path: "/org/freedesktop/DBus", iface: "org.freedesktop.DBus", member: "RequestName", dest: "org.freedesktop.DBus"}
	if _, err := c.call(t.Context(), m, first.dest, uint32(0)); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(func() {
		stop()
		c.close()
		<-done
	})
	go func() {
		defer close(done)
		defer c.until(ctx, time.Time{})()
		for {
			m, err := c.receive()
			if err != nil {
				return // the test is over
			}
			if m.kind == methodCall {
				u.answer(m)
			}
		}
	}()
	return u
}

// read takes a call's name of a unit, what follows it, and an array of properties.
func read(m message) (name string, props map[string]any) {
	r := reader{b: m.body, ord: m.order}
	if !strings.HasPrefix(m.signature, "s") {
		return "", nil
	}
	name = r.text()
	switch m.signature {
	case "ssa(sv)a(sa(sv))":
		r.text()
	case "sba(sv)":
		r.number()
	default:
		return name, nil
	}
	n := int(r.number())
	r.take(0, 8)
	props = map[string]any{}
	for end := r.at + n; r.at < end && !r.bad; {
		r.take(0, 8)
		key := r.text()
		props[key] = r.value("v")
	}
	return name, props
}

func (u *units) answer(m message) {
	u.mu.Lock()
	defer u.mu.Unlock()
	name, props := read(m)
	if m.member != "Get" && m.member != "GetUnit" {
		u.asked = append(u.asked, m.member+" "+name)
	}
	u.serial++
	back := message{kind: methodReturn, serial: u.serial + 1000, reply: m.serial, dest: m.sender}
	say := func(v any) {
		var w writer
		back.signature = w.put(v)
		back.body = w.b
	}
	path := "/unit/" + strings.NewReplacer(".", "_2e", "-", "_2d").Replace(name)
	switch {
	case m.member == "GetUnit" && u.away > 0:
		u.away--
		back.kind, back.failed = failure, "org.freedesktop.DBus.Error.ServiceUnknown"
	case m.member == "Get":
		back.signature, back.body = "v", append([]byte{1, 's', 0, 0}, binary.LittleEndian.AppendUint32(nil, 6)...)
		back.body = append(back.body, "active\x00"...)
	case m.member == "StartTransientUnit" && name == u.known:
		back.kind, back.failed = failure, unitExists
	case m.member == "StartTransientUnit", m.member == "StartUnit":
		if u.active[name] = props; props == nil {
			u.active[name] = map[string]any{}
		}
		say(path)
		back.signature = "o"
	case u.active[name] == nil && m.member != "StartUnit" && name != u.known:
		back.kind, back.failed = failure, noSuchUnit
	case m.member == "GetUnit" && name == u.known && u.active[name] == nil:
		back.kind, back.failed = failure, noSuchUnit
	case m.member == "GetUnit", m.member == "StopUnit":
		if m.member == "StopUnit" {
			delete(u.active, name)
		}
		say(path)
		back.signature = "o"
	case m.member == "SetUnitProperties":
		maps.Copy(u.active[name], props)
	}
	if _, err := u.c.Write(back.bytes()); err != nil {
		u.asked = append(u.asked, err.Error())
	}
}

// done takes what was asked since the last time.
func (u *units) done() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	text := strings.Join(u.asked, ", ")
	u.asked = nil
	return text
}

// A bus that others wrote lets through what is sent (it checks every byte): slices are made, changed and ended, also by several at once
// and after the bus's connection was lost.
func TestSlices(t *testing.T) {
	socket := bus(t)
	s := NewSlices(socket)
	if err := s.Set("a.slice", nil); err == nil || !strings.Contains(err.Error(), "a.slice") {
		t.Errorf("without systemd: %v", err)
	}
	u := manage(t, socket)
	want := func(err error, asked string) {
		t.Helper()
		if got := u.done(); err != nil || got != asked {
			t.Errorf("asked %q, want %q; %v", got, asked, err)
		}
	}
	want(s.Set("a.slice", []Property{{"MemoryMax", uint64(5 << 30)}, {"CPUWeight", uint64(100)}}), "StartTransientUnit a.slice")
	want(s.Set("a.slice", []Property{{"MemoryMax", uint64(1 << 40)}}), "SetUnitProperties a.slice")
	u.mu.Lock()
	for key, v := range map[string]any{"MemoryMax": uint64(1 << 40), "CPUWeight": uint64(100), "TasksAccounting": true,
		"DefaultDependencies": false, "Description": "pods of kloop"} {
		if got := u.active["a.slice"][key]; got != v {
			t.Errorf("%s is %v, want %v (of %v)", key, got, v, slices.Sorted(maps.Keys(u.active["a.slice"])))
		}
	}
	u.known = "known.slice"
	u.mu.Unlock()
	var all sync.WaitGroup
	for _, name := range []string{"b.slice", "b-c.slice", "b-d.slice"} {
		all.Go(func() {
			if err := s.Set(name, []Property{{"TasksMax", uint64(7)}}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	u.done()
	want(s.Set("known.slice", nil), "StartTransientUnit known.slice, StartUnit known.slice, SetUnitProperties known.slice")
	s.c.close() // as when the bus is started again
	want(s.Stop("a.slice"), "StopUnit a.slice")
	want(s.Stop("a.slice"), "StopUnit a.slice")
	u.mu.Lock()
	u.away = 3
	u.mu.Unlock()
	want(s.Stop("b.slice"), "StopUnit b.slice")
	u.mu.Lock()
	if u.away != 0 {
		t.Errorf("a slice that nobody told of was taken for ended: %d questions were left", u.away)
	}
	u.mu.Unlock()
}
