package need

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// MayResize skips where root may not enlarge a mounted file system, as in some containers.
func MayResize(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "CapEff:")
	caps, err := strconv.ParseUint(strings.Fields(rest)[0], 16, 64)
	if err == nil && caps>>unix.CAP_SYS_RESOURCE&1 == 0 {
		err = errors.New("no CAP_SYS_RESOURCE")
	}
	Have(t, Resize, err)
}
