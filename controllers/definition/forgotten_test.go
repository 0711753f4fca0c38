package definition_test

import (
	"fmt"
	"runtime"
	"testing"
	"weak"

	"github.com/kloop-dev/kloop/crd"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// TestForgotten: a kind whose definition is gone is garbage, although nobody has asked for a document since, and with it the definition
// that it holds: a thousand large ones weigh 40 MB.
func TestForgotten(t *testing.T) {
	w := begin(t)
	var were []weak.Pointer[crd.Kind]
	const count = 10
	for i := range count {
		group := fmt.Sprintf("g%d.example.com", i)
		w.define(widgets(t, group, "v1", "v1"))
		were = append(were, weak.Make(w.kind(group, "v1").(*crd.Kind)))
	}
	w.docs.Index()
	for i := range count {
		group := fmt.Sprintf("g%d.example.com", i)
		if err := w.Delete(t.Context(), kinds.CustomResourceDefinitions, "", "widgets."+group, nil); err != nil {
			t.Fatal(err)
		}
		w.until(group+" is gone", func(r resource.Reader) bool {
			return resource.Get(r, kinds.CustomResourceDefinitions, "", "widgets."+group) == nil && w.kind(group, "v1") == nil
		})
	}
	runtime.GC()
	kept := 0
	for _, k := range were {
		if k.Value() != nil {
			kept++
		}
	}
	if kept > 1 { // the last may be on somebody's stack
		t.Errorf("%d of %d kinds are still held", kept, count)
	}
}
