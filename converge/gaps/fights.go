package gaps

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/resource"
)

// What bounds the search for fights. Objects are only taken apart once they change often, or come to be changed again and again.
const (
	often       = 5             // changes within the window that make an object suspect
	window      = time.Minute   // that changes are counted in
	slots       = 4096          // objects whose changes are counted
	longest     = 6 * time.Hour // between two turns of a fight
	maxSuspects = 128
	maxFields   = 32 // of one suspect
	turnsToTell = 3  // how often a value must have come back
	maxValue    = 64 // characters of a value that are shown
)

// fights finds fields whose value goes back and forth. Its owner guards it.
type fights struct {
	counts   [slots]tally
	slow     slow
	suspects map[types.UID]*suspect
	full     time.Time // when there was last no room for a suspect
}

// A tally counts the changes of one object. Of objects that share one, the busiest is counted.
type tally struct {
	start int64 // of the window, in seconds
	n     int32
	whose uint32 // by hash
}

// A suspect is an object that changes often.
type suspect struct {
	obj    convergence.Object
	owner  types.UID // its controller
	last   time.Time
	fields map[string]*bout
}

// A bout is the history of one field.
type bout struct {
	past     [2]string // the value before the present one, and the present one
	who      string    // made it the present one
	by       map[string]bool
	values   []string
	turns    int64
	since    time.Time
	last     time.Time
	inStatus bool
}

// see takes in one change.
func (f *fights) see(c *client.Change, now time.Time) {
	if c.Old == nil || c.New == nil || noise[c.Kind.Info().GR()] {
		if c.New == nil && c.Old != nil {
			delete(f.suspects, c.Old.GetUID())
		}
		return
	}
	uid := c.New.GetUID()
	s := f.suspects[uid]
	busy := s == nil && f.busy(uid, now)
	if routine(c.Old, c.New) {
		return
	}
	switch {
	case busy:
		s = f.suspect(c, now)
	case s == nil:
		if f.slow.due(uid, now) {
			f.seeSlow(c, now)
		}
	}
	if s == nil {
		return
	}
	s.last = now
	diff(tree(c.Old), tree(c.New), "", func(path, was, is string) { s.changed(path, was, is, writer(c.Old, c.New, path), now) })
}

// routine says, without taking the objects apart, that a change is of a status that one manager alone writes.
func routine(was, is resource.Object) bool {
	if is.GetGeneration() == 0 || is.GetGeneration() != was.GetGeneration() || !maps.Equal(was.GetLabels(), is.GetLabels()) ||
		!maps.Equal(was.GetAnnotations(), is.GetAnnotations()) {
		return false
	}
	by := ""
	for _, m := range is.GetManagedFields() {
		switch {
		case m.Subresource != "status" || m.Manager == by:
		case by != "":
			return false
		default:
			by = m.Manager
		}
	}
	return by != ""
}

// busy counts a change and says whether the object changes often.
func (f *fights) busy(uid types.UID, now time.Time) bool {
	hash, sec := maphash.String(seed, string(uid)), now.Unix()
	t, whose := &f.counts[hash%slots], uint32(hash>>32)
	if t.n == 0 || sec-t.start >= int64(window/time.Second) {
		*t = tally{start: sec, whose: whose}
	}
	if t.whose != whose {
		t.n--
		return false
	}
	t.n++
	return t.n >= often
}

// suspect makes an object one, in the place of one that has been calm for long.
func (f *fights) suspect(c *client.Change, now time.Time) *suspect {
	if f.suspects == nil {
		f.suspects = map[types.UID]*suspect{}
	}
	if len(f.suspects) >= maxSuspects {
		if now.Sub(f.full) < time.Second {
			return nil
		}
		f.forget(now, window)
		if len(f.suspects) >= maxSuspects {
			f.full = now
			return nil
		}
	}
	s := &suspect{obj: converge.ObjectOf(c.Kind, c.New), fields: map[string]*bout{}}
	if ref := metav1.GetControllerOfNoCopy(c.New); ref != nil {
		s.owner = ref.UID
	}
	f.suspects[c.New.GetUID()] = s
	return s
}

