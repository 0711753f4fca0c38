package machine

import (
	"path/filepath"
	"testing"

	"github.com/kloop-dev/kloop/node/runtime"
)

// A data directory may be given relative to where kloop was started.
func TestNodeDirsAreAbsolute(t *testing.T) {
	n := Config{Dir: "data/node", Runtime: runtime.Config{Dir: "data/runtime"}}
	if err := n.settle(); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{n.Dir, n.Runtime.Dir} {
		if !filepath.IsAbs(dir) {
			t.Errorf("%s is relative", dir)
		}
	}
	if n.StaticDir != "" || n.Runtime.Socket != "" {
		t.Errorf("what was not given is now %q, %q", n.StaticDir, n.Runtime.Socket)
	}
}
