package scheduler

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestShortened: a text is cut to what an event may hold, and no letter is cut in two.
func TestShortened(t *testing.T) {
	if got := shortened("short"); got != "short" {
		t.Error(got)
	}
	for _, text := range []string{strings.Repeat("ö", 600), "x" + strings.Repeat("ö", 600)} {
		if got := shortened(text); !utf8.ValidString(got) || len(got) > 1024 || len(got) < 1022 || !strings.HasSuffix(got, "ö ...") {
			t.Errorf("%d bytes: …%q", len(got), got[len(got)-8:])
		}
	}
}
