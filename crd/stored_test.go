package crd

import (
	"encoding/json"
	"reflect"
	"runtime"
	"testing"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
)

// pack makes what lies in memory of a text.
func pack(t testing.TB, k *Kind, text string, rev int64) *Stored {
	t.Helper()
	o := &Object{read: k.hub}
	if err := json.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	value, err := codec.Stored(k, o)
	if err != nil {
		t.Fatal(err)
	}
	s, ok := k.Pack(o, value, rev).(*Stored)
	if !ok {
		t.Fatal("it is not packed")
	}
	return s
}

// What a stored object says of its metadata is what the tree says.
func TestStoredMetadata(t *testing.T) {
	k := databaseKind(t)
	for _, meta := range []string{
		`{}`,
		`{"name":"a"}`,
		`{"name":"a","uid":"u"}`,
		`{"uid":"u"}`,
		`{"annotations":{"a":"b \"c\" \\"},"name":"a\\","namespace":"ns"}`,
		`{"annotations":{"q\"q":"}{","z":"<é>\n"},"creationTimestamp":"2026-01-01T00:00:00Z","deletionGracePeriodSeconds":0,` +
			`"deletionTimestamp":"2026-01-02T00:00:00Z",
		"finalizers":["a/b","c"],"generateName":"g-","generation":7,"labels":{"x":"y","z":""},
		  "managedFields":[{"apiVersion":"example.com/v1","fieldsType":"FieldsV1",
		"fieldsV1":{"f:spec":{".":{},"f:a":{}}},"manager":"m","operation":"Update","time":"2026-01-01T00:00:00Z"}],"name":"n","namespace":"ns",
		"ownerReferences":[{"apiVersion":"v1","kind":"A","name":"o","uid":"ou","controller":true}],"selfLink":"s","uid":"u"}`,
	} {
		s := pack(t, k, `{"apiVersion":"example.com/v1","kind":"Database","metadata":`+meta+`,"spec":{"metadata":{"name":"other"}}}`, 42)
		o := s.open()
		for _, c := range []struct {
			name      string
			got, want any
		}{
			{"resourceVersion", s.GetResourceVersion(), "42"}, {"of the tree", o.GetResourceVersion(), "42"},
			{"name", s.GetName(), o.GetName()}, {"namespace", s.GetNamespace(), o.GetNamespace()}, {"generateName", s.GetGenerateName(),
				o.GetGenerateName()},
			{"uid", s.GetUID(), o.GetUID()}, {"selfLink", s.GetSelfLink(), o.GetSelfLink()}, {"generation", s.GetGeneration(), o.GetGeneration()},
			{"labels", s.GetLabels(), o.GetLabels()}, {"annotations", s.GetAnnotations(), o.GetAnnotations()}, {"finalizers",
				s.GetFinalizers(), o.GetFinalizers()},
			{"owners", s.GetOwnerReferences(), o.GetOwnerReferences()}, {"managedFields", s.GetManagedFields(), o.GetManagedFields()},
			{"grace", s.GetDeletionGracePeriodSeconds(), o.GetDeletionGracePeriodSeconds()},
			{"created", s.GetCreationTimestamp().UTC(), o.GetCreationTimestamp().UTC()},
			{"deleted", s.GetDeletionTimestamp().Equal(o.GetDeletionTimestamp()), true},
			{"type", s.GroupVersionKind(), o.GroupVersionKind()},
		} {
			if !reflect.DeepEqual(c.got, c.want) {
				t.Errorf("%s\n%s: %v, want %v", meta, c.name, c.got, c.want)
			}
		}
		if want, err := codec.Stored(k, s.open()); err != nil || string(s.MakeStored()) != string(want) {
			t.Errorf("stores %s, want %s, %v", s.MakeStored(), want, err)
		}
		// As if it had been encoded with its revision at once, and again with another one.
		for _, rev := range []int64{42, 7, 100_000} {
			again := s.Stamped(rev).(*Stored)
			o.SetResourceVersion(again.GetResourceVersion())
			if want, _ := codec.MarshalJSON(o); string(again.EncodedJSON(nil)) != string(want) {
				t.Errorf("at %d: %s\nwant %s", rev, again.EncodedJSON(nil), want)
			}
		}
	}
}

