package discovery

import (
	"runtime"
	"testing"
	"weak"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// TestStorageHash holds hashes to those that a stock 1.36 tells.
func TestStorageHash(t *testing.T) {
	for want, gvk := range map[string]schema.GroupVersionKind{
		"jfWCUB31mvA=": {Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
		"8aSe+NMegvE=": {Group: "apps", Version: "v1", Kind: "Deployment"},
	} {
		t.Run(want, func(t *testing.T) {
			if got := storageHash(hashed(&resource.Info{GVK: gvk})); got != want {
				t.Errorf("%s: %s, want %s", gvk, got, want)
			}
		})
	}
}

// A leaving kind is one that can be garbage, as those of definitions.
type leaving struct{ resource.Kind }

// TestKindsLeave: documents hold no kind that has left the set, though nobody has asked for them since.
func TestKindsLeave(t *testing.T) {
	set, d := resource.NewSet(), documents{}
	k := &leaving{core.ConfigMaps}
	if err := set.Put(k); err != nil {
		t.Fatal(err)
	}
	if groups := d.list(set); len(groups) != 1 || len(groups[0].Versions[0].Resources) != 1 {
		t.Fatalf("%+v", groups)
	}
	was := weak.Make(k)
	k = nil
	set.Remove(core.ConfigMaps.Info().GR())
	runtime.GC()
	if was.Value() != nil {
		t.Error("the kind is still held")
	}
	if groups := d.list(set); len(groups) != 0 {
		t.Errorf("%+v", groups)
	}
}
