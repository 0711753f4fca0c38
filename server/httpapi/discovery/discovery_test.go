package discovery

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

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
