package golden

import (
	"strings"
	"testing"
)

func TestReplay(t *testing.T) {
	script := "# words\nup a\n  A\n\nup b c\n  old\n"
	want := "# words\nup a\n  A\n\nup b c\n  B\n  C\n"
	got := replay(script, func(line string) string {
		_, words, _ := strings.Cut(line, " ")
		return strings.ReplaceAll(strings.ToUpper(words), " ", "\n")
	})
	if got != want {
		t.Errorf("got %q", got)
	}
	if d := difference(script, got); d != "up b c\n-   old\n+   B" {
		t.Errorf("difference: %q", d)
	}
}
