package kinds_test

import (
	"bytes"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/served"
	"github.com/kloop-dev/kloop/openapi"
	"github.com/kloop-dev/kloop/resource"
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
		name string
		on   *features.Set
		apis served.APIs
		gvr  schema.GroupVersionResource
		want bool
	}{
		{"by default", nil, nil, migrations, true},
		{"newer than the version", older, nil, migrations, false},
		{"newer than the version, though its group is on", older, served.APIs{"storagemigration.k8s.io/v1": true}, migrations, false},
		{"another newer kind", older, nil, gvr("resource.k8s.io", "v1", "devicetaintrules"), false},
		{"as old as the version", older, nil, gvr("resource.k8s.io", "v1", "resourceclaims"), true},
		{"all off, another group on", nil, served.APIs{"api/all": false, "v1": true}, deployments, false},
		{"all off, its version on", nil, served.APIs{"api/all": false, "v1": true}, pods, true},
		{"stable versions off", nil, served.APIs{"api/all": true, "api/ga": false}, deployments, false},
		{"beta versions off", nil, served.APIs{"api/beta": false}, deployments, true},
		{"group's version off", nil, served.APIs{"apps/v1": false}, deployments, false},
		{"kind on in a version that is off", nil, served.APIs{"apps/v1": false, "apps/v1/deployments": true}, deployments, true},
		{"kind off", nil, served.APIs{"apps/v1/deployments": false}, deployments, false},
		{"its neighbour off", nil, served.APIs{"apps/v1/deployments": false}, gvr("apps", "v1", "statefulsets"), true},
	} {
		t.Run(test.name, func(t *testing.T) {
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
		})
	}
}

// A subresource is served from its own version on; where what it belongs to is served, nothing else takes it away.
func TestServedSubresources(t *testing.T) {
	older, err := features.New(36, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name          string
		on            *features.Set
		apis          served.APIs
		resource, sub string
		want          bool
	}{
		{"in its first version", nil, nil, "csinodes", "status", true},
		{"newer than the version", older, nil, "csinodes", "status", false},
		{"as old as the version", older, nil, "volumeattachments", "status", true},
		{"its version off, the kind on", nil, served.APIs{"storage.k8s.io/v1": false, "storage.k8s.io/v1/csinodes": true},
			"csinodes", "status", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			set := kinds.SetFor(test.on, test.apis)
			k, gvk, ok := set.Resource(schema.GroupVersionResource{Group: "storage.k8s.io", Version: "v1", Resource: test.resource})
			if !ok {
				t.Fatalf("%s is not served", test.resource)
			}
			subs := set.Subs(k.Info(), gvk.GroupVersion())
			if got := slices.ContainsFunc(subs, func(s resource.SubInfo) bool { return s.Name == test.sub }); got != test.want {
				t.Errorf("%s %v: %s/%s served: %t", test.on, test.apis, test.resource, test.sub, got)
			}
			doc, _, err := openapi.New(set).V3("apis/storage.k8s.io/v1")
			if err != nil {
				t.Fatal(err)
			}
			if got := bytes.Contains(doc, []byte("/"+test.resource+"/{name}/"+test.sub+`"`)); got != test.want {
				t.Errorf("%s %v: %s/%s described: %t", test.on, test.apis, test.resource, test.sub, got)
			}
		})
	}
}

// TestSince holds the table of what is newer to the schemas: what a version serves, it describes.
func TestSince(t *testing.T) {
	for minor := features.Oldest; minor <= features.Newest; minor++ {
		on, err := features.New(minor, nil)
		if err != nil {
			t.Fatal(err)
		}
		set := kinds.SetFor(on, nil)
		docs := openapi.New(set)
		for _, k := range set.All() {
			for _, gvk := range set.Served(k) {
				doc, _, err := docs.V3(openapi.GroupPath(gvk.GroupVersion()))
				if err != nil {
					t.Fatal(err)
				}
				model := `"kind":"` + gvk.Kind + `","version":"` + gvk.Version + `"`
				if !bytes.Contains(doc, []byte(`"x-kubernetes-group-version-kind":[{"group":"`+gvk.Group+`",`+model)) {
					t.Errorf("1.%d serves %s and has no schema of it", minor, gvk)
				}
			}
		}
	}
}

func TestAPIsCheck(t *testing.T) {
	for key, bad := range map[string]bool{"api/all": true, "api/ga": false, "v1": false, "apps/v1": false, "aps/v1": true,
		"events.k8s.io/v1":               false,
		"convergence.kloop.dev/v1alpha1": false, "internal.apiserver.k8s.io/v1alpha1": false, "batch/v2alpha1": false} {
		t.Run(key, func(t *testing.T) {
			if err := (served.APIs{key: false}).Check(kinds.All()); (err != nil) != bad {
				t.Errorf("%s: %v", key, err)
			}
		})
	}
}

// TestNotSelectable: upstream's apps/v1 has no field selectors for ReplicaSets, whatever its older versions had.
func TestNotSelectable(t *testing.T) {
	if got := kinds.ReplicaSets.Info().Selectable; slices.Contains(got, "status.replicas") {
		t.Error(got)
	}
}

// Upstream's conversion of field labels knows metadata.namespace for every kind that has no labels of its own.
func TestSelectableNamespace(t *testing.T) {
	for k, want := range map[resource.Kind]bool{kinds.PersistentVolumes: true, kinds.StorageClasses: true, kinds.Pods: true,
		kinds.Nodes: false, kinds.Namespaces: false, kinds.ResourceSlices: false} {
		if got := slices.Contains(k.Info().Selectable, "metadata.namespace"); got != want {
			t.Errorf("%s: %v, want %v", k.Info().Plural, got, want)
		}
	}
}

// The rules of some kinds are the generic ones, which let a finalizer be called anything.
func TestAnyFinalizer(t *testing.T) {
	for k, want := range map[resource.Kind]bool{kinds.Leases: true, kinds.RuntimeClasses: true, kinds.PodDisruptionBudgets: true,
		kinds.CustomResourceDefinitions: true, kinds.Pods: false, kinds.StorageClasses: false, kinds.EndpointSlices: false} {
		if got := k.Info().UnqualifiedFinalizers; got != want {
			t.Errorf("%s: %v, want %v", k.Info().Plural, got, want)
		}
	}
}
