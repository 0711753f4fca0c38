package volume

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// TestManyVolumes: fifty volumes of ConfigMaps, with a Secret's and an empty one beside them, in five pods at once.
func TestManyVolumes(t *testing.T) {
	needRoot(t)
	m := mounter(t, cluster())
	spec := "{containers: [{name: c}], volumes: [{name: s, secret: {secretName: pass}}, {name: e, emptyDir: {}}"
	for i := range 50 {
		spec += fmt.Sprintf(", {name: v%d, configMap: {name: conf, items: [{key: a, path: f%d}]}}", i, i)
	}
	var all sync.WaitGroup
	for i := range 5 {
		p := pod(t, spec+"]}")
		p.Name, p.UID = fmt.Sprint("web", i), types.UID(fmt.Sprint("many", i))
		all.Go(func() {
			paths, err := m.Prepare(t.Context(), p)
			if err != nil {
				t.Error(err)
				return
			}
			for name, path := range paths {
				want := map[string]string{}
				if n, ok := strings.CutPrefix(name, "v"); ok {
					want["f"+n] = "644 1"
				} else if name == "s" {
					want["word"] = "644 sesame"
				}
				if got := tree(t, path); !maps.Equal(got, want) {
					t.Errorf("%s of %s: %q, want %q", name, p.Name, got, want)
				}
			}
			if len(paths) != 52 {
				t.Errorf("%d volumes", len(paths))
			}
		})
	}
	all.Wait()
}
