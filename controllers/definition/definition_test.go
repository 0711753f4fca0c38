package definition_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/apply"
	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/controllers/definition"
	"github.com/kloop-dev/kloop/crd"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/openapi"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/server/extensions"
	"github.com/kloop-dev/kloop/server/workload"
	"github.com/kloop-dev/kloop/store"
	"github.com/kloop-dev/kloop/store/memory"
	"github.com/kloop-dev/kloop/view"
)

// A world is a server with the loop on a store in memory.
type world struct {
	*client.Local
	t    testing.TB
	set  *resource.Set
	docs *openapi.Docs
	err  error // of adopting what was there
}

// start runs a server over a store, as a process does that begins with it.
func start(t testing.TB, st store.Store) (w *world, stop func()) {
	t.Helper()
	set := kinds.NewSet()
	_, bench := t.(*testing.B)
	v := view.NewWith(set, view.Config{Guard: !bench})
	fields := apply.NewTracker()
	ops, _ := extensions.New(server.Config{Kinds: set, Store: st, View: v, Fields: fields, Sole: true},
		extensions.Config{More: workload.All})
	w = &world{Local: &client.Local{Ops: ops, View: v, Set: set, User: &auth.User{Name: "admin"}, Manager: "test"}, t: t, set: set,
		docs: openapi.New(set)}
	registry := &crd.Registry{Kinds: set, View: v, Fields: fields, Docs: w.docs}
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 2)
	go func() { done <- v.Follow(ctx, st, func() { close(ready) }) }()
	<-ready
	w.err = definition.Adopt(registry, v.Snapshot())
	go func() {
		done <- definition.Controller(registry).Run(ctx, loop.Env{Client: w.Local, Now: time.Now,
			Events: client.NewRecorder(w.Local, "test", nil), Watch: &loop.Watchers{}})
	}()
	return w, func() {
		cancel()
		for range 2 {
			if err := <-done; err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
		if err := view.CheckFrozen(v.Snapshot()); err != nil {
			t.Error(err)
		}
	}
}

func begin(t testing.TB) *world {
	w, stop := start(t, memory.New())
	t.Cleanup(stop)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}
	if _, err := w.Create(t.Context(), kinds.Namespaces, ns); err != nil {
		t.Fatal(err)
	}
	return w
}

// until waits for the cluster to be in a state. What is served follows changes without being one: it is looked at
// between changes as well.
func (w *world) until(what string, ok func(resource.Reader) bool) {
	w.t.Helper()
	feed := w.Feed()
	for end := time.Now().Add(5 * time.Minute); !ok(w.Read()); {
		if time.Now().After(end) {
			w.t.Fatalf("waiting for %s: in vain", what)
		}
		ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Millisecond)
		_, err := feed.Next(ctx)
		cancel()
		if err != nil && w.t.Context().Err() != nil {
			w.t.Fatalf("waiting for %s: %v", what, err)
		}
	}
}

const versionText = `
name: %s
served: true
storage: %v
subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
additionalPrinterColumns: [{name: Color, type: string, jsonPath: .spec.color}]
schema:
  openAPIV3Schema:
    type: object
    properties:
      spec:
        type: object
        x-kubernetes-validations: [{rule: self.color != 'beige', message: not beige}]
        properties:
          color: {type: string, default: %s}
          replicas: {type: integer, default: 1}
          frozen: {type: string, x-kubernetes-validations: [{rule: self == oldSelf}]}
          inner: {type: object, x-kubernetes-embedded-resource: true, properties: {x: {type: integer}}}
      status: {type: object, properties: {replicas: {type: integer}}}
`

func widgets(t testing.TB, group, stored string, versions ...string) *apiextensionsv1.CustomResourceDefinition {
	def := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "widgets." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped, Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets",
				Kind: "Widget", ShortNames: []string{"wg"}}}}
	for _, name := range versions {
		var v apiextensionsv1.CustomResourceDefinitionVersion
		if err := yaml.Unmarshal(fmt.Appendf(nil, versionText, name, name == stored, "of-"+name), &v); err != nil {
			t.Fatal(err)
		}
		def.Spec.Versions = append(def.Spec.Versions, v)
	}
	return def
}

