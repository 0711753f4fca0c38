package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	openapi_v3 "github.com/google/gnostic-models/openapiv3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/kloop-dev/kloop/resource"
)

var all = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}

func example() *resource.Set {
	status := resource.SubInfo{Name: "status", Verbs: []string{"get", "patch", "update"}}
	scale := resource.SubInfo{Name: "scale", GVK: schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"},
		Verbs: []string{"get", "patch", "update"}}
	kind := func(group, version, kind, plural string, subs ...resource.SubInfo) *stub {
		return &stub{info: resource.Info{GVK: schema.GroupVersionKind{Group: group, Version: version, Kind: kind}, Plural: plural,
			ListKind: kind + "List", Namespaced: true, Verbs: all, Subs: subs}}
	}
	tabs := kind("stable.example.com", "v1", "CronTab", "crontabs", status)
	tabs.info.Custom = true
	return resource.NewSet(kind("", "v1", "Pod", "pods", status, resource.SubInfo{Name: "exec", Verbs: []string{"create", "get"}}),
		kind("apps", "v1", "Deployment", "deployments", status, scale), tabs)
}

var (
	core = schema.GroupVersion{Version: "v1"}
	apps = schema.GroupVersion{Group: "apps", Version: "v1"}
	tabs = schema.GroupVersion{Group: "stable.example.com", Version: "v1"}
)

func parse(t *testing.T, b []byte, err error) (doc object) {
	t.Helper()
	if err == nil {
		err = json.Unmarshal(b, &doc)
	}
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func joined(parts [][]byte, etag string, err error) ([]byte, string, error) {
	return bytes.Join(parts, nil), etag, err
}

func at(v any, path ...string) any {
	for _, p := range path {
		m, _ := v.(object)
		v = m[p]
	}
	return v
}

// TestProto compares our protobuf with what gnostic makes of the JSON.
func TestProto(t *testing.T) {
	d := New(example())
	mustAdd(t, d)
	for _, gv := range []schema.GroupVersion{core, apps, tabs} {
		j, _, err := d.V3(GroupPath(gv))
		if err != nil {
			t.Fatal(err)
		}
		want, err := openapi_v3.ParseDocument(j)
		if err != nil {
			t.Fatal(err)
		}
		b, _, err := d.V3Proto(GroupPath(gv))
		got := &openapi_v3.Document{}
		if err == nil {
			err = proto.Unmarshal(b, got)
		}
		if err != nil {
			t.Fatal(err)
		}
		same(t, gv.String(), got, want)
	}
	j, _, err := joined(d.V2JSON())
	if err != nil {
		t.Fatal(err)
	}
	want, err := openapi_v2.ParseDocument(j)
	if err != nil {
		t.Fatal(err)
	}
	b, _, err := joined(d.V2Proto())
	got := &openapi_v2.Document{}
	if err == nil {
		err = proto.Unmarshal(b, got)
	}
	if err != nil {
		t.Fatal(err)
	}
	same(t, "v2", got, want)
	back := &spec.Swagger{}
	if _, err := back.FromGnostic(got); err != nil {
		t.Fatal(err)
	}
	ref := back.Definitions["io.k8s.api.core.v1.Pod"].Properties["spec"].Ref
	if ref.String() != "#/definitions/io.k8s.api.core.v1.PodSpec" {
		t.Errorf("the v2 document lost the type of a pod's spec: %+v", back.Definitions["io.k8s.api.core.v1.Pod"])
	}
}

// same compares messages; texts of YAML may be laid out differently.
func same(t *testing.T, name string, got, want proto.Message) {
	t.Helper()
	soften(got.ProtoReflect())
	soften(want.ProtoReflect())
	if proto.Equal(got, want) {
		return
	}
	a, b := strings.Split(render(got), "\n"), strings.Split(render(want), "\n")
	for i := range a {
		if i >= len(b) || a[i] != b[i] {
			t.Errorf("%s differs at line %d:\n%s\nwant:\n%s", name, i, strings.Join(a[i:min(i+9, len(a))], "\n"),
				strings.Join(b[min(i, len(b)-1):min(i+9, len(b))], "\n"))
			return
		}
	}
	t.Errorf("%s is shorter", name)
}

func render(m proto.Message) string {
	b, _ := json.MarshalIndent(m, "", " ")
	return string(b)
}

func soften(m protoreflect.Message) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsList() && f.Kind() == protoreflect.MessageKind:
			for i := range v.List().Len() {
				soften(v.List().Get(i).Message())
			}
		case f.Kind() == protoreflect.MessageKind && !f.IsList():
			soften(v.Message())
			if f.Name() == "default" && v.Message().Descriptor().Name() == "DefaultType" && isEmpty(v.Message()) {
				m.Clear(f)
			}
		case f.Name() == "yaml":
			m.Set(f, protoreflect.ValueOfString(""))
		}
		return true
	})
}