// forget drops suspects that did not change, or did not fight, for a while.
func (f *fights) forget(now time.Time, calm time.Duration) {
	for uid, s := range f.suspects {
		if !s.fights(now) && now.Sub(s.last) > calm {
			delete(f.suspects, uid)
		}
	}
}

// fights says that a field of the object is fought over.
func (s *suspect) fights(now time.Time) bool {
	for _, b := range s.fields {
		if b.told(now) {
			return true
		}
	}
	return false
}

// changed takes in a new value of a field.
func (s *suspect) changed(path, was, is, by string, now time.Time) {
	b := s.fields[path]
	if b == nil {
		if len(s.fields) >= maxFields {
			return
		}
		b = &bout{by: map[string]bool{}, inStatus: tells(s.obj.Resource, path)}
		s.fields[path] = b
	}
	// Who changes its mind a few times a day, as an autoscaler does, fights nobody; two who take turns do.
	if pause := now.Sub(b.last); pause > longest || pause > fightFor && by == b.who {
		b.turns, b.values = 0, nil
		clear(b.by)
	}
	if b.past[0] == is && b.past[1] == was && is != was { // back to what it was
		if b.turns++; b.turns == 1 {
			b.since = now
		}
		b.last = now
		if len(b.by) < 4 {
			b.by[by] = true
		}
		for _, v := range b.past {
			if !slices.Contains(b.values, v) && len(b.values) < 4 {
				b.values = append(b.values, v)
			}
		}
	}
	b.past, b.who = [2]string{was, is}, by
}

// tells says that a field tells of the world: what is in a status, endpoints, which follow the pods, and a Node's annotations, in which
// agents tell of their machine.
func tells(resource, path string) bool {
	return strings.HasPrefix(path, "status.") || resource == "endpoints" || resource == "endpointslices.discovery.k8s.io" ||
		resource == "nodes" && strings.HasPrefix(path, "metadata.annotations.")
}

// told says that it is a fight, and goes on as far as one can know: its turns do not come as before for long. What
// tells of the world goes back and forth by itself: there it takes two managers.
func (b *bout) told(now time.Time) bool {
	if b.turns < turnsToTell || len(b.by) < 2 && b.inStatus {
		return false
	}
	usual := b.last.Sub(b.since) / time.Duration(b.turns-1)
	return now.Sub(b.last) <= max(fightFor, turnsToTell*usual)
}

// rate is the number of turns that there are in a minute, or in an hour.
func (b *bout) rate() string {
	perMinute := float64(b.turns) / max(b.last.Sub(b.since).Minutes(), 1.0/60)
	if perMinute < 1 {
		return fmt.Sprintf("%.0f/h", perMinute*60)
	}
	return fmt.Sprintf("%.0f/min", perMinute)
}

// list returns the fights, and forgets old ones.
func (f *fights) list(now time.Time) (out []*convergence.Fight) {
	f.forget(now, window)
	for _, s := range f.suspects {
		if owner := f.suspects[s.owner]; owner != nil && owner.fights(now) {
			continue // what happens to its controller happens to it
		}
		for _, path := range slices.Sorted(maps.Keys(s.fields)) {
			b := s.fields[path]
			if !b.told(now) {
				continue
			}
			values := make([]string, len(b.values))
			for i, v := range b.values {
				values[i] = clipped(v)
				if s.obj.Resource == "secrets" {
					values[i] = hidden // annotations repeat data
				}
			}
			out = append(out, &convergence.Fight{
				ObjectMeta: metav1.ObjectMeta{Namespace: cmp.Or(s.obj.Namespace, "default"),
					Name: converge.GapName(s.obj) + ":" + strings.ReplaceAll(path, "/", "~"), CreationTimestamp: metav1.NewTime(b.since)},
				Object: s.obj, Field: path, Managers: slices.Sorted(maps.Keys(b.by)), Values: values, Turns: b.turns,
				Rate: b.rate(), Since: metav1.NewTime(b.since), Last: metav1.NewTime(b.last)})
		}
	}
	slices.SortFunc(out, func(a, b *convergence.Fight) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// hidden stands in the place of the content of Secrets.
const hidden = "(hidden)"

func clipped(v string) string {
	if r := []rune(v); len(r) > maxValue {
		return string(r[:maxValue]) + "…"
	}
	return v
}
