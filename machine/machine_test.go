package machine

import (
	"errors"
	"net"
	"path/filepath"
	"testing"

	"github.com/kloop-dev/kloop/cluster"
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

// TestWrongSettingsTakeNoPort: what can't be meant is found before the agent's port is taken.
func TestWrongSettingsTakeNoPort(t *testing.T) {
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	n := Config{Port: l.Addr().(*net.TCPAddr).Port, Images: cluster.NodeImages{MaxParallelPulls: -1}}
	if _, err := n.parts(); err == nil || errors.Is(err, cluster.ErrAgentPort) {
		t.Errorf("of two mistakes it tells: %v", err)
	}
}
