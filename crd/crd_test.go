package crd

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
)

const tabText = `
metadata: {name: tabs.x.example, uid: u1}
spec:
  group: x.example
  scope: Namespaced
  names: {plural: tabs, singular: tab, kind: Tab, listKind: TabList, shortNames: [tb], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.num, statusReplicasPath: .status.num, labelSelectorPath: .status.sel}}
    selectableFields: [{jsonPath: .spec.color}, {jsonPath: .spec.num}]
    additionalPrinterColumns:
    - {name: Color, type: string, jsonPath: .spec.color}
    - {name: N, type: integer, jsonPath: .spec.num}
    - {name: Wrong, type: integer, jsonPath: .spec.color}
    - {name: First, type: string, jsonPath: '.spec.list[0].k'}
    schema: &s
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [color]
            x-kubernetes-validations: [{rule: "!has(self.num) || self.num < 100", message: too many}]
            properties:
              color: {type: string, maxLength: 5}
              num: {type: integer, default: 1}
              open: {type: object, x-kubernetes-preserve-unknown-fields: true}
              fixed: {type: string, x-kubernetes-validations: [{rule: self == oldSelf, message: is fixed}]}
              list:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [k]
                items: {type: object, required: [k], properties: {k: {type: string}}}
          status: {type: object, properties: {num: {type: integer}, sel: {type: string}}}
  - name: v1beta1
    served: true
    storage: false
    deprecated: true
    schema:
      openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {color: {type: string}}}}}
  - name: v2
    served: false
    storage: false
    schema: {openAPIV3Schema: {type: object}}
`

func tabs(t *testing.T) *Kind {
	t.Helper()
	def := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal([]byte(tabText), def); err != nil {
		t.Fatal(err)
	}
	k, err := NewKind(def)
	if err != nil {
		t.Fatal(err)
	}
	return k.(*Kind)
}

// read decodes a Tab of a version from its spec and what else there is, as JSON.
func read(t *testing.T, k *Kind, version, rest string) (*Object, []error) {
	t.Helper()
	o := k.New(schema.GroupVersionKind{Group: "x.example", Version: version, Kind: "Tab"}).(*Object)
	doc := fmt.Sprintf(`{"apiVersion":"x.example/%s","kind":"Tab","metadata":{"name":"a","namespace":"b"},%s}`, version, rest)
	strict, err := codec.UnmarshalJSON([]byte(doc), o)
	if err != nil {
		t.Fatal(err)
	}
	return o, strict
}

func TestFacts(t *testing.T) {
	i := tabs(t).Info()
	if i.Prefix != "/registry/x.example/tabs/" || !i.Custom || !i.Namespaced || i.ListKind != "TabList" || len(i.Also) != 1 ||
		len(i.Subs) != 2 || i.Subs[0].Name != "status" {
		t.Errorf("%+v", i)
	}
	if want := []string{"metadata.name", "metadata.namespace", "spec.color", "spec.num"}; !reflect.DeepEqual(i.Selectable, want) {
		t.Errorf("selectable %v", i.Selectable)
	}
	k := tabs(t)
	for version, subs := range map[string]int{"v1": 2, "v1beta1": 0, "v2": -1, "v3": -1} {
		t.Run(version, func(t *testing.T) {
			in, ok := k.In(schema.GroupVersionKind{Group: "x.example", Version: version, Kind: "Tab"})
			if ok != (subs >= 0) || ok && len(in.Info().Subs) != subs {
				t.Errorf("%s: served %v", version, ok)
			}
		})
	}
	none := k.def.DeepCopy()
	none.Spec.Versions[0].Storage = false
	if _, err := NewKind(none); err == nil {
		t.Error("a definition without a stored version was taken")
	}
}

