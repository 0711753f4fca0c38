package older

import (
	"encoding/json"
	"testing"
)

// TestApply makes patches and applies them: what comes out is the older schema.
func TestApply(t *testing.T) {
	for _, test := range []struct{ newer, older, patch string }{
		{`{"type":"object","required":["a"],"properties":{"a":{"type":"string"},"b":{"type":"string"}}}`,
			`{"properties":{"a":{"type":"string"}},"type":"object"}`, `{"properties":{"b":null},"required":null}`},
		{`{"properties":{"l":{"type":"array","items":{"type":"string"}}}}`,
			`{"properties":{"l":{"items":{"default":"","type":"string"},"type":"array"}}}`, ``},
		{`{"additionalProperties":{"$ref":"#/components/schemas/x.Y"}}`,
			`{"additionalProperties":{"allOf":[{"$ref":"#/components/schemas/x.Y"}],"default":{}}}`, ``},
		{`{"items":{"$ref":"#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.Time"}}`,
			`{"items":{"$ref":"#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.Time"}}`, ``},
		{`{"a":1}`, `{"a":{"b":2}}`, `{"a":{"b":2}}`},
	} {
		t.Run(test.newer, func(t *testing.T) {
			from, err := read(json.RawMessage(test.newer))
			if err != nil {
				t.Fatal(err)
			}
			to, err := read(json.RawMessage(test.older))
			if err != nil {
				t.Fatal(err)
			}
			var patch json.RawMessage
			Fill(from)
			if d := Diff(from, to); d != nil {
				if patch, err = json.Marshal(d); err != nil {
					t.Fatal(err)
				}
			}
			if string(patch) != test.patch {
				t.Errorf("%s: patch %s", test.newer, patch)
			}
			got, ok, err := Apply(json.RawMessage(test.newer), patch)
			if err != nil || !ok || string(got) != test.older {
				t.Errorf("%s: %s, %v, %v", test.newer, got, ok, err)
			}
		})
	}
	if _, ok, err := Apply(json.RawMessage(`{}`), json.RawMessage(`null`)); ok || err != nil {
		t.Error("a schema that is gone is there", err)
	}
	if gone := Gone(json.RawMessage(`{"properties":{"b":null,"c":{"format":null}}}`)); len(gone) != 1 || gone[0] != "b" {
		t.Error(gone)
	}
}
