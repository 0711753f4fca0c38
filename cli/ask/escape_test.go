package ask

import "testing"

func TestEscape(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"plain", "waits for secret/a:\n\tmissing – 3 µs", "waits for secret/a:\n\tmissing – 3 µs"},
		{"a sequence", "a\x1b[2J\x1b]0;title\x07b", "a^[[2J^[]0;title^Gb"},
		{"back to the line's begin", "blocked\rall is well", "blocked^Mall is well"},
		{"in one byte", "a\u009b2Jb\x7f", "a<U+009B>2Jb<U+007F>"},
		{"from right to left", "a\u202eb", "a<U+202E>b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Escape(c.text); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			if got := (paper{}).lay(c.text); got != c.want {
				t.Errorf("laid out: %q, want %q", got, c.want)
			}
		})
	}
}
