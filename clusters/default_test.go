package clusters

import (
	"strings"
	"testing"
)

// Who has no home is told what to set; root needs none.
func TestDefaultWithoutHome(t *testing.T) {
	for _, name := range []string{"HOME", "XDG_STATE_HOME", "USERPROFILE", "home"} {
		t.Setenv(name, "")
	}
	if _, err := defaultOf(1000); err == nil || !strings.Contains(err.Error(), "KLOOP_CLUSTERS") {
		t.Errorf("%v", err)
	}
	if r, err := defaultOf(0); err != nil || r != "/var/lib/kloop-clusters" {
		t.Errorf("%q, %v", r, err)
	}
}