func isEmpty(m protoreflect.Message) bool {
	empty := true
	m.Range(func(protoreflect.FieldDescriptor, protoreflect.Value) bool { empty = false; return false })
	return empty
}

func mustAdd(t testing.TB, d *Docs) {
	s := &spec.Schema{}
	if err := s.UnmarshalJSON([]byte(`{"type":"object","description":"a tab","properties":{"spec":{"type":"object","properties":{
		"n":{"type":"integer","default":3},"free":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
		"l":{"type":"array","items":{"type":"string"}}}}}}`)); err != nil {
		t.Fatal(err)
	}
	if err := d.AddSchema(tabs.WithKind("CronTab"), s); err != nil {
		t.Fatal(err)
	}
}

func TestCustom(t *testing.T) {
	d := New(example())
	const name = "com.example.stable.v1.CronTab"
	b, before, err := d.V3(GroupPath(tabs))
	doc := parse(t, b, err)
	if at(doc, "components", "schemas", name, gvkExtension) == nil || at(doc, "components", "schemas", name, "properties") != nil {
		t.Errorf("unknown type: %v", at(doc, "components", "schemas", name))
	}
	mustAdd(t, d)
	b, after, err := d.V3(GroupPath(tabs))
	doc = parse(t, b, err)
	if before == after {
		t.Error("the hash is the same after a schema was told")
	}
	if got := at(doc, "components", "schemas", name, "properties", "spec", "properties", "n", "default"); got != 3.0 {
		t.Errorf("default %v", got)
	}
	if at(doc, "components", "schemas", name, "properties", "metadata", "allOf") == nil {
		t.Error("no metadata")
	}
	if at(doc, "components", "schemas", "com.example.stable.v1.CronTabList", "properties", "items") == nil {
		t.Error("no list")
	}
	if got := at(doc, "paths", "/apis/stable.example.com/v1/namespaces/{namespace}/crontabs/{name}", "patch", "requestBody",
		"content"); len(got.(object)) != 3 {
		t.Errorf("patches of a custom resource: %v", got)
	}
	b, _, err = joined(d.V2JSON())
	doc = parse(t, b, err)
	if at(doc, "definitions", name, "properties", "spec", "properties", "free", "type") != nil {
		t.Error("v2 says a type for what may be anything")
	}
	d.RemoveSchema(tabs.WithKind("CronTab"))
	if _, again, _ := d.V3(GroupPath(tabs)); again != before {
		t.Error("another hash after the schema was forgotten")
	}
}

// A custom kind has the fields of every kind, whatever its schema says; in the old document one that keeps what it does not
// know says nothing of its fields, or clients would refuse all others.
func TestRootsOfCustomKinds(t *testing.T) {
	const name, keeps = "com.example.stable.v1.CronTab", "x-kubernetes-preserve-unknown-fields"
	for text, fields := range map[string]bool{`{"type":"object"}`: true, `{"type":"object","` + keeps + `":true}`: false,
		`{"type":"object","` + keeps + `":true,"properties":{"spec":{"type":"object"}}}`: false} {
		t.Run(text, func(t *testing.T) {
			d, s := New(example()), &spec.Schema{}
			if err := s.UnmarshalJSON([]byte(text)); err != nil {
				t.Fatal(err)
			}
			if err := d.AddSchema(tabs.WithKind("CronTab"), s); err != nil {
				t.Fatal(err)
			}
			b, _, err := d.V3(GroupPath(tabs))
			if at(parse(t, b, err), "components", "schemas", name, "properties", "metadata") == nil {
				t.Errorf("%s: no metadata", text)
			}
			b, _, err = joined(d.V2JSON())
			old := at(parse(t, b, err), "definitions", name).(object)
			if old["type"] != "object" || (old["properties"] != nil) != fields || old[keeps] != nil || old[gvkExtension] == nil {
				t.Errorf("%s: %v", text, old)
			}
		})
	}
}