func TestDecode(t *testing.T) {
	for _, c := range []struct{ doc, want, strict string }{
		{`"spec":{"color":"red"}`, `{"spec":{"color":"red"}}`, ""},
		{`"spec":{"color":"red","x":1},"y":2`, `{"spec":{"color":"red"}}`, `unknown field "spec.x" unknown field "y"`},
		{`"spec":{"open":{"x":{"y":1}}}`, `{"spec":{"open":{"x":{"y":1}}}}`, ""},
		{`"spec":{"color":"red","color":"blue"}`, `{"spec":{"color":"blue"}}`, `duplicate field "spec.color"`},
		{`"spec":{"color":"red","num":null}`, `{"spec":{"color":"red","num":null}}`, ""}, // a default will follow
		{`"spec":{"color":null,"num":2}`, `{"spec":{"num":2}}`, ""},
		{`"spec":{"list":[{"k":"a","z":1}]}`, `{"spec":{"list":[{"k":"a"}]}}`, `unknown field "spec.list[0].z"`},
	} {
		t.Run(c.doc, func(t *testing.T) {
			o, strict := read(t, tabs(t), "v1", c.doc)
			var texts []string
			for _, err := range strict {
				texts = append(texts, err.Error())
			}
			content := o.shallow().Object
			for _, key := range []string{"apiVersion", "kind", "metadata"} {
				delete(content, key)
			}
			got, err := json.Marshal(content)
			if err != nil || string(got) != c.want || sorted(texts) != sorted(strings.SplitAfter(c.strict, `" `)) {
				t.Errorf("%s: %s, %q; want %s, %q", c.doc, got, texts, c.want, c.strict)
			}
		})
	}
	var o Object
	for _, bad := range []string{`null`, `[]`, `{"metadata":5}`, `{`} {
		o.read = tabs(t).hub
		if _, err := o.UnmarshalStrict([]byte(bad)); err == nil {
			t.Errorf("%s was decoded", bad)
		}
	}
}

func sorted(list []string) string {
	var out []string
	for _, s := range list {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	for i := range out {
		for j := i + 1; j < len(out); j++ {
			if out[j] < out[i] {
				out[i], out[j] = out[j], out[i]
			}
		}
	}
	return strings.Join(out, "|")
}

func TestCheck(t *testing.T) {
	for _, c := range []struct{ name, sub, old, obj, want string }{
		{"fine", "", "", `"spec":{"color":"red"}`, ""},
		{"missing", "", "", `"spec":{}`, "spec.color: Required value; <nil>: Invalid value"},
		{"rule", "", "", `"spec":{"color":"red","num":100}`, "spec: Invalid value"},
		{"type", "", "", `"spec":{"color":"red","num":"x"}`, "spec.num: Invalid value; .spec.num: Invalid value; <nil>: Invalid value"},
		{"twice", "", "", `"spec":{"color":"red","list":[{"k":"a"},{"k":"a"}]}`, "spec.list[1]: Duplicate value"},
		{"transition", "", `"spec":{"color":"red","fixed":"a"}`, `"spec":{"color":"red","fixed":"b"}`, "spec.fixed: Invalid value"},
		{"ratcheting", "", `"spec":{"color":"longer"}`, `"spec":{"color":"longer","num":3}`, ""},
		{"worse", "", `"spec":{"color":"longer"}`, `"spec":{"color":"longest"}`, "spec.color: Too long; <nil>: Invalid value"},
		{"status", "status", `"spec":{"color":"red"}`, `"spec":{"color":"red"},"status":{"num":"x"}`,
			"status.num: Invalid value; .status.num: Invalid value; <nil>: Invalid value"},
		{"replicas", "scale", `"spec":{"color":"red"}`, `"spec":{"color":"red","num":-1}`, ".spec.num: Invalid value"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := tabs(t)
			obj, _ := read(t, k, "v1", c.obj)
			var old resource.Object
			if c.old != "" {
				old, _ = read(t, k, "v1", c.old)
			}
			var got []string
			for _, err := range k.Check(nil, nil, c.sub, obj, old) {
				got = append(got, err.Field+": "+err.Type.String())
			}
			if s := strings.Join(got, "; "); s != c.want {
				t.Errorf("%s: %s; want %s", c.name, s, c.want)
			}
		})
	}
}

