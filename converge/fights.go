package converge

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/resource"
)

// What bounds the search for fights. Objects are only taken apart once they change often.
const (
	often       = 5           // changes within the window that make an object suspect
	window      = time.Minute // that changes are counted in
	slots       = 4096        // objects whose changes are counted; two that share a slot only look busier
	maxSuspects = 128
	maxFields   = 32 // of one suspect
	turnsToTell = 3  // how often a value must have come back
	maxValue    = 64 // characters of a value that are told
)

// fights finds fields whose value goes back and forth. Its owner guards it.
type fights struct {
	counts   [slots]tally
	suspects map[types.UID]*suspect
}

type tally struct {
	start int64 // of the window, in seconds
	n     int32
}

// A suspect is an object that changes often.
type suspect struct {
	obj    convergence.Object
	owner  types.UID // its controller
	last   time.Time
	fields map[string]*bout
}

// A bout is what one field went through.
type bout struct {
	past     [2]string // the value before the present one, and the present one
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
	if s == nil && !f.busy(uid, now) {
		return
	}
	if routine(c.Old, c.New) {
		return
	}
	if s == nil {
		if s = f.suspect(c, now); s == nil {
			return
		}
	}
	s.last = now
	diff(tree(c.Old), tree(c.New), "", func(path, was, is string) { s.changed(path, was, is, writer(c.Old, c.New, path), now) })
}

