package reply

import (
	"encoding/json"
	"testing"

	"sigs.k8s.io/yaml"
)

// What can be said in JSON can be said in YAML: control characters too, as they stand in data and in what errors quote.
func TestToYAML(t *testing.T) {
	for _, want := range []string{"plain", "del \x7f", "\u0080\u009f", "\ufeff", "\uffff", "\x00\x1f", "\u0085\u2028", "𝄞", "\ufffd"} {
		doc, err := json.Marshal(map[string]string{"k": want})
		if err != nil {
			t.Fatal(err)
		}
		text, err := ToYAML(doc)
		if err != nil {
			t.Errorf("%q: %v", want, err)
			continue
		}
		var got map[string]string
		if err := yaml.Unmarshal(text, &got); err != nil || got["k"] != want {
			t.Errorf("%q became %q: %q, %v", want, text, got["k"], err)
		}
	}
}
