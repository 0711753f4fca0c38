package kinds_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds"
)

func TestServed(t *testing.T) {
	older, err := features.New(36, nil)
	if err != nil {
		t.Fatal(err)
	}
	gvr := func(g, v, r string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Group: g, Version: v, Resource: r}
	}
	deployments, pods := gvr("apps", "v1", "deployments"), gvr("", "v1", "pods")
	migrations := gvr("storagemigration.k8s.io", "v1", "storageversionmigrations")
	for _, test := range []struct {
		on   *features.Set
		apis kinds.APIs
		gvr  schema.GroupVersionResource
		want bool
	}{
		{nil, nil, migrations, true},
		{older, nil, migrations, false},
		{older, kinds.APIs{"storagemigration.k8s.io/v1": true}, migrations, false},
		{older, nil, gvr("resource.k8s.io", "v1", "devicetaintrules"), false},
		{older, nil, gvr("resource.k8s.io", "v1", "resourceclaims"), true},
		{nil, kinds.APIs{"api/all": false, "v1": true}, deployments, false},
		{nil, kinds.APIs{"api/all": false, "v1": true}, pods, true},
		{nil, kinds.APIs{"api/all": true, "api/ga": false}, deployments, false},
		{nil, kinds.APIs{"api/beta": false}, deployments, true},
		{nil, kinds.APIs{"apps/v1": false}, deployments, false},
		{nil, kinds.APIs{"apps/v1": false, "apps/v1/deployments": true}, deployments, true},
		{nil, kinds.APIs{"apps/v1/deployments": false}, deployments, false},
		{nil, kinds.APIs{"apps/v1/deployments": false}, gvr("apps", "v1", "statefulsets"), true},
	} {
		set := kinds.SetFor(test.on, test.apis)
		if _, _, got := set.Resource(test.gvr); got != test.want {
			t.Errorf("%s %v: %s served: %t", test.on, test.apis, test.gvr, got)
		}
		k, ok := set.GR(test.gvr.GroupResource())
		if !ok {
			t.Fatalf("%s is not in the set", test.gvr)
		}
		if got := len(set.Served(k)) > 0; got != test.want {
			t.Errorf("%s %v: versions of %s: %v", test.on, test.apis, test.gvr, set.Served(k))
		}
	}
}

func TestAPIsCheck(t *testing.T) {
	for key, bad := range map[string]bool{"api/all": true, "api/ga": false, "v1": false, "apps/v1": false, "aps/v1": true, "events.k8s.io/v1": false,
		"convergence.kloop.dev/v1alpha1": false, "internal.apiserver.k8s.io/v1alpha1": false, "batch/v2alpha1": false} {
		if err := (kinds.APIs{key: false}).Check(); (err != nil) != bad {
			t.Errorf("%s: %v", key, err)
		}
	}
}
