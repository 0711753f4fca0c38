package cluster_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/cluster"
)

// A patch that makes another version or kind of a custom resource is an invalid value, and through the status one that is not looked at.
func TestRetyped(t *testing.T) {
	c := start(t, cluster.Config{})
	client, err := dynamic.NewForConfig(config(t, c))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("FIELDS", "a: {type: string}", "    storage: true", "    storage: true\n    subresources: {status: {}}").
		Replace(definition)
	def := unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &def.Object); err != nil {
		t.Fatal(err)
	}
	defs := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	if _, err := defs.Create(t.Context(), &def, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	things := client.Resource(schema.GroupVersionResource{Group: "redefined.example", Version: "v1", Resource: "things"}).Namespace("default")
	eventually(t, "the kind is served", func(context.Context) (bool, error) {
		_, err := things.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "redefined.example/v1", "kind": "Thing", "metadata": map[string]any{"name": "a"}}}, metav1.CreateOptions{})
		return err == nil, nil
	})
	for _, x := range []struct {
		name, patch, group, kind string
		fields                   []string
	}{
		{"a version of nothing", `{"apiVersion":"v9"}`, "", "Thing", []string{"apiVersion"}},
		{"a version of another group", `{"apiVersion":"apps/v1"}`, "apps", "Thing", []string{"apiVersion"}},
		{"another kind", `{"kind":"X"}`, "redefined.example", "X", []string{"kind"}},
		{"both", `{"apiVersion":"apps/v1","kind":"X"}`, "apps", "X", []string{"kind", "apiVersion"}},
		{"no version", `{"apiVersion":"a/b/c"}`, "", "", []string{"patch"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			_, err := things.Patch(t.Context(), "a", types.MergePatchType, []byte(x.patch), metav1.PatchOptions{})
			status, ok := err.(apierrors.APIStatus)
			if !ok || !apierrors.IsInvalid(err) {
				t.Fatal(err)
			}
			var fields []string
			for _, cause := range status.Status().Details.Causes {
				fields = append(fields, cause.Field)
			}
			d := status.Status().Details
			if d.Group != x.group || d.Kind != x.kind || !slices.Equal(fields, x.fields) {
				t.Errorf("%+v", d)
			}
			got, err := things.Patch(t.Context(), "a", types.MergePatchType, []byte(x.patch), metav1.PatchOptions{}, "status")
			if (err != nil) != (x.kind == "") || err == nil && got.GetKind() != "Thing" {
				t.Errorf("status: %v, %v", got, err)
			}
		})
	}
}
