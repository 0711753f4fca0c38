package clusters

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestPodRanges reads the ranges of a node's pods from the configuration of its own runtime. That of a runtime which was there already is
// found by runtime.Config.FormerConfig.
func TestPodRanges(t *testing.T) {
	dir := t.TempDir()
	if list, path := podRanges(dir); list != nil || path != "" {
		t.Errorf("a directory without a node has %v in %q", list, path)
	}
	file := filepath.Join(dir, "runtime/cni/conf/10-kloop.conflist")
	text := `{"plugins": [{"type": "portmap"},
		{"type": "bridge", "ipam": {"ranges": [[{"subnet": "10.88.3.0/24"}], [{"subnet": "fd88::/64"}]]}}]}`
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	if list, path := podRanges(dir); fmt.Sprint(list) != "[10.88.3.0/24 fd88::/64]" || path != file {
		t.Errorf("%v in %q", list, path)
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if list, path := podRanges(dir); list != nil || path != file {
		t.Errorf("of a file that can't be read: %v in %q", list, path)
	}
}
