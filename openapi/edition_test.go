package openapi

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/resource"
)

func version(t *testing.T, minor int) *features.Set {
	t.Helper()
	on, err := features.New(minor, nil)
	if err != nil {
		t.Fatal(err)
	}
	return on
}

// TestEdition reads the document of core/v1 as two versions have it.
func TestEdition(t *testing.T) {
	pods := &resource.Def[*corev1.Pod]{GVK: corev1.SchemeGroupVersion.WithKind("Pod"), Plural: "pods", Namespaced: true}
	nodes := &resource.Def[*storagev1.CSINode]{GVK: storagev1.SchemeGroupVersion.WithKind("CSINode"), Plural: "csinodes"}
	hidden := func(gvr schema.GroupVersionResource) bool { return gvr.Group == "storage.k8s.io" }
	etags := map[string]bool{}
	for minor, newer := range map[int]bool{36: false, 37: true} {
		d := New(resource.For(version(t, minor), hidden, pods, nodes))
		raw, etag, err := d.V3("api/v1")
		if err != nil {
			t.Fatal(err)
		}
		etags[etag] = true
		var doc struct {
			Components struct {
				Schemas map[string]struct {
					Properties map[string]json.RawMessage `json:"properties"`
				} `json:"schemas"`
			} `json:"components"`
		}
		if err := json.Unmarshal(raw, &doc); err != nil {
			t.Fatal(err)
		}
		spec := doc.Components.Schemas["io.k8s.api.core.v1.PodSpec"].Properties
		if _, has := spec["evictionResponders"]; has != newer {
			t.Errorf("1.%d: evictionResponders %t", minor, has)
		}
		if got := strings.Contains(string(spec["imagePullSecrets"]), `"default":{}`); got == newer {
			t.Errorf("1.%d: %s", minor, spec["imagePullSecrets"])
		}
		if _, has := doc.Components.Schemas["io.k8s.api.core.v1.EvictionResponder"]; has != newer {
			t.Errorf("1.%d: EvictionResponder %t", minor, has)
		}
		if _, served := d.Index()["apis/storage.k8s.io/v1"]; served {
			t.Errorf("1.%d: a hidden group is described", minor)
		}
	}
	if len(etags) != 2 {
		t.Error("both have the same tag")
	}
}

func TestTrim(t *testing.T) {
	mode := int32(0o700)
	fresh := func() *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n",
			EvictionResponders: []corev1.EvictionResponder{{}},
			Volumes: []corev1.Volume{{Name: "a"},
				{Name: "b", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Mode: &mode}}}}}}
	}
	p := fresh()
	got := strings.Join(Trim(version(t, 36), p), " ")
	if got != "spec.volumes[1].emptyDir.mode spec.evictionResponders" || p.Spec.EvictionResponders != nil ||
		p.Spec.Volumes[1].EmptyDir.Mode != nil || p.Spec.NodeName != "n" {
		t.Errorf("%q: %+v", got, p.Spec)
	}
	p = fresh()
	if got := Trim(nil, p); got != nil || p.Spec.EvictionResponders == nil {
		t.Errorf("1.37 lost %v", got)
	}
}
