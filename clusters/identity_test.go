package clusters

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kloop-dev/kloop/auth/pki"
)

// TestIdentity has a cluster exchange its keys while a node is away: what the node has is good for as long as the keys of before are
// believed, and is made anew when they are not.
func TestIdentity(t *testing.T) {
	c := &Cluster{Name: "a", Nodes: 2, dir: t.TempDir()}
	keys, err := pki.Open(pki.Config{Dir: filepath.Join(c.NodeDir(1), "pki")})
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := keys.CA.Issue(pki.Leaf{User: "system:node:a-2", Client: true}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(c.NodeDir(2), "pki", "kubelet-client-current.pem")
	if err := errors.Join(os.MkdirAll(filepath.Dir(own), 0o700), os.WriteFile(own, append(cert, key...), 0o600)); err != nil {
		t.Fatal(err)
	}
	identity := func() []byte {
		t.Helper()
		err := c.identify(2)
		text, bad := os.ReadFile(c.nodeKubeconfig(2))
		if err := errors.Join(err, bad); err != nil {
			t.Fatal(err)
		}
		return text
	}
	first := identity()
	if !bytes.Equal(identity(), first) {
		t.Error("a good identity is made anew")
	}
	if err := keys.Rotate(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(identity(), first) {
		t.Error("an identity is made anew while that of before is believed")
	}
	if _, err := os.Stat(own); err != nil {
		t.Errorf("a good certificate is gone: %v", err)
	}
	if err := keys.Finish(false); err != nil {
		t.Fatal(err)
	}
	second := identity()
	if bytes.Equal(second, first) || !bytes.Equal(identity(), second) {
		t.Error("an identity of former keys stays, or one of today's does not")
	}
	if _, err := os.Stat(own); err == nil {
		t.Error("a certificate of former keys stays")
	}
	if err := os.WriteFile(c.nodeKubeconfig(2), []byte("torn: ["), 0o600); err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(identity(), []byte("torn: [")) {
		t.Error("a torn identity stays")
	}
}