func (w *world) define(def *apiextensionsv1.CustomResourceDefinition) {
	w.t.Helper()
	if _, err := w.Create(w.t.Context(), kinds.CustomResourceDefinitions, def); err != nil {
		w.t.Fatal(err)
	}
	w.until(def.Name+" is established", func(r resource.Reader) bool {
		d := resource.Get(r, kinds.CustomResourceDefinitions, "", def.Name)
		return d != nil && crd.Is(d, apiextensionsv1.Established)
	})
}

// change changes a definition as it is now: the loop may write it at the same time.
func (w *world) change(name string, f func(*apiextensionsv1.CustomResourceDefinition)) {
	w.t.Helper()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		next := resource.Clone(resource.Get(w.Read(), kinds.CustomResourceDefinitions, "", name))
		f(next)
		_, err := w.Update(w.t.Context(), kinds.CustomResourceDefinitions, next, "")
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// kind is a kind as a version has it; nil when it is not served.
func (w *world) kind(group, version string) resource.Kind {
	k, _, ok := w.set.Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: "widgets"})
	if !ok {
		return nil
	}
	return k
}

// object reads a widget from the text of its spec, with the warnings that strict decoding gives.
func (w *world) object(k resource.Kind, version, name, spec string) (resource.Object, []error) {
	w.t.Helper()
	gvk := k.Info().GVK.GroupKind().WithVersion(version)
	obj := k.New(gvk)
	strict, err := codec.UnmarshalJSON(fmt.Appendf(nil,
		`{"apiVersion":%q,"kind":"Widget","metadata":{"namespace":"ns","name":%q},"spec":%s}`,
		gvk.GroupVersion(), name, spec), obj)
	if err != nil {
		w.t.Fatal(err)
	}
	return obj, strict
}

func (w *world) create(group, version, name, spec string) (*crd.Object, error) {
	w.t.Helper()
	k := w.kind(group, version)
	obj, _ := w.object(k, version, name, spec)
	e, err := w.Ops.Create(w.t.Context(), &server.Request{Kind: k, GVK: obj.GetObjectKind().GroupVersionKind(), Namespace: "ns",
		Manager: "test", User: w.User}, obj)
	if err != nil {
		return nil, err
	}
	return resource.Opened(e.Object).(*crd.Object), nil
}

func spec(o resource.Object) map[string]any {
	m, _ := resource.Opened(o).(*crd.Object).Object["spec"].(map[string]any)
	return m
}

func TestLife(t *testing.T) {
	w := begin(t)
	w.define(widgets(t, "a.example", "v1", "v1"))
	o, err := w.create("a.example", "v1", "w", `{"frozen":"x"}`)
	if err != nil {
		t.Fatal(err)
	}
	if got := spec(o)["color"]; got != "of-v1" || o.GetGeneration() != 1 {
		t.Errorf("color %v, generation %d; want the default and 1", got, o.GetGeneration())
	}
	k := w.kind("a.example", "v1")
	patch := func(sub, doc string) error {
		_, err := w.Patch(t.Context(), k, "ns", "w", client.Patch{Type: types.MergePatchType, Data: []byte(doc), Sub: sub})
		return err
	}
	for _, c := range []struct{ sub, doc, says string }{
		{"", `{"spec":{"color":"red"}}`, ""},
		{"", `{"spec":{"color":"beige"}}`, "not beige"},
		{"", `{"spec":{"frozen":"y"}}`, "failed rule: self == oldSelf"},
		{"", `{"spec":{"replicas":"many"}}`, "must be of type integer"},
		{"status", `{"status":{"replicas":2},"spec":{"color":"blue"}}`, ""},
		{"status", `{"status":{"replicas":"x"}}`, "status.replicas"},
		{"scale", `{"spec":{"replicas":5}}`, ""},
		{"scale", `{"spec":{"replicas":-5}}`, "should be a non-negative integer"},
	} {
		t.Run(c.sub, func(t *testing.T) {
			if err := patch(c.sub, c.doc); (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s %s: %v; want %q", c.sub, c.doc, err, c.says)
			}
		})
	}
	last := w.Read().Lookup(k, "ns", "w")
	if s := spec(last); s["color"] != "red" || s["replicas"] != int64(5) || last.GetGeneration() != 3 {
		t.Errorf("spec %v, generation %d", s, last.GetGeneration())
	}
	if row := k.Rows(nil, nil)(last); len(row) != 2 || row[1] != "red" {
		t.Errorf("row %v", row)
	}
	if err := w.Delete(t.Context(), kinds.CustomResourceDefinitions, "", "widgets.a.example", nil); err != nil {
		t.Fatal(err)
	}
	w.until("it is gone", func(r resource.Reader) bool {
		return resource.Get(r, kinds.CustomResourceDefinitions, "", "widgets.a.example") == nil && w.kind("a.example", "v1") == nil
	})
	w.define(widgets(t, "a.example", "v1", "v1"))
	if o := w.Read().Lookup(w.kind("a.example", "v1"), "ns", "w"); o != nil {
		t.Error("the object outlived its kind")
	}
}