// TestTidy: what an apply merged of metadata says nothing where it is empty.
func TestTidy(t *testing.T) {
	k := tabs(t)
	obj, _ := read(t, k, "v1", `"spec":{"color":"red"}`)
	o, err := k.object(obj)
	if err != nil {
		t.Fatal(err)
	}
	meta := o.Object["metadata"].(map[string]any)
	meta["annotations"], meta["generateName"], meta["labels"] = nil, "", map[string]any{}
	k.Tidy(o)
	for _, name := range []string{"annotations", "generateName", "labels"} {
		if v, is := meta[name]; is {
			t.Errorf("%s stays: %v", name, v)
		}
	}
	if meta["name"] == nil {
		t.Error("the name is gone")
	}
	for _, name := range []string{"annotations", "labels"} { // they are typed: there is no null in them
		meta[name] = map[string]any{"a": nil, "b": "c"}
		k.Tidy(o)
		if want := map[string]any{"a": "", "b": "c"}; !reflect.DeepEqual(meta[name], want) {
			t.Errorf("%s are %v", name, meta[name])
		}
	}
}

func TestPrepareForWrite(t *testing.T) {
	k := tabs(t)
	old, _ := read(t, k, "v1", `"spec":{"color":"red"},"status":{"num":1}`)
	obj, _ := read(t, k, "v1", `"spec":{"color":"blue"},"status":{"num":2}`)
	for _, c := range []struct {
		sub     string
		old     resource.Object
		color   string
		status  any
		changed string
	}{
		{"", nil, "blue", nil, ""}, {"", old, "blue", int64(1), ""}, {"status", old, "red", int64(2), ""},
	} {
		t.Run(c.sub, func(t *testing.T) {
			o := resource.Clone(obj)
			k.PrepareForWrite(nil, c.sub, o, c.old)
			spec := o.Object["spec"].(map[string]any)
			var n any
			if st, ok := o.Object["status"].(map[string]any); ok {
				n = st["num"]
			}
			if spec["color"] != c.color || n != c.status {
				t.Errorf("%q of %v: %v", c.sub, c.old != nil, o.Object)
			}
		})
	}
}

func TestConvert(t *testing.T) {
	k := tabs(t)
	beta := schema.GroupVersionKind{Group: "x.example", Version: "v1beta1", Kind: "Tab"}
	o, _ := read(t, k, "v1", `"spec":{"color":"red","num":3}`)
	out, err := k.ConvertTo(t.Context(), o, beta)
	if err != nil || out.GetObjectKind().GroupVersionKind() != beta {
		t.Fatal(out, err)
	}
	if got := out.(*Object).Object["spec"]; !reflect.DeepEqual(got, map[string]any{"color": "red"}) {
		t.Errorf("v1beta1 has %v", got)
	}
	if o.GroupVersionKind().Version != "v1" || o.Object["spec"].(map[string]any)["num"] != int64(3) {
		t.Error("the original changed")
	}
	stored, err := k.Decode([]byte(
		`{"apiVersion":"x.example/v1beta1","kind":"Tab","metadata":{"name":"a","labels":{"ok":"1","bad":2}},"spec":{"color":"red","x":1}}`))
	if err != nil || stored.GetObjectKind().GroupVersionKind().Version != "v1" || stored.GetGeneration() != 1 {
		t.Errorf("decoded %v, %v", stored, err)
	}
	if _, err := k.ConvertTo(t.Context(), o, beta.GroupKind().WithVersion("v9")); err == nil {
		t.Error("converted to a version that there is not")
	}
}

func TestRow(t *testing.T) {
	k := tabs(t)
	o, _ := read(t, k, "v1", `"spec":{"color":"red","num":3,"list":[{"k":"one"},{"k":"two"}]}`)
	want := []any{"a", "red", int64(3), nil, "one"}
	if got := k.Rows(nil, nil)(o); !reflect.DeepEqual(got, want) || len(k.Header(nil)) != len(want) {
		t.Errorf("row %v; want %v", got, want)
	}
	for label, want := range map[string]string{
		"spec.color": "red", "spec.num": "3", "metadata.namespace": "b", "metadata.name": "a", "spec.none": "",
	} {
		t.Run(label, func(t *testing.T) {
			if got := k.Field(o, label); got != want {
				t.Errorf("field %s: %q; want %q", label, got, want)
			}
		})
	}
	if sc, ok := resource.ScaleOf(k, o); !ok || sc.Replicas != 3 || unscaled(k, o) != "" {
		t.Errorf("scale %v %v", sc, ok)
	}
	k.Scaled().Set(o, 8)
	if sc, _ := resource.ScaleOf(k, o); sc.Replicas != 8 {
		t.Errorf("scale %v", sc)
	}
	bare, _ := read(t, k, "v1", `"spec":{}`)
	if unscaled(k, bare) != ".spec.num" {
		t.Error("an object without replicas is scaled")
	}
	beta, _ := k.In(schema.GroupVersionKind{Group: "x.example", Version: "v1beta1", Kind: "Tab"})
	if h := beta.Header(nil); len(h) != 2 || h[1].Name != "Age" || beta.Rows(nil, nil)(o)[1] != nil {
		t.Errorf("default columns %v, %v", h, beta.Rows(nil, nil)(o))
	}
}

