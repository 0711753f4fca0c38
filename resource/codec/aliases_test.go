package codec

import (
	"strings"
	"testing"
)

// What aliases stand for is bounded in bytes, not only in nodes.
func TestAliases(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for _, tt := range []struct {
		name, text string
		ok         bool
	}{
		{"none", "a: " + long, true},
		{"a few", "a: &a " + long + "\nb: *a\nc: [*a, *a]", true},
		{"many short ones", "a: &a x\nb: [" + strings.Repeat("*a,", 2000) + "]", true},
		{"signs in a text", "a: |\n" + strings.Repeat("  f(*p, &q) * 2\n", 20_000), true},
		{"many long ones", "a: &a " + long + "\nb: [" + strings.Repeat("*a,", 3000) + "]", false},
		{"as keys", "a: &a " + long + "\nb: [" + strings.Repeat("{*a : x},", 3000) + "]", false},
		{"through a list", "a: &a [" + long + "]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: [*b,*b,*b,*b,*b,*b,*b,*b]", false},
		{"through merged maps", "a: &a {k: " + long + "}\nb: [" + strings.Repeat("{<<: *a},", 3000) + "]", false},
		{"in UTF-16", "\xfe\xff" + wide("a: &a "+long+"\nb: ["+strings.Repeat("*a,", 300)+"]"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := FromYAML([]byte(tt.text))
			if (err == nil) != tt.ok {
				t.Errorf("read: %v", err)
			}
		})
	}
}

// wide is a text in UTF-16.
func wide(s string) string {
	var b strings.Builder
	for i := range len(s) {
		b.WriteString("\x00" + s[i:i+1])
	}
	return b.String()
}