func TestFinalizerHoldsDefinition(t *testing.T) {
	w := begin(t)
	w.define(widgets(t, "a.example", "v1", "v1"))
	o, err := w.create("a.example", "v1", "w", `{}`)
	if err != nil {
		t.Fatal(err)
	}
	k := w.kind("a.example", "v1")
	held := resource.Clone(resource.Object(o))
	held.SetFinalizers([]string{"e.example/x"})
	if _, err := w.Update(t.Context(), k, held, ""); err != nil {
		t.Fatal(err)
	}
	if err := w.Delete(t.Context(), kinds.CustomResourceDefinitions, "", "widgets.a.example", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := w.create("a.example", "v1", "new", `{}`); !apierrors.IsForbidden(err) {
		t.Errorf("a new object of a kind that goes: %v", err)
	}
	w.until("the object is marked", func(r resource.Reader) bool { return r.Lookup(k, "ns", "w").GetDeletionTimestamp() != nil })
	odd := []byte(`{"status":{"storedVersions":["v9"]}}`) // nobody checks the status, and the definition must go all the same
	patch := client.Patch{Type: types.MergePatchType, Data: odd, Sub: "status"}
	if _, err := w.Patch(t.Context(), kinds.CustomResourceDefinitions, "", "widgets.a.example", patch); err != nil {
		t.Fatal(err)
	}
	free := []byte(`{"metadata":{"finalizers":null}}`)
	if _, err := w.Patch(t.Context(), w.kind("a.example", "v1"), "ns", "w", client.Patch{Type: types.MergePatchType,
		Data: free}); err != nil {
		t.Fatal(err)
	}
	w.until("it is gone", func(r resource.Reader) bool {
		return resource.Get(r, kinds.CustomResourceDefinitions, "", "widgets.a.example") == nil
	})
}

func TestVersions(t *testing.T) {
	st := memory.New()
	w, stop := start(t, st)
	w.define(widgets(t, "a.example", "v1", "v1", "v2"))
	if _, err := w.create("a.example", "v2", "w", `{"replicas":7}`); err != nil {
		t.Fatal(err)
	}
	k := w.kind("a.example", "v2")
	is := func(r resource.Reader, version string) bool {
		o := r.Lookup(k, "ns", "w")
		return o.GetObjectKind().GroupVersionKind().Version == version && spec(o)["color"] == "of-v2" && spec(o)["replicas"] == int64(7)
	}
	if !is(w.Read(), "v1") {
		t.Errorf("stored: %v", w.Read().Lookup(k, "ns", "w"))
	}
	w.change("widgets.a.example", func(d *apiextensionsv1.CustomResourceDefinition) {
		d.Spec.Versions[0].Storage, d.Spec.Versions[1].Storage, d.Spec.Versions[0].Served = false, true, false
	})
	w.until("v2 is the hub", func(r resource.Reader) bool {
		k := w.kind("a.example", "v2")
		return k.Info().GVK.Version == "v2" && is(w.Read(), "v2") && w.kind("a.example", "v1") == nil
	})
	stop()
	w, stop = start(t, st) // everything is there again before the loop looks
	defer stop()
	if w.err != nil || w.kind("a.example", "v2") == nil || !is(w.Read(), "v2") {
		t.Errorf("after a restart: %v, %v", w.err, w.Read().Lookup(k, "ns", "w"))
	}
}

func TestNamesInUse(t *testing.T) {
	w := begin(t)
	w.define(widgets(t, "a.example", "v1", "v1"))
	other := widgets(t, "a.example", "v1", "v1")
	other.Name, other.Spec.Names.Plural, other.Spec.Names.Singular = "gadgets.a.example", "gadgets", "gadget"
	if _, err := w.Create(t.Context(), kinds.CustomResourceDefinitions, other); err != nil {
		t.Fatal(err)
	}
	named := func(r resource.Reader) apiextensionsv1.ConditionStatus {
		for _, c := range resource.Get(r, kinds.CustomResourceDefinitions, "", other.Name).Status.Conditions {
			if c.Type == apiextensionsv1.NamesAccepted {
				return c.Status
			}
		}
		return ""
	}
	w.until("its names are refused", func(r resource.Reader) bool { return named(r) == apiextensionsv1.ConditionFalse })
	if err := w.Delete(t.Context(), kinds.CustomResourceDefinitions, "", "widgets.a.example", nil); err != nil {
		t.Fatal(err)
	}
	w.until("its names are free", func(r resource.Reader) bool {
		return named(r) == apiextensionsv1.ConditionTrue && crd.Is(resource.Get(r, kinds.CustomResourceDefinitions, "", other.Name),
			apiextensionsv1.Established)
	})
}

func TestApply(t *testing.T) {
	w := begin(t)
	w.define(widgets(t, "a.example", "v1", "v1"))
	k := w.kind("a.example", "v1")
	const text = `{"apiVersion":"a.example/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"color":"red",
		"inner":{"apiVersion":"v1","kind":"Thing","metadata":{"name":"in","labels":{"a":"b"}},"x":1}}}`
	o, err := w.Patch(t.Context(), k, "ns", "w", client.Patch{Type: types.ApplyPatchType, Data: []byte(text), Force: true})
	if err != nil {
		t.Fatal(err)
	}
	owners := o.GetManagedFields()
	if len(owners) != 1 || !strings.Contains(string(owners[0].FieldsV1.Raw), `"f:labels":{"f:a":{}}`) ||
		strings.Contains(string(owners[0].FieldsV1.Raw), "f:replicas") {
		t.Errorf("owners %v", owners)
	}
	if s := spec(o); s["replicas"] != int64(1) || s["inner"].(map[string]any)["x"] != int64(1) {
		t.Errorf("spec %v", s)
	}
}

func TestStrict(t *testing.T) {
	w := begin(t)
	w.define(widgets(t, "a.example", "v1", "v1"))
	obj, strict := w.object(w.kind("a.example", "v1"), "v1", "w", `{"color":"red","color":"blue","bogus":{"x":1}}`)
	if got := fmt.Sprint(strict); !strings.Contains(got, `duplicate field "spec.color"`) ||
		!strings.Contains(got, `unknown field "spec.bogus"`) {
		t.Errorf("strict errors %v", got)
	}
	if _, has := spec(obj)["bogus"]; has {
		t.Error("an unknown field stayed")
	}
}

// BenchmarkDefine tells what a definition costs: from its creation until it is served, and the memory for as long
// as it is.
func BenchmarkDefine(b *testing.B) {
	w, stop := start(b, memory.New())
	defer stop()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := 0; b.Loop(); i++ {
		w.define(widgets(b, fmt.Sprintf("g%d.example", i), "v1", "v1"))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(b.N)/1024, "KiB/definition")
}

// BenchmarkCreate tells what a custom resource costs, from the decoded object to the stored one.
func BenchmarkCreate(b *testing.B) {
	w, stop := start(b, memory.New())
	defer stop()
	w.define(widgets(b, "a.example", "v1", "v1"))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := w.create("a.example", "v1", fmt.Sprintf("w%d", i), `{"color":"red"}`); err != nil {
			b.Fatal(err)
		}
	}
}

