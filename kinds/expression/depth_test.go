package expression

import (
	"strings"
	"testing"
)

func TestTooDeep(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for text, deep := range map[string]bool{
		"": false, "self.x > 1": false, nested(40): false, nested(41): true, `"` + nested(50) + `"`: false, `'\'` + nested(50) + `'`: false,
		strings.Repeat("[1].map(x, ", 41): true, strings.Repeat("(1)", 50): false, strings.Repeat("{'a':", 41): true, "'": false, `"\`: false,
	} {
		t.Run(text, func(t *testing.T) {
			if got := TooDeep(text) != ""; got != deep {
				t.Errorf("%.40s: %v", text, got)
			}
		})
	}
}