func TestWarnings(t *testing.T) {
	k := tabs(t)
	o, _ := read(t, k, "v1", `"spec":{}`)
	o.SetFinalizers([]string{"a.example/x", "a.example", "plain", "foregroundDeletion"})
	if got := k.Warnings(nil, o, nil); len(got) != 2 {
		t.Errorf("warnings %q", got)
	}
	if got := k.Warnings(nil, o, o); got != nil {
		t.Errorf("warnings of old finalizers: %q", got)
	}
	beta := schema.GroupVersionKind{Group: "x.example", Version: "v1beta1", Kind: "Tab"}
	if got, want := k.Deprecation(beta), "x.example/v1beta1 Tab is deprecated; use x.example/v1 Tab"; got != want {
		t.Errorf("%q; want %q", got, want)
	}
}

func TestAccept(t *testing.T) {
	def := func(plural, singular, kind string, short ...string) *apiextensionsv1.CustomResourceDefinition {
		return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: plural + ".g"},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{Group: "g",
				Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Singular: singular, Kind: kind, ListKind: kind + "List",
					ShortNames: short}}}
	}
	first := def("as", "a", "A", "x")
	var names Names
	first.Status = names.Accept(first, metav1.Now())
	if !Is(first, apiextensionsv1.Established) || !Is(first, apiextensionsv1.NamesAccepted) ||
		!reflect.DeepEqual(first.Status.AcceptedNames, first.Spec.Names) {
		t.Fatalf("%+v", first.Status)
	}
	for _, c := range []struct {
		name   string
		def    *apiextensionsv1.CustomResourceDefinition
		reason string
	}{
		{"all free",
			def("bs", "b", "B"), "NoConflicts"},
		{"singular taken",
			def("bs", "a", "B"), "SingularConflict"},
		{"kind taken",
			def("bs", "b", "A"), "ListKindConflict"},
		{"short name taken",
			def("bs", "b", "B", "x"), "ShortNamesConflict"},
		{"short name that is a plural",
			def("bs", "b", "B", "as"), "ShortNamesConflict"},
		{"plural taken",
			def("x", "b", "B"),
			"PluralConflict"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.def.Status = names.Accept(c.def, metav1.Now())
			names.Forget(c.def.Name)
			free := c.reason == "NoConflicts"
			if got := find(c.def.Status.Conditions, apiextensionsv1.NamesAccepted); got.Reason != c.reason ||
				Is(c.def, apiextensionsv1.Established) != free {
				t.Errorf("%v: %+v", c.def.Spec.Names, c.def.Status.Conditions)
			}
		})
	}
	// An established definition stays so when it asks for a name that is taken.
	other := def("cs", "c", "C")
	other.Status = names.Accept(other, metav1.Now())
	other.Spec.Names.ShortNames = []string{"x"}
	other.Status = names.Accept(other, metav1.Now())
	if !Is(other, apiextensionsv1.Established) || Is(other, apiextensionsv1.NamesAccepted) || len(other.Status.AcceptedNames.ShortNames) != 0 {
		t.Errorf("%+v", other.Status)
	}
}

// A definition can't have a name that it has already as another one.
func TestOwnName(t *testing.T) {
	var names Names
	def := &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{Group: "x.example",
		Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "as", Singular: "a", Kind: "A", ListKind: "AList",
			ShortNames: []string{"s"}}}}
	def.Name = "as.x.example"
	def.Status = names.Accept(def, metav1.Now())
	def.Spec.Names.ShortNames = []string{"s", "as"}
	if def.Status = names.Accept(def, metav1.Now()); find(def.Status.Conditions,
		apiextensionsv1.NamesAccepted).Reason != "ShortNamesConflict" || len(def.Status.AcceptedNames.ShortNames) != 1 {
		t.Errorf("%+v", def.Status)
	}
}

