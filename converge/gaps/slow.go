package gaps

import (
	"cmp"
	"hash/maphash"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
)

// What bounds the search for fights whose turns come minutes or hours apart.
const (
	slowOften  = 3                // changes, apart from each other, after which an object is taken apart at each
	apart      = 10 * time.Second // those that come closer count as one
	slowFields = 2048             // fields whose values are remembered
	ways       = 4                // that a field may be remembered in
	lookRate   = 10               // objects taken apart in a second, in the long run
	lookBurst  = 100              // and at once
)

// slow remembers, of objects that are changed now and then, what their fields were: by hashes, in a space that does not
// grow. A field that two managers set in turns, each to its own value, becomes a suspect's once it is a fight.
type slow struct {
	counts [slots]tally
	fields [slowFields]flip
	spare  float64 // looks that may be taken
	filled time.Time
}

// A flip is the memory of one field.
type flip struct {
	key         uint64 // of object and field; 0: none
	was, is     uint64 // hashes of the value before the present one, and of the present one
	turns       int32
	since, last int64 // the first and the last turn, or change, in seconds
}

// due counts a change that is worth a look, and says whether to take one.
func (s *slow) due(uid types.UID, now time.Time) bool {
	t, sec := &s.counts[maphash.String(seed, string(uid))%slots], now.Unix()
	switch pause := time.Duration(sec-t.start) * time.Second; {
	case pause > longest:
		t.start, t.n = sec, 1
	case pause >= apart:
		t.start, t.n = sec, min(t.n+1, slowOften)
	}
	if t.n < slowOften {
		return false
	}
	s.spare = min(s.spare+lookRate*now.Sub(s.filled).Seconds(), lookBurst)
	s.filled = now
	if s.spare < 1 {
		return false
	}
	s.spare--
	return true
}

// field returns the memory of a field; one that was forgotten for it, or never known, is new.
func (s *slow) field(key uint64, now time.Time) *flip {
	at := int(key%(slowFields/ways)) * ways
	set := s.fields[at : at+ways]
	for i := range set {
		if set[i].key == key {
			return &set[i]
		}
	}
	old := now.Add(-longest).Unix()
	i := slices.IndexFunc(set, func(f flip) bool { return f.last < old })
	if i < 0 {
		least := slices.MinFunc(set, func(a, b flip) int { return cmp.Or(cmp.Compare(a.turns, b.turns), cmp.Compare(a.last, b.last)) })
		i = slices.IndexFunc(set, func(f flip) bool { return f.key == least.key })
	}
	set[i] = flip{key: key}
	return &set[i]
}

// seeSlow takes a change apart, and makes the object a suspect when a field of it has been set back and forth by two.
func (f *fights) seeSlow(c *client.Change, now time.Time) {
	uid, left := string(c.New.GetUID()), maxFields
	diff(tree(c.Old), tree(c.New), "", func(path, was, is string) {
		if left--; left < 0 {
			return
		}
		m := f.slow.field(maphash.String(seed, uid+" "+path)|1, now)
		a, b := maphash.String(seed, was), maphash.String(seed, is)
		back := m.was == b && m.is == a && a != b && now.Sub(time.Unix(m.last, 0)) <= longest
		m.was, m.is = a, b
		if !back {
			m.turns, m.last = 0, now.Unix()
			return
		}
		before, by := writer(c.Old, c.Old, path), writer(c.Old, c.New, path)
		if before == by {
			m.turns, m.last = 0, now.Unix()
			return
		}
		if m.turns++; m.turns == 1 {
			m.since = now.Unix()
		}
		if m.last = now.Unix(); m.turns < turnsToTell {
			return
		}
		s := f.suspects[c.New.GetUID()]
		if s == nil {
			if s = f.suspect(c, now); s == nil {
				return
			}
		}
		s.last = now
		s.fields[path] = &bout{past: [2]string{was, is}, who: by, by: map[string]bool{before: true, by: true}, values: []string{was, is},
			turns: int64(m.turns), since: time.Unix(m.since, 0), last: now, inStatus: tells(s.obj.Resource, path)}
	})
}
