package apiextensions

import (
	"fmt"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/features"
)

// TestColumns: definitions have columns of their own since 1.37.
func TestColumns(t *testing.T) {
	old, err := features.New(36, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "ws.a.example", CreationTimestamp: metav1.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC)},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{Group: "a.example", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: "W", ShortNames: []string{"x", "z"}},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v2", Served: true, Storage: true},
				{Name: "v1", Served: true}, {Name: "v0"}}},
		Status: apiextensionsv1.CustomResourceDefinitionStatus{
			Conditions: []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established,
				Status: apiextensionsv1.ConditionTrue}}},
	}
	for _, tc := range []struct {
		name string
		on   *features.Set
		want string
	}{
		{"today", nil, "[ws.a.example Namespaced v1,v2(storage) 2024-01-02T03:04:05Z a.example W x,z true]"},
		{"in 1.36", old, "[ws.a.example 2024-01-02T03:04:05Z]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := fmt.Sprint(CustomResourceDefinitions.Rows(tc.on, nil)(c)); got != tc.want {
				t.Errorf("%v: %s, want %s", tc.on, got, tc.want)
			}
			if h := CustomResourceDefinitions.Header(tc.on); len(h) != len(CustomResourceDefinitions.Rows(tc.on, nil)(c)) {
				t.Errorf("%d columns", len(h))
			}
		})
	}
}
