package view_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

// model is the view in its simplest form: what every read must answer.
type model map[string]*corev1.Pod // by storage key below the prefix

func (m model) where(match func(*corev1.Pod) bool) (keys []string) {
	for key, p := range m {
		if match(p) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys) // of the store: a-b/x before a/x
	return keys
}

var (
	someNS    = rapid.SampledFrom([]string{"a", "a-b", "a0", "b"})
	someName  = rapid.SampledFrom([]string{"one", "two", "three", "two.5", "a"})
	someValue = rapid.SampledFrom([]string{"", "x", "y"})
)

func somePod(t *rapid.T) *corev1.Pod {
	p := pod(someNS.Draw(t, "namespace"), someName.Draw(t, "name"))
	p.UID = types.UID(rapid.SampledFrom([]string{"1", "2"}).Draw(t, "uid"))
	p.Labels = rapid.MapOf(rapid.SampledFrom([]string{"app", "tier"}), someValue).Draw(t, "labels")
	for _, uid := range rapid.SliceOfN(someValue, 0, 3).Draw(t, "owners") {
		p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{UID: types.UID(uid)})
	}
	p.Spec.NodeName = someValue.Draw(t, "node")
	return p
}

func keyOf(o resource.Object) string { return o.GetNamespace() + "/" + o.GetName() }

// moment is a snapshot and what it must show for ever.
type moment struct {
	s *view.Snapshot
	m model
}

func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v, now, rev := view.NewWith(resource.NewSet(pods), view.Config{Guard: true}), model{}, int64(1)
		replayed, cursor := model{}, v.Cursor(0, pods)
		var moments []moment
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			rev++
			p := somePod(t)
			p.ResourceVersion = fmt.Sprint(rev)
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			default:
				now[keyOf(p)] = p
				v.Update(pods, rev, p.DeepCopy(), false)
			case 1, 2:
				delete(now, keyOf(p))
				v.Update(pods, rev, p.DeepCopy(), true)
			case 3:
				replaceSome(t, v, now, p, rev)
			case 4:
				copied := model{}
				for key, p := range now {
					copied[key] = p
				}
				moments = append(moments, moment{v.Snapshot(), copied})
			case 5:
				replay(t, replayed, cursor)
			}
		}
		for _, x := range append(moments, moment{v.Snapshot(), now}) {
			compare(t, x.s, x.m)
		}
		replay(t, replayed, cursor)
		if got, want := fmt.Sprint(replayed.where(all)), fmt.Sprint(now.where(all)); got != want {
			t.Fatalf("changes lead to %s, the state is %s", got, want)
		}
		if err := view.CheckFrozen(v.Snapshot()); err != nil {
			t.Fatal(err)
		}
	})
}

func all(*corev1.Pod) bool { return true }

// replaceSome lists anew: most objects as they are, p in or out.
func replaceSome(t *rapid.T, v *view.View, now model, p *corev1.Pod, rev int64) {
	if rapid.Bool().Draw(t, "gone") {
		delete(now, keyOf(p))
	} else {
		now[keyOf(p)] = p
	}
	var list []resource.Object
	for _, key := range now.where(all) {
		list = append(list, now[key].DeepCopy())
	}
	v.Replace(pods, rev, list)
}

// replay applies the cursor's changes, each of which must fit what was there.
func replay(t *rapid.T, m model, c *view.Cursor) {
	b, err := c.TryNext()
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Changes) > 0 {
		defer replay(t, m, c)
	}
	for _, x := range b.Changes {
		if x.Old != nil {
			if m[keyOf(x.Old.Object)] != x.Old.Object {
				t.Fatalf("change at %d replaces what was not there", x.Rev)
			}
			delete(m, keyOf(x.Old.Object))
		} else if m[keyOf(x.New.Object)] != nil {
			t.Fatalf("change at %d creates what was there", x.Rev)
		}
		if x.New != nil {
			m[keyOf(x.New.Object)] = x.New.Object.(*corev1.Pod)
		}
	}
}

func compare(t *rapid.T, s *view.Snapshot, m model) {
	check := func(what string, want []string, got func(yield func(resource.Object) bool)) {
		var keys []string
		for o := range got {
			keys = append(keys, keyOf(o))
			if rev := o.GetResourceVersion(); m[keyOf(o)] == nil || m[keyOf(o)].ResourceVersion != rev {
				t.Fatalf("%s: %s at %s", what, keyOf(o), rev)
			}
		}
		if !slices.Equal(keys, want) {
			t.Fatalf("%s: %v, want %v", what, keys, want)
		}
	}
	for _, ns := range []string{"", "a", "a-b", "a0", "b", "c"} {
		in := func(p *corev1.Pod) bool { return ns == "" || p.Namespace == ns }
		check("each in "+ns, m.where(in), s.Each(pods, ns))
		if n := s.Count(pods, ns); n != len(m.where(in)) {
			t.Fatalf("count %d in %q, want %d", n, ns, len(m.where(in)))
		}
		if n := s.CountTo(pods, ns, 2); n != min(2, len(m.where(in))) {
			t.Fatalf("count to 2 is %d in %q, want %d", n, ns, min(2, len(m.where(in))))
		}
		for _, value := range []string{"", "x", "y", "z"} {
			check("label", m.where(func(p *corev1.Pod) bool { x, ok := p.Labels["app"]; return ok && x == value && in(p) }),
				s.ByLabel(pods, ns, "app", value))
		}
		for _, from := range []string{"a/", "a/one", "a/two", "a-b/two", "a0/z", "b/two", "c/"} {
			var want, got []string
			for _, key := range m.where(in) {
				if key > from {
					want = append(want, key)
				}
			}
			for e := range s.Entries(pods, ns, from) {
				got = append(got, keyOf(e.Object))
			}
			if !slices.Equal(got, want) {
				t.Fatalf("entries in %q from %s: %v, want %v", ns, from, got, want)
			}
		}
	}
	for _, value := range []string{"", "x", "y", "z"} {
		check("field", m.where(func(p *corev1.Pod) bool { return p.Spec.NodeName == value }),
			s.ByField(pods, "spec.nodeName", value))
		check("owner", m.where(func(p *corev1.Pod) bool {
			return slices.ContainsFunc(p.OwnerReferences, func(o metav1.OwnerReference) bool { return string(o.UID) == value })
		}), s.ByOwner(pods, value))
	}
	for key := range m {
		ns, name, _ := strings.Cut(key, "/")
		if o := s.Lookup(pods, ns, name); o == nil || keyOf(o) != key {
			t.Fatalf("lookup %s: %v", key, o)
		}
	}
	if s.Lookup(pods, "a", "missing") != nil {
		t.Fatal("found what is missing")
	}
}
