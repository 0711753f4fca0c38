package openapi

import (
	"encoding/json"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/resource"
)

// TestDefined looks at what sets the document of defined kinds apart from those of kinds that are built in.
func TestDefined(t *testing.T) {
	gv := schema.GroupVersion{Group: "4-my-0.example.com", Version: "v1"}
	tabs := &stub{info: resource.Info{GVK: gv.WithKind("CronTab"), Plural: "crontabs", ListKind: "CronTabList", Namespaced: true,
		Verbs: all, Custom: true, Subs: []resource.SubInfo{{Name: "scale", Verbs: []string{"get", "patch", "update"},
			GVK: schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}}}}}
	data, _, err := New(resource.NewSet(tabs)).V3(GroupPath(gv))
	doc := parse(t, data, err)
	if got := at(doc, "info", "title"); got != "Kubernetes CRD Swagger" || at(doc, "info", "version") != "v0.1.0" {
		t.Errorf("info: %v", doc["info"])
	}
	if at(doc, "components", "securitySchemes") != nil || at(doc, "components", "schemas", eventName) != nil {
		t.Error("a scheme of security, or events of watches")
	}
	var groups []string
	for _, k := range at(doc, "components", "schemas", deleteName, gvkExtension).([]any) {
		groups = append(groups, at(k, "group").(string))
	}
	if !slices.Contains(groups, "apps") || slices.Contains(groups, "apiextensions.k8s.io") ||
		slices.Contains(groups, "apiregistration.k8s.io") {
		t.Errorf("options of deletion: %v", groups)
	}
	every, all := "/apis/4-my-0.example.com/v1/crontabs", "/apis/4-my-0.example.com/v1/namespaces/{namespace}/crontabs"
	for path, want := range map[string][]string{all + "/{name}": {"name", "namespace", "pretty"}, all: {"namespace", "pretty"},
		every: slices.Sorted(slices.Values(withPretty(listParams)))} {
		t.Run(path, func(t *testing.T) {
			if got := names(at(doc, "paths", path, "parameters")); !slices.Equal(got, want) {
				t.Errorf("%s: %v", path, got)
			}
		})
	}
	if at(doc, "paths", every, "get", "parameters") != nil {
		t.Error("the only operation of a path has parameters of its own")
	}
	scale := at(doc, "paths", all+"/{name}/scale", "put")
	if b, _ := json.Marshal(at(scale, gvkExtension)); at(scale, gvkExtension, "kind") != "CronTab" {
		t.Errorf("scale is of %s", b)
	}
	if got := at(scale, "operationId"); got != "replaceMy0ExampleComV1NamespacedCronTabScale" {
		t.Errorf("operation %v", got)
	}
}
