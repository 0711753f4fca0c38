package policystatus

import (
	"encoding/json"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

func TestPlan(t *testing.T) {
	p := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", Generation: 3}}
	for want, warnings := range map[string][]admissionregistrationv1.ExpressionWarning{
		`{"observedGeneration":3,"typeChecking":{}}`: nil,
		`{"observedGeneration":3,"typeChecking":{"expressionWarnings":[{"fieldRef":"spec","warning":"wrong"}]}}`: {{FieldRef: "spec",
			Warning: "wrong"}},
	} {
		t.Run(want, func(t *testing.T) {
			if got, _ := json.Marshal(plan(p, warnings)["status"]); string(got) != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

func TestKnown(t *testing.T) {
	def := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict([]byte(`
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object,
    properties: {max: {type: integer}}}}}}}]
`), def); err != nil {
		t.Fatal(err)
	}
	k := known{kinds.NewSet(), []resource.Object{def}}
	gvk, ok := k.kind(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"})
	if !ok || gvk.Kind != "Widget" {
		t.Fatalf("%v %v", gvk, ok)
	}
	s, err := k.schema(gvk)
	if err != nil || !s.Properties["spec"].Properties["max"].Type.Contains("integer") {
		t.Errorf("%v %v", s, err)
	}
	if s, err := k.schema(schema.GroupVersionKind{Version: "v1", Kind: "Pod"}); s == nil || err != nil {
		t.Errorf("%v %v", s, err)
	}
	if _, ok := k.kind(schema.GroupVersionResource{Group: "example.com", Version: "v2", Resource: "widgets"}); ok {
		t.Error("a version that is not served is known")
	}
}
