package server_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/internal/testcluster"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/view"
)

// TestUnreadablePatch: since 1.37 a patch that is no JSON, and can't be put so, is refused before anything else is looked at.
func TestUnreadablePatch(t *testing.T) {
	older, err := features.New(36, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		on   *features.Set
		kind types.PatchType
		data string
		want string
	}{
		{"merge", nil, types.MergePatchType, `{"a":`, "invalid JSON patch"},
		{"operations", nil, types.JSONPatchType, `[`, "invalid JSON patch"},
		{"strategic", nil, types.StrategicMergePatchType, ``, "invalid JSON patch"},
		{"merge in 1.36", older, types.MergePatchType, `{"a":`, `configmaps "none" not found`},
		{"YAML", nil, types.ApplyYAMLPatchType, "a: [", "error encoding patch: yaml: line 1: did not find expected node content"},
		{"a list", nil, types.ApplyYAMLPatchType, "[]", "error decoding patch: error unmarshaling JSON: while decoding JSON: " +
			"json: cannot unmarshal array into Go value of type map[string]interface {}"},
		{"YAML in 1.36", older, types.ApplyYAMLPatchType, "a: [",
			"error decoding YAML: error converting YAML to JSON: yaml: line 1: did not find expected node content"},
		{"a key twice", nil, types.ApplyYAMLPatchType, "apiVersion: v1\nkind: ConfigMap\nkind: ConfigMap\n",
			"error strict decoding patch: error converting YAML to JSON: yaml: unmarshal errors:\n  line 3: key \"kind\" already set in map"},
		{"a key twice in 1.36", older, types.ApplyYAMLPatchType, "apiVersion: v1\nkind: ConfigMap\nkind: ConfigMap\n",
			"error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  line 3: key \"kind\" already set in map"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := start(t, func(k *testcluster.Config) {
				k.Kinds = resource.For(c.on, nil, configMaps, namespaces)
				k.View = view.NewWith(k.Kinds, view.Config{})
			})
			r := w.ask(configMaps, "none")
			r.Manager, r.Strict = "m", server.FieldsStrict
			if _, _, err := w.Patch(t.Context(), r, c.kind, []byte(c.data), false); err == nil || err.Error() != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}
