package apply

import (
	"encoding/json"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

func TestOverlay(t *testing.T) {
	tr := NewTracker()
	d := &appsv1.Deployment{}
	if err := json.Unmarshal([]byte(deploymentJSON), d); err != nil {
		t.Fatal(err)
	}
	overlay := func(text string) (*appsv1.Deployment, error) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(text), &fields); err != nil {
			t.Fatal(err)
		}
		out, err := tr.Overlay(deploys, d, fields)
		if err != nil {
			return nil, err
		}
		return out.(*appsv1.Deployment), nil
	}
	out, err := overlay(
		`{"metadata":{"labels":{"x":"y"}},"spec":{"template":{"spec":{"containers":[{"name":"web","image":"other"},{"name":"more"}]}}}}`)
	if err != nil {
		t.Fatal(err)
	}
	list := out.Spec.Template.Spec.Containers
	if out.Labels["app"] != "web" || out.Labels["x"] != "y" || len(list) != 2 || list[0].Image != "other" || len(list[0].Env) != 2 {
		t.Errorf("got %v %v", out.Labels, list)
	}
	if d.Labels["x"] != "" {
		t.Error("the object itself was changed")
	}
	for text, want := range map[string]string{
		`{"spec":{"template":{"spec":{"nodeSelector":{"a":"b"}}}}}`: "may not mutate atomic arrays, maps or structs: " +
			".spec.template.spec.nodeSelector",
		`{"spec":{"template":{"spec":{"containers":[{"name":"web","args":[]}]}}}}`: ".spec.template.spec.containers[0].args",
		`{"spec":{"nothing":1}}`:    "field not declared in schema",
		`{"spec":{"replicas":"x"}}`: "failed to convert patch object",
	} {
		t.Run(text, func(t *testing.T) {
			if _, err := overlay(text); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", text, err, want)
			}
		})
	}
}

func TestOverlayOfACustomResource(t *testing.T) {
	tr, k, s := NewTracker(), widgets(), &spec.Schema{}
	if err := s.UnmarshalJSON([]byte(widgetSchema)); err != nil {
		t.Fatal(err)
	}
	if err := tr.SetSchema(k.info.GVK, s); err != nil {
		t.Fatal(err)
	}
	live := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget",
		"metadata": map[string]any{"name": "w"}, "spec": map[string]any{"n": int64(1), "set": []any{"a"}}}}
	out, err := tr.Overlay(k, live, map[string]any{"spec": map[string]any{"set": []any{"b"}}})
	if err != nil {
		t.Fatal(err)
	}
	got, _ := json.Marshal(out)
	if want := `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"n":1,"set":["a","b"]}}`; string(got) != want+
		"\n" && string(got) != want {
		t.Errorf("got %s", got)
	}
}
