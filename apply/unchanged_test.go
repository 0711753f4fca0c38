package apply

import (
	"math/rand"
	"reflect"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
)

// TestNothingIsNothing applies random configurations again, some of them changed, and checks with the library that
// what is said to change nothing does change nothing.
func TestNothingIsNothing(t *testing.T) {
	tr := NewTracker()
	hits, total := 0, 0
	for i, k := range allKinds(t) {
		for seed := range rounds {
			h, n := applyAgain(t, tr, k, int64(i*rounds+seed))
			hits, total = hits+h, total+n
		}
	}
	if created < rounds*10 {
		t.Errorf("%d fast creations", created)
	}
	if differing*20 < total {
		t.Errorf("%d fast changes", differing)
	}
	t.Logf("%d fast creations, %d fast changes, %d of %d applies were seen to change nothing", created, differing, hits, total)
	if hits*20 < total {
		t.Errorf("only %d of %d applies were seen to change nothing", hits, total)
	}
}

func applyAgain(t *testing.T, tr *Tracker, k *anyKind, seed int64) (hits, total int) {
	r := rand.New(rand.NewSource(seed))
	obj := k.New(k.info.GVK)
	filler(seed).Fill(obj)
	clearMeta(obj)
	obj.GetObjectKind().SetGroupVersionKind(k.info.GVK)
	doc, err := content(obj)
	if err != nil {
		t.Fatal(err)
	}
	withoutNulls(doc)
	w := Write{Kind: k, GVK: k.info.GVK, Manager: "m", Now: time.Unix(1000, 0)}
	m, err := tr.smdFor(&w)
	if err != nil {
		t.Fatal(err)
	}
	old, err := m.apply(&w, nil, runtime.DeepCopyJSON(doc), false)
	compareCreate(t, tr, &w, doc, old, err)
	if err != nil {
		return 0, 0 // a list item twice, or without a key
	}
	old.SetUID("u")
	if r.Intn(2) == 0 { // somebody else changes something
		obj := resource.Clone(old)
		mutateSome(reflect.ValueOf(obj).Elem(), filler(seed), r, 3)
		obj.SetUID("u")
		obj.SetName("a")
		obj.SetNamespace("")
		obj.GetObjectKind().SetGroupVersionKind(k.info.GVK)
		obj.SetManagedFields(old.GetManagedFields())
		other := Write{Kind: k, GVK: k.info.GVK, Manager: "other", Now: w.Now}
		if m.update(&other, old, obj) == nil {
			keep := obj.GetManagedFields()
			obj.SetManagedFields(nil)
			old = decoded(t, k, obj)
			old.SetManagedFields(keep)
		}
	}
	before, _ := codec.MarshalJSON(old)
	for range 8 {
		total++
		w.Now = w.Now.Add(time.Minute)
		if r.Intn(4) == 0 {
			disturb(r, doc)
		}
		compareChange(t, tr, m, &w, old, doc)
		if !tr.appliesNothing(&w, old, doc) {
			continue
		}
		hits++
		out, err := m.apply(&w, old, runtime.DeepCopyJSON(doc), false)
		if err != nil {
			t.Fatalf("%s: nothing to change, but %v", w.GVK, err)
		}
		if after, _ := codec.MarshalJSON(out); string(after) != string(before) {
			t.Fatalf("%s: nothing to change, but it did:\n%s\n%s\n%v", w.GVK, before, after, doc)
		}
	}
	return hits, total
}

// created counts how often compareCreate met a fast creation.
var created int

// compareCreate compares the fast creation with the library's.
func compareCreate(t *testing.T, tr *Tracker, w *Write, doc map[string]any, want resource.Object, err error) {
	t.Helper()
	got := tr.fastCreate(w, runtime.DeepCopyJSON(doc))
	switch {
	case got == nil:
	case err != nil:
		t.Fatalf("%s: created, but the library fails: %v", w.GVK, err)
	default:
		created++
		if a, b := show(got)+dump(got), show(want)+dump(want); a != b {
			t.Fatalf("%s: created\n%s\nwant\n%s", w.GVK, a, b)
		}
	}
}

// applied counts how often compareChange met a fast change, differing how often it changed a value.
var applied, differing int

// compareChange compares the fast change with the library's.
func compareChange(t *testing.T, tr *Tracker, m *smd, w *Write, old resource.Object, doc map[string]any) {
	t.Helper()
	before := show(old) + dump(old)
	got := tr.fastChange(w, old, runtime.DeepCopyJSON(doc))
	if show(old)+dump(old) != before {
		t.Fatalf("%s: the old object changed", w.GVK)
	}
	if got == nil {
		return
	}
	if applied++; show(got)+dump(got) != before {
		differing++
	}
	want, err := m.apply(w, old, runtime.DeepCopyJSON(doc), false)
	if err != nil {
		t.Fatalf("%s: changed, but the library fails: %v\n%s\n%v", w.GVK, err, before, doc)
	}
	KeepTimes(old, got)
	KeepTimes(old, want)
	if a, b := show(got)+dump(got), show(want)+dump(want); a != b {
		t.Fatalf("%s: made\n%s\nwant\n%s\nof\n%s\nby %v", w.GVK, a, b, before, doc)
	}
}

// clearMeta leaves a name and what a user may set.
func clearMeta(obj resource.Object) {
	labels, notes := obj.GetLabels(), obj.GetAnnotations()
	obj.SetManagedFields(nil)
	obj.SetCreationTimestamp(metav1.Time{})
	obj.SetUID("")
	obj.SetResourceVersion("")
	obj.SetSelfLink("")
	obj.SetGeneration(0)
	obj.SetNamespace("")
	obj.SetName("a")
	obj.SetLabels(labels)
	obj.SetAnnotations(notes)
}

// withoutNulls drops what a user would not write.
func withoutNulls(v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if e == nil {
				delete(v, k)
			}
			withoutNulls(e)
		}
	case []any:
		for _, e := range v {
			withoutNulls(e)
		}
	}
}

// disturb changes something somewhere.
func disturb(r *rand.Rand, v any) {
	switch v := v.(type) {
	case map[string]any:
		names := make([]string, 0, len(v))
		for k := range v {
			if k != "apiVersion" && k != "kind" && k != "name" {
				names = append(names, k)
			}
		}
		if len(names) == 0 {
			return
		}
		slices.Sort(names)
		k := names[r.Intn(len(names))]
		switch e := v[k].(type) {
		case int64:
			v[k] = e + 1
			return
		case bool:
			v[k] = !e
			return
		}
		switch r.Intn(8) {
		case 0:
			delete(v, k)
		case 1:
			v[k] = "b"
		default:
			disturb(r, v[k])
		}
	case []any:
		if len(v) > 1 && r.Intn(2) == 0 {
			v[0], v[1] = v[1], v[0]
		} else if len(v) > 0 {
			disturb(r, v[r.Intn(len(v))])
		}
	}
}
