package httpapi

import (
	"net/http"
	"strings"
	"testing"
)

// What is too much is cut, what came first too.
func TestWarningsAreCut(t *testing.T) {
	ws := warnings{h: http.Header{}}
	long := strings.Repeat("ü", 1000)
	for _, text := range []string{"a" + long, "b" + long, "b" + long, "c" + long, "d" + long} {
		ws.add(text)
	}
	whole, short := `299 - "a`+long+`"`, `299 - "a`+long[:2*(warningCut-1)]+`"`
	if got := ws.h.Values("Warning"); len(got) != 4 || got[0] != whole {
		t.Fatalf("%d warnings, the first %.40q", len(got), got[0])
	}
	ws.add("e" + long)
	if got := ws.h.Values("Warning"); len(got) != 5 || got[0] != short {
		t.Fatalf("%d warnings, the first %.40q", len(got), got[0])
	}
	for i := range 100 {
		ws.add(strings.Repeat("x", i) + long)
	}
	if got := ws.h.Values("Warning"); len(got) != warningBudget/warningCut {
		t.Errorf("%d warnings", len(got))
	}
}
