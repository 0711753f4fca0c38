package apply

import (
	"strings"
	"testing"

	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// An event has books in the group in which it was written last, as upstream keeps them.
func TestTwoGroups(t *testing.T) {
	h := begin(t, core.Events)
	h.update("one", "", `{"metadata":{"name":"e"},"count":1}`)
	other := core.Events.Info().Also[0]
	w := h.write("two", "")
	w.GVK = other
	old, err := core.Events.ConvertTo(t.Context(), h.obj, other)
	if err != nil {
		t.Fatal(err)
	}
	out, err := readAndApply(h.tr, w, old, `{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"name":"e"},"reason":"r"}`, false)
	if err != nil {
		t.Fatal(err)
	}
	if f := out.GetManagedFields(); len(f) != 1 || f[0].Manager != "two" || len(old.GetManagedFields()) != 1 {
		t.Errorf("applied: %+v", f)
	}
	changed := resource.Clone(old)
	changed.SetLabels(map[string]string{"a": "b"})
	if err := h.tr.Update(w, old, changed); err != nil {
		t.Fatal(err)
	}
	if f := changed.GetManagedFields(); len(f) != 1 || !strings.Contains(string(f[0].FieldsV1.GetRawBytes()), "f:labels") {
		t.Errorf("updated: %+v", f)
	}
}
