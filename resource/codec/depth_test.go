package codec

import (
	"strings"
	"testing"
)

func TestCheckDepth(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for doc, ok := range map[string]bool{
		"": true, "1": true, nested(256): true, nested(257): false, strings.Repeat(`{"a":`, 257): false,
		`"` + strings.Repeat("[", 300) + `"`: true, `"\"` + strings.Repeat("{", 300) + `"`: true, `["\\",` + nested(256) + "]": false,
		strings.Repeat("[],", 1000): true, strings.Repeat("]", 1000) + nested(3): true, `"`: true, `"\`: true,
	} {
		t.Run(doc, func(t *testing.T) {
			if err := CheckDepth([]byte(doc)); (err == nil) != ok {
				t.Errorf("%.40q: %v", doc, err)
			}
			var v any
			if _, err := UnmarshalJSON([]byte(doc), &v); !ok && err == nil {
				t.Errorf("%.40q is decoded", doc)
			}
		})
	}
}