func TestStoredNeverChanges(t *testing.T) {
	k := databaseKind(t)
	s := pack(t, k, oneLine(database), 5)
	before := string(s.EncodedJSON(nil))
	c := resource.Clone[resource.Object](s)
	c.SetName("other")
	resource.Opened(s).SetLabels(nil)
	s.UnstructuredContent()["spec"] = 1
	if string(s.EncodedJSON(nil)) != before || s.GetName() != "database-00001" {
		t.Error("a copy is no copy")
	}
	defer func() {
		if recover() == nil {
			t.Error("a stored object can be changed")
		}
	}()
	s.SetName("other")
}

// What is not of the stored version stays a tree: it has yet to become what it is to be.
func TestPackLeavesOthers(t *testing.T) {
	k := databaseKind(t)
	o := &Object{}
	o.Object = map[string]any{"apiVersion": "example.com/v2", "kind": "Database", "metadata": map[string]any{"name": "a"}}
	if _, ok := k.Pack(o, nil, 1).(*Stored); ok {
		t.Error("an object of another version is packed")
	}
}

// What differs beside the metadata is told without the object being opened, and nothing else is said to differ.
func TestStoredDiffers(t *testing.T) {
	k := databaseKind(t)
	s := pack(t, k, oneLine(database), 5)
	for _, c := range []struct {
		name    string
		change  func(o map[string]any)
		differs bool
	}{
		{"nothing", func(map[string]any) {}, false},
		{"metadata", func(o map[string]any) { o["metadata"].(map[string]any)["labels"] = nil }, false},
		{"a field", func(o map[string]any) { o["spec"].(map[string]any)["engine"] = "b" }, true},
		{"a member more", func(o map[string]any) { o["status"] = map[string]any{} }, true},
		{"a member less", func(o map[string]any) { delete(o, "spec") }, true},
		{"another member", func(o map[string]any) { delete(o, "spec"); o["status"] = map[string]any{} }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := s.open()
			if c.change(o.Object); s.Differs(o) != c.differs {
				t.Errorf("differs %v, want %v", !c.differs, c.differs)
			}
		})
	}
	if s.Differs(s) {
		t.Error("a stored object is compared, which takes an open one")
	}
}

func FuzzStored(f *testing.F) {
	k := databaseKind(f)
	f.Add(oneLine(database))
	f.Add(`{"apiVersion":"example.com/v1","kind":"Database","metadata":{"annotations":{"\\":"\"","é":"\u0000"}},"a":[{"}":"]"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		o := &Object{read: k.hub}
		if json.Unmarshal([]byte(text), &o.Object) != nil || o.Object == nil || o.GroupVersionKind() != k.hub.gvk {
			return
		}
		if _, ok := o.Object["metadata"].(map[string]any); !ok {
			return
		}
		o.SetResourceVersion("")
		value, err := codec.Stored(k, o)
		if err != nil {
			return
		}
		s, ok := k.Pack(o, value, 9).(*Stored)
		if !ok {
			return
		}
		if stored, err := codec.Stored(k, s.open()); err != nil || string(stored) != string(s.MakeStored()) || s.Differs(s.open()) {
			t.Errorf("%s is stored as %s, %v", stored, s.MakeStored(), err)
		}
		if s.GetResourceVersion() != "9" || s.GetName() != o.GetName() || !json.Valid(s.EncodedJSON(nil)) {
			t.Errorf("%s", s.EncodedJSON(nil))
		}
	})
}

// BenchmarkStored shows what objects take in memory beside the bytes that they have on the wire, and what reading costs.
func BenchmarkStored(b *testing.B) {
	k := databaseKind(b)
	obj := newDatabase(b, k)
	value, err := codec.Stored(k, obj)
	if err != nil {
		b.Fatal(err)
	}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	b.Run("memory", func(b *testing.B) {
		const n = 5000
		for b.Loop() {
			list := make([]resource.Object, n)
			before := heap()
			for i := range list {
				list[i] = k.Pack(obj, value, int64(i+1))
			}
			b.ReportMetric(float64(heap()-before)/n/float64(len(value)), "times-wire")
			runtime.KeepAlive(list)
		}
	})
	s := k.Pack(obj, value, 1).(*Stored)
	for name, f := range map[string]func(){"open": func() { s.Open() }, "labels": func() { s.GetLabels() }, "uid": func() { s.GetUID() }} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				f()
			}
		})
	}
}
