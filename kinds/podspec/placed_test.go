package podspec

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestPlaced holds the index to a look at every path, with paths that are longer than it knows among them.
func TestPlaced(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	parts := []string{"", "a", "b", "a.", strings.Repeat("x", indexed-2), strings.Repeat("x", indexed-1), strings.Repeat("x", indexed)}
	rivals := 0
	for range 300 {
		f, all := &placed{}, []string{}
		for range 12 {
			var words []string
			for range r.IntN(4) {
				words = append(words, parts[r.IntN(len(parts))])
			}
			p, want, is := strings.TrimRight(strings.Join(words, "/"), "/"), "", false
			for _, o := range all {
				if is = p == o || strings.HasPrefix(p, o+"/") || strings.HasPrefix(o, p+"/"); is {
					want = o
					rivals++
					break
				}
			}
			if got, ok := f.rival(p); ok != is || got != want {
				t.Fatalf("%q among %q: %q, want %q", p, all, got, want)
			}
			f.add(p)
			all = append(all, p)
		}
	}
	if rivals < 100 {
		t.Errorf("only %d rivals", rivals)
	}
}
