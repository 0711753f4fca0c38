package httpapi

import (
	"net/http"
	"slices"
	"testing"

	"github.com/kloop-dev/kloop/resource"
)

// TestHead: upstream answers HEAD for custom resources alone.
func TestHead(t *testing.T) {
	for _, custom := range []bool{true, false} {
		for _, name := range []string{"", "a"} {
			c := &request{info: &info{Name: name}}
			c.facts = &resource.Info{Custom: custom, Verbs: []string{"get", "list"}}
			if got := c.methods(); slices.Contains(got, http.MethodHead) != custom || !slices.Contains(got, http.MethodGet) {
				t.Errorf("custom %v, name %q: %v", custom, name, got)
			}
		}
	}
}
