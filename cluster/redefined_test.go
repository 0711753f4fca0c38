package cluster_test

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/cluster"
)

const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.redefined.example}
spec:
  group: redefined.example
  scope: Namespaced
  names: {plural: things, kind: Thing}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {FIELDS}}}}}
`

// An object of before its definition got a default, or lost a field, is stored again by a write that changes nothing, once: so
// storage is migrated by empty patches.
func TestRedefined(t *testing.T) {
	c := start(t, cluster.Config{})
	client, err := dynamic.NewForConfig(config(t, c))
	if err != nil {
		t.Fatal(err)
	}
	defs := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	things := client.Resource(schema.GroupVersionResource{Group: "redefined.example", Version: "v1", Resource: "things"}).Namespace("default")
	define := func(fields string) {
		def := unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(strings.Replace(definition, "FIELDS", fields, 1)), &def.Object); err != nil {
			t.Fatal(err)
		}
		if _, err := defs.Apply(t.Context(), def.GetName(), &def, metav1.ApplyOptions{FieldManager: "t"}); err != nil {
			t.Fatal(err)
		}
	}
	spec := func() (rev, spec string) {
		o, err := things.Get(t.Context(), "a", metav1.GetOptions{})
		if err != nil {
			return "", err.Error()
		}
		text, err := yaml.Marshal(o.Object["spec"])
		if err != nil {
			t.Fatal(err)
		}
		return o.GetResourceVersion(), strings.ReplaceAll(string(text), "\n", " ")
	}
	touch := func(options metav1.PatchOptions) {
		if _, err := things.Patch(t.Context(), "a", types.MergePatchType, []byte("{}"), options); err != nil {
			t.Fatal(err)
		}
	}
	define("a: {type: string}, z: {type: string}")
	eventually(t, "the kind is served", func(context.Context) (bool, error) {
		_, err := things.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "redefined.example/v1", "kind": "Thing",
			"metadata": map[string]any{"name": "a"}, "spec": map[string]any{"a": "x", "z": "y"},
		}}, metav1.CreateOptions{})
		return err == nil, nil
	})
	for _, step := range []struct{ name, fields, want string }{
		{"a default is added", "a: {type: string}, b: {type: string, default: new}, z: {type: string}", "a: x b: new z: \"y\" "},
		{"a field is gone", "a: {type: string}, b: {type: string, default: new}", "a: x b: new "},
	} {
		t.Run(step.name, func(t *testing.T) {
			before, _ := spec()
			define(step.fields)
			eventually(t, "it is read so", func(context.Context) (bool, error) { _, got := spec(); return got == step.want, nil })
			touch(metav1.PatchOptions{DryRun: []string{"All"}})
			if rev, _ := spec(); rev != before {
				t.Errorf("stored again by a dry run: %s, was %s", rev, before)
			}
			touch(metav1.PatchOptions{})
			after, got := spec()
			if after == before || got != step.want {
				t.Errorf("at %s: %s, want it stored again", after, got)
			}
			touch(metav1.PatchOptions{})
			if rev, _ := spec(); rev != after {
				t.Errorf("stored again at %s, was at %s", rev, after)
			}
		})
	}
}

// A definition that is another than was meant is not deleted, in the words that its kind has for that (recorded from 1.37.2).
func TestOtherDefinition(t *testing.T) {
	c := start(t, cluster.Config{})
	client, err := dynamic.NewForConfig(config(t, c))
	if err != nil {
		t.Fatal(err)
	}
	defs := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	def := unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(strings.Replace(definition, "FIELDS", "", 1)), &def.Object); err != nil {
		t.Fatal(err)
	}
	if _, err := defs.Create(t.Context(), &def, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	other := types.UID("x")
	err = defs.Delete(t.Context(), def.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}})
	const want = `Operation cannot be fulfilled on customresourcedefinitions.apiextensions.k8s.io "things.redefined.example": ` +
		`precondition failed: UID in precondition: x, UID in object meta: `
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("\n got %v\nwant %s…", err, want)
	}
}