// routine says, without taking the objects apart, that a change is of a status that one manager alone writes.
func routine(was, is resource.Object) bool {
	if is.GetGeneration() == 0 || is.GetGeneration() != was.GetGeneration() || !maps.Equal(was.GetLabels(), is.GetLabels()) || !maps.Equal(was.GetAnnotations(), is.GetAnnotations()) {
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
	h := uint32(2166136261)
	for i := range len(uid) {
		h = (h ^ uint32(uid[i])) * 16777619
	}
	t := &f.counts[h%slots]
	if sec := now.Unix(); sec-t.start >= int64(window/time.Second) {
		t.start, t.n = sec, 0
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
		f.forget(now, window)
		if len(f.suspects) >= maxSuspects {
			return nil
		}
	}
	s := &suspect{obj: objectOf(c.Kind, c.New), fields: map[string]*bout{}}
	if ref := metav1.GetControllerOfNoCopy(c.New); ref != nil {
		s.owner = ref.UID
	}
	f.suspects[c.New.GetUID()] = s
	return s
}

// forget drops suspects that did not change, or did not fight, for a while.
func (f *fights) forget(now time.Time, calm time.Duration) {
	for uid, s := range f.suspects {
		if !s.fights(now) && now.Sub(s.last) > calm || now.Sub(s.last) > fightFor {
			delete(f.suspects, uid)
		}
	}
}

// fights says that a field of the object is fought over.
func (s *suspect) fights(now time.Time) bool {
	for _, b := range s.fields {
		if b.told() && now.Sub(b.last) < fightFor {
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
		b = &bout{by: map[string]bool{}, inStatus: strings.HasPrefix(path, "status.")}
		s.fields[path] = b
	}
	if now.Sub(b.last) > fightFor { // who changes its mind a few times a day, as an autoscaler does, fights nobody
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
	b.past = [2]string{was, is}
}

// told says that it is a fight. A status that one manager sets back and forth tells of the world, not of a fight.
func (b *bout) told() bool { return b.turns >= turnsToTell && (len(b.by) > 1 || !b.inStatus) }

// list returns the fights, and forgets old ones.
func (f *fights) list(now time.Time) (out []*convergence.Fight) {
	f.forget(now, window)
	for _, s := range f.suspects {
		if owner := f.suspects[s.owner]; owner != nil && owner.fights(now) {
			continue // what happens to its controller happens to it
		}
		for _, path := range slices.Sorted(maps.Keys(s.fields)) {
			b := s.fields[path]
			if !b.told() || now.Sub(b.last) > fightFor {
				continue
			}
			values := make([]string, len(b.values))
			for i, v := range b.values {
				values[i] = clipped(v)
			}
			minutes := max(b.last.Sub(b.since).Minutes(), 1.0/60)
			out = append(out, &convergence.Fight{
				ObjectMeta: metav1.ObjectMeta{Namespace: orElse(s.obj.Namespace, "default"), Name: gapName(s.obj) + ":" + strings.ReplaceAll(path, "/", "~"), CreationTimestamp: metav1.NewTime(b.since)},
				Object:     s.obj, Field: path, Managers: slices.Sorted(maps.Keys(b.by)), Values: values, Turns: b.turns,
				Rate: fmt.Sprintf("%.0f/min", float64(b.turns)/minutes), Since: metav1.NewTime(b.since), Last: metav1.NewTime(b.last)})
		}
	}
	slices.SortFunc(out, func(a, b *convergence.Fight) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func clipped(v string) string {
	if r := []rune(v); len(r) > maxValue {
		return string(r[:maxValue]) + "…"
	}
	return v
}

// writer says who wrote the field that changed: the manager that owns it now, as far as ownership tells; among several
// the one whose entry the write changed, then the newest.
func writer(was, is resource.Object, path string) string {
	steps := strings.Split(strings.NewReplacer("[", ".[", "]", "").Replace(path), ".")
	name, best := "unknown", [3]int64{-1}
	for _, m := range is.GetManagedFields() {
		rank := [3]int64{reaches(m.FieldsV1, steps), 0, 0}
		if !slices.ContainsFunc(was.GetManagedFields(), func(o metav1.ManagedFieldsEntry) bool {
			return o.Manager == m.Manager && o.Operation == m.Operation && o.Subresource == m.Subresource && o.Time.Equal(m.Time) && sameFields(o.FieldsV1, m.FieldsV1)
		}) {
			rank[1] = 1
		}
		if m.Time != nil {
			rank[2] = m.Time.Unix()
		}
		if slices.Compare(rank[:], best[:]) > 0 {
			name, best = m.Manager, rank
		}
	}
	return name
}

// reaches says how far down a path a set of owned fields goes.
func reaches(f *metav1.FieldsV1, steps []string) (depth int64) {
	if f == nil {
		return 0
	}
	var at map[string]any
	if json.Unmarshal(f.Raw, &at) != nil {
		return 0
	}
	for i := range steps {
		// Names may have dots in them: annotations and labels do.
		for j := len(steps); j > i; j-- {
			if next, ok := at["f:"+strings.Join(steps[i:j], ".")].(map[string]any); ok {
				at, depth = next, int64(j)
				break
			}
		}
		if depth <= int64(i) {
			break
		}
	}
	return depth
}

func sameFields(a, b *metav1.FieldsV1) bool {
	return a == b || a != nil && b != nil && bytes.Equal(a.Raw, b.Raw)
}

// tree is an object as nested maps.
func tree(obj resource.Object) map[string]any {
	if t, ok := content(obj); ok {
		return t
	}
	t, err := runtime.DefaultUnstructuredConverter.ToUnstructured(resource.Opened(obj))
	if err != nil {
		return nil
	}
	return t
}

// diff tells the leaves in which two trees differ. Lists are compared item by item.
func diff(was, is any, path string, tell func(path, was, is string)) {
	a, isMap := was.(map[string]any)
	b, both := is.(map[string]any)
	if !isMap || !both {
		x, xs := was.([]any)
		y, ys := is.([]any)
		if xs && ys && len(x) == len(y) {
			for i := range x {
				diff(x[i], y[i], fmt.Sprintf("%s[%d]", path, i), tell)
			}
			return
		}
		if s, t := leaf(was), leaf(is); s != t {
			tell(path, s, t)
		}
		return
	}
	for key := range keysOf(a, b) {
		at := strings.TrimPrefix(path+"."+key, ".")
		if !silent[at] && !strings.HasSuffix(at, "Time") {
			diff(a[key], b[key], at, tell)
		}
	}
}

// silent are fields that change with every write, or by themselves.
var silent = map[string]bool{"metadata.resourceVersion": true, "metadata.managedFields": true, "metadata.generation": true, "status.observedGeneration": true,
	"metadata.annotations.deployment.kubernetes.io/revision": true}

// keysOf is the keys of two maps.
func keysOf(a, b map[string]any) map[string]bool {
	keys := make(map[string]bool, len(a)+len(b))
	for k := range a {
		keys[k] = true
	}
	for k := range b {
		keys[k] = true
	}
	return keys
}

// leaf is a value as text.
func leaf(v any) string {
	if v == nil {
		return "(unset)"
	}
	s := fmt.Sprint(v)
	if len(s) > 4*maxValue {
		s = s[:4*maxValue]
	}
	return s
}