func TestIndexFollowsTheSet(t *testing.T) {
	set := example()
	d := New(set)
	was := d.Index()
	if was["apis/apps/v1"] == "" || was["api/v1"] == "" || was["apis/apps"] == "" || was["apis"] == "" ||
		was["apis/stable.example.com"] != "" {
		t.Fatalf("index %v", was)
	}
	if !reflect.DeepEqual(d.Index(), was) {
		t.Error("the index changes by itself")
	}
	set.Remove(schema.GroupResource{Group: "stable.example.com", Resource: "crontabs"})
	if _, ok := d.Index()["apis/stable.example.com/v1"]; ok {
		t.Error("a removed group stays")
	}
	if d.Index()["api/v1"] != was["api/v1"] {
		t.Error("the hash of another group changed")
	}
	if _, _, err := d.V3(GroupPath(tabs)); !errors.Is(err, ErrNotServed) {
		t.Errorf("got %v", err)
	}
}

func TestForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(example())
		if _, _, err := d.V3(GroupPath(apps)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(idle - time.Second)
		if _, _, err := d.V3(GroupPath(core)); err != nil || d.count() != 2 {
			t.Fatalf("%d documents, %v", d.count(), err)
		}
		time.Sleep(idle + time.Second)
		synctest.Wait()
		if d.count() != 0 {
			t.Errorf("%d documents are still there", d.count())
		}
		if _, _, err := d.V2JSON(); err != nil || d.count() != 1 {
			t.Fatalf("%d documents, %v", d.count(), err)
		}
		time.Sleep(idle + time.Second)
		synctest.Wait()
		if d.count() != 0 {
			t.Error("the v2 document is still there")
		}
	})
}

func (d *Docs) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.made) + len(d.whole)
}

func TestRoutes(t *testing.T) {
	b, etag, err := New(example()).V3(GroupPath(apps))
	doc := parse(t, b, err)
	if len(etag) != 128 {
		t.Errorf("hash %q", etag)
	}
	for path, id := range map[string]string{
		"/apis/apps/v1/namespaces/{namespace}/deployments":              "listAppsV1NamespacedDeployment",
		"/apis/apps/v1/deployments":                                     "listAppsV1DeploymentForAllNamespaces",
		"/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale": "readAppsV1NamespacedDeploymentScale",
		"/apis/apps/v1/watch/deployments":                               "watchAppsV1DeploymentListForAllNamespaces",
	} {
		t.Run(path, func(t *testing.T) {
			if got := at(doc, "paths", path, "get", "operationId"); got != id {
				t.Errorf("%s: %v, want %s", path, got, id)
			}
		})
	}
	if at(doc, "components", "schemas", "io.k8s.api.autoscaling.v1.Scale") == nil {
		t.Error("no Scale")
	}
}

func BenchmarkDocs(b *testing.B) {
	for name, f := range map[string]func(d *Docs) ([]byte, string, error){
		"v3":      func(d *Docs) ([]byte, string, error) { return d.V3(GroupPath(apps)) },
		"v3proto": func(d *Docs) ([]byte, string, error) { return d.V3Proto(GroupPath(apps)) },
		"v2":      func(d *Docs) ([]byte, string, error) { return joined(d.V2JSON()) },
		"v2proto": func(d *Docs) ([]byte, string, error) { return joined(d.V2Proto()) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				doc, _, err := f(New(example()))
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(len(doc)))
			}
		})
	}
}