// Who watches a kind lists again when its definition changes, and not when something is said of it.
func TestChangeEndsWatches(t *testing.T) {
	w := begin(t)
	w.define(widgets(t, "a.example", "v1", "v1", "v2"))
	type told struct {
		name string
		err  error
	}
	watch := func(version string) chan told {
		k := w.kind("a.example", version)
		ch, stands := make(chan told, 10), make(chan struct{}, 10)
		go func() {
			err := w.Ops.Watch(t.Context(), &server.Request{Kind: k, GVK: k.Info().GVK.GroupKind().WithVersion(version), Namespace: "ns",
				User: w.User},
				&metav1.ListOptions{}, func(events []server.Event) error {
					for _, e := range events {
						ch <- told{name: e.Entry.Object.GetName()}
					}
					stands <- struct{}{}
					return nil
				})
			ch <- told{"ended", err}
		}()
		<-stands
		return ch
	}
	change := func(f func(*apiextensionsv1.CustomResourceDefinition)) { t.Helper(); w.change("widgets.a.example", f) }
	first, second := watch("v1"), watch("v2")
	change(func(d *apiextensionsv1.CustomResourceDefinition) { d.Labels = map[string]string{"a": "b"} })
	if _, err := w.create("a.example", "v1", "one", `{}`); err != nil {
		t.Fatal(err)
	}
	for _, ch := range []chan told{first, second} {
		if got := <-ch; got.name != "one" {
			t.Fatalf("after a label: %+v", got)
		}
	}
	change(func(d *apiextensionsv1.CustomResourceDefinition) {
		d.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["more"] = apiextensionsv1.JSONSchemaProps{Type: "string",
			Default: &apiextensionsv1.JSON{Raw: []byte(`"x"`)}}
	})
	for _, ch := range []chan told{first, second} {
		if got := <-ch; got.name != "ended" || got.err != nil {
			t.Fatalf("after another schema: %+v", got)
		}
	}
	if more := resource.Opened(w.Read().Lookup(w.kind("a.example", "v1"), "ns", "one")).(*crd.Object).Object["more"]; more != "x" {
		t.Errorf("a stored object has %v by the new schema", more)
	}
	first, second = watch("v1"), watch("v2")
	change(func(d *apiextensionsv1.CustomResourceDefinition) { d.Spec.Versions[1].Served = false })
	for _, ch := range []chan told{first, second} {
		if got := <-ch; got.name != "one" {
			t.Fatalf("first a watch tells what there is: %+v", got)
		}
		if got := <-ch; got.name != "ended" || got.err != nil {
			t.Fatalf("after a version was withdrawn: %+v", got)
		}
	}
}

