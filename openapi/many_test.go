package openapi

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/kloop-dev/kloop/resource"
)

// crowd is a set with n custom kinds in groups of ten, each with a schema of some size, and its documents.
func crowd(t testing.TB, n, fields int) (*resource.Set, *Docs) {
	t.Helper()
	set := example()
	d := New(set)
	for i := range n {
		k := member(i)
		if err := set.Put(k); err != nil {
			t.Fatal(err)
		}
		later := func() (*spec.Schema, error) { return wide(i, fields) }
		d.AddSchemaLater(k.info.GVK, fmt.Sprint("first ", i), later)
	}
	return set, d
}

func member(i int) *stub {
	group := fmt.Sprintf("g%03d.example.com", i/10)
	gvk := schema.GroupVersionKind{Group: group, Version: "v1", Kind: fmt.Sprintf("Kind%04d", i)}
	status := resource.SubInfo{Name: "status", Verbs: []string{"get", "patch", "update"}}
	return &stub{info: resource.Info{GVK: gvk, Plural: strings.ToLower(gvk.Kind) + "s",
		ListKind: gvk.Kind + "List", Namespaced: true, Custom: true, Verbs: all, Subs: []resource.SubInfo{status}}}
}

func wide(i, fields int) (*spec.Schema, error) {
	var list []string
	for f := range fields {
		list = append(list, fmt.Sprintf(`"field%03d":{"type":"object","description":"%0120d","properties":{`+
			`"name":{"type":"string","description":"the name of a thing","default":"x"},`+
			`"count":{"type":"integer","format":"int32","minimum":0}}}`, f, i))
	}
	s := &spec.Schema{}
	err := s.UnmarshalJSON([]byte(`{"type":"object","properties":{"spec":{"type":"object","properties":{` +
		strings.Join(list, ",") + `}}}}`))
	return s, err
}

// Of a new document only what is new is made, and it says the same as one that is made from nothing.
// Nothing at all is made to know its hash.
func TestWholeGrows(t *testing.T) {
	set, d := crowd(t, 12, 2)
	made := 0
	tell := func(d *Docs, i int, mark string) {
		later := func() (*spec.Schema, error) { made++; return wide(i, 2) }
		d.AddSchemaLater(member(i).info.GVK, mark, later)
	}
	for i := range 12 {
		tell(d, i, "first")
	}
	hash := d.V2Hash()
	if made != 0 {
		t.Fatalf("%d schemas were read for a hash", made)
	}
	fresh := func() string {
		all := New(set)
		for i := range 13 {
			later := func() (*spec.Schema, error) { return wide(i, 2) }
			all.AddSchemaLater(member(i).info.GVK, "other", later)
		}
		return wholeText(t, all)
	}
	if wholeText(t, d) != fresh() || made != 12 || d.V2Hash() != hash {
		t.Fatalf("%d schemas were read for 12 definitions", made)
	}
	for _, step := range []struct {
		name string
		do   func()
		want int
	}{
		{"nothing", func() {}, 0},
		{"one more", func() { tell(d, 12, "first"); putOne(t, set, 12) }, 1},
		{"another schema", func() { tell(d, 3, "second") }, 1},
		{"one less", func() {
			set.Remove(member(5).info.GR())
			d.RemoveSchema(member(5).info.GVK)
		}, 0},
	} {
		t.Run(step.name, func(t *testing.T) {
			made = 0
			step.do()
			if wholeText(t, d) != fresh() || made != step.want {
				t.Errorf("%s: %d schemas were read, want %d, or the document differs", step.name, made, step.want)
			}
		})
	}
}

// While a document is made, definitions are told and taken away, and hashes asked for.
func TestWholeIsMadeBesideDefinitions(t *testing.T) {
	set, d := crowd(t, 3, 1)
	begun, let := make(chan struct{}), make(chan struct{})
	d.AddSchemaLater(member(1).info.GVK, "slow", func() (*spec.Schema, error) {
		close(begun)
		<-let
		return wide(1, 1)
	})
	first := make(chan error)
	go func() {
		_, _, err := d.V2JSON()
		first <- err
	}()
	<-begun
	was := d.V2Hash()
	putOne(t, set, 7)
	d.AddSchemaLater(member(1).info.GVK, "quick", func() (*spec.Schema, error) { return wide(1, 1) })
	if d.V2Hash() == was || d.Index()["apis/g000.example.com/v1"] == "" {
		t.Error("the hash does not follow the set")
	}
	close(let)
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	if text := wholeText(t, d); !strings.Contains(text, "com.example.g000.v1.Kind0007") {
		t.Error("the document that was made meanwhile stays")
	}
}

func putOne(t *testing.T, set *resource.Set, i int) {
	t.Helper()
	if err := set.Put(member(i)); err != nil {
		t.Fatal(err)
	}
}

// wholeText is the v2 document, its keys sorted.
func wholeText(t *testing.T, d *Docs) string {
	t.Helper()
	b, _, err := joined(d.V2JSON())
	out, err := json.Marshal(parse(t, b, err))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// BenchmarkCrowd measures the v2 document of 2,000 definitions: the first time, with one more
// definition, and the peak of the heap in sizes of the document.
func BenchmarkCrowd(b *testing.B) {
	for name, f := range map[string]func(*Docs) (int, error){"json": jsonSize, "proto": protoSize} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				set, d := crowd(b, 2000, 100)
				runtime.GC()
				peak, before := watchHeap(), cpuTime()
				size, err := f(d)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(cpuTime()-before)/1e6, "first-cpu-ms")
				b.ReportMetric(float64(peak())/float64(size), "peak-x")
				b.ReportMetric(float64(size)/1e6, "MB")
				if err := set.Put(member(5000)); err != nil {
					b.Fatal(err)
				}
				before = cpuTime()
				if _, err = f(d); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(cpuTime()-before)/1e6, "next-cpu-ms")
			}
		})
	}
}

func cpuTime() int64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return u.Utime.Nano() + u.Stime.Nano()
}

// watchHeap returns a function that ends the watch and tells by how much the heap was larger than at
// its beginning, garbage included.
func watchHeap() func() uint64 {
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	first, most, stop := m.HeapAlloc, atomic.Uint64{}, make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				most.Store(max(most.Load(), m.HeapAlloc))
			}
		}
	}()
	return func() uint64 {
		close(stop)
		<-done
		return most.Load() - min(first, most.Load())
	}
}

func jsonSize(d *Docs) (int, error) {
	doc, _, err := d.V2JSON()
	return sizeOf(doc), err
}

func protoSize(d *Docs) (int, error) {
	doc, _, err := d.V2Proto()
	return sizeOf(doc), err
}
