package resource

import (
	"strings"
	"testing"

	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
)

// What is a label here is one for the library, and a subdomain.
func TestIsLabel(t *testing.T) {
	for _, part := range []string{"", "a", "0", "-", "A", ".", "_", "é", "a-b", strings.Repeat("x", 62)} {
		for _, name := range []string{part, "a" + part, part + "a", "a" + part + "9", part + "-", part + part} {
			if got, want := IsLabel(name), len(utilvalidation.IsDNS1123Label(name)) == 0; got != want {
				t.Errorf("%q: %v, want %v", name, got, want)
			}
			if IsLabel(name) && len(utilvalidation.IsDNS1123Subdomain(name)) > 0 {
				t.Errorf("%q is no subdomain", name)
			}
		}
	}
}