// The scale of an object that does not say how many replicas it wants can't be shown, nor changed in anything else.
func TestScaleThatNobodySet(t *testing.T) {
	w := begin(t)
	def := widgets(t, "a.example", "v1", "v1")
	spec := def.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	spec.Properties["replicas"] = apiextensionsv1.JSONSchemaProps{Type: "integer"}
	w.define(def)
	if _, err := w.create("a.example", "v1", "w", `{}`); err != nil {
		t.Fatal(err)
	}
	k := w.kind("a.example", "v1")
	for doc, says := range map[string]string{
		`{"status":{"replicas":1}}`: `the spec replicas field ".spec.replicas" cannot be empty`,
		`{"spec":{"replicas":-1}}`:  "should be a non-negative integer",
	} {
		t.Run(doc, func(t *testing.T) {
			_, err := w.Patch(t.Context(), k, "ns", "w", client.Patch{Type: types.MergePatchType, Data: []byte(doc), Sub: "scale"})
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v; want %q", doc, err, says)
			}
		})
	}
	r := &server.Request{Kind: k, GVK: k.Info().GVK, Namespace: "ns", Name: "w", Sub: "scale", User: w.User}
	if _, err := w.Ops.Get(t.Context(), r, &metav1.GetOptions{}); err == nil ||
		!strings.Contains(err.Error(), `the spec replicas field ".spec.replicas" does not exist`) {
		t.Errorf("get: %v", err)
	}
}