func TestInherit(t *testing.T) {
	k := tabs(t)
	next := k.def.DeepCopy()
	Set(&next.Status, apiextensionsv1.CustomResourceDefinitionCondition{Type: apiextensionsv1.Terminating,
		Status: apiextensionsv1.ConditionTrue}, metav1.Now())
	next.Spec.Versions[1].Deprecated = false
	got, err := newKind(SourceOf(next), k, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	o, _ := read(t, k, "v1", `"spec":{"color":"red"}`)
	if now := got.(*Kind); now.all[0] != k.all[0] || now.all[1] == k.all[1] || now.Recast(o) != resource.Object(o) || !now.Closing() {
		t.Error("what stayed the same was not taken over, or what did not was")
	}
	next.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["color"] = apiextensionsv1.JSONSchemaProps{Type: "integer"}
	if got, err = newKind(SourceOf(next), k, false, nil); err != nil || got.(*Kind).Recast(o) == resource.Object(o) {
		t.Error("an object was not read again by another schema", err)
	}
}

// Only what decides how objects are read has them read again; a definition's status changes often.
func TestReadsAs(t *testing.T) {
	k := tabs(t)
	for _, c := range []struct {
		name   string
		change func(*apiextensionsv1.CustomResourceDefinition)
		same   bool
	}{
		{"nothing", func(*apiextensionsv1.CustomResourceDefinition) {}, true},
		{"status", func(def *apiextensionsv1.CustomResourceDefinition) { def.Status.StoredVersions = []string{"v0"} }, true},
		{"short names", func(def *apiextensionsv1.CustomResourceDefinition) { def.Spec.Names.ShortNames = []string{"other"} }, true},
		{"schema of another version", func(def *apiextensionsv1.CustomResourceDefinition) {
			def.Spec.Versions[1].Schema.OpenAPIV3Schema.Properties["more"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
		}, false},
		{"stored version", func(def *apiextensionsv1.CustomResourceDefinition) {
			for i := range def.Spec.Versions {
				def.Spec.Versions[i].Storage = !def.Spec.Versions[i].Storage
			}
		}, false},
		{"one version less", func(def *apiextensionsv1.CustomResourceDefinition) {
			def.Spec.Versions = slices.DeleteFunc(def.Spec.Versions,
				func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return !v.Storage })
		}, false},
		{"conversion", func(def *apiextensionsv1.CustomResourceDefinition) {
			def.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter}
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			next := k.def.DeepCopy()
			c.change(next)
			got, err := newKind(SourceOf(next), k, false, nil)
			if err != nil {
				t.Fatal(err)
			}
			if now := got.(*Kind); now.ReadsAs(k) != c.same {
				t.Errorf("read as before: %v", !c.same)
			}
		})
	}
	if k.ReadsAs(nil) || !k.ReadsAs(k) {
		t.Error("a kind before all declarations, or the same one")
	}
}

func TestConformance(t *testing.T) {
	for _, c := range []struct{ group, said, reason string }{
		{"x.example", "", ""}, {"a.k8s.io", "", "MissingAnnotation"}, {"a.k8s.io", "unapproved, trial", "UnapprovedAnnotation"},
		{"a.k8s.io", "https://github.com/x/1", "ApprovedAnnotation"}, {"kubernetes.io", "yes", "InvalidAnnotation"},
	} {
		t.Run(c.group, func(t *testing.T) {
			def := &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{Group: c.group}}
			def.Annotations = map[string]string{apiextensionsv1.KubeAPIApprovedAnnotation: c.said}
			if got, _ := conformance(def); got.Reason != c.reason {
				t.Errorf("%s %q: %+v", c.group, c.said, got)
			}
		})
	}
}

// unscaled is the field that a scale lacks, or why there is none.
func unscaled(k *Kind, o *Object) string {
	name, err := k.Unscaled(o)
	if err != nil {
		return err.Error()
	}
	return name
}
