package machine

import (
	"bytes"
	"crypto/x509"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/kinds"
)

// exchangeStep asks the server for a step of the exchange of keys.
func exchangeStep(t *testing.T, c *cluster.Cluster, what string) {
	t.Helper()
	cfg, err := c.Rest()
	if err != nil {
		t.Fatal(err)
	}
	door, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer door.CloseIdleConnections()
	res, err := door.Post(c.URL()+cluster.CertsPath+"/"+what, "", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", what, res.Status)
	}
}

// TestNodeFollowsKeys has a node hear of an exchange of keys while it runs, and afterwards start with the kubeconfig that it was given
// before.
func TestNodeFollowsKeys(t *testing.T) {
	ctx, quiet := t.Context(), slog.New(slog.DiscardHandler)
	c, _ := started(t, cluster.Config{})
	dir := t.TempDir()
	node := func() *Joined {
		return &Joined{Config: Config{Name: "n1", Log: quiet}, Rest: nodeRest(t, c, dir), Keys: filepath.Join(dir, "keys")}
	}
	n := node()
	own, remote, err := n.enrol(ctx)
	if err != nil {
		t.Fatal(err)
	}
	before, err := own.Get()
	if err != nil {
		t.Fatal(err)
	}
	if changed, err := n.trust.ask(ctx, remote); err != nil || !changed && !bytes.Equal(n.trust.now.Load().pem, n.Rest.CAData) {
		t.Fatal(changed, err)
	}
	exchangeStep(t, c, "rotate")
	if _, err := remote.Get(ctx, kinds.Nodes, "", "n1"); !apierrors.IsNotFound(err) {
		t.Errorf("with the authority of before alone: %v", err)
	}
	done := make(chan error, 1)
	told := make(chan struct{}, 8)
	own.OnChange(func() { told <- struct{}{} })
	go func() { done <- n.trust.follow(ctx, remote, time.Millisecond, n, own) }()
	select {
	case <-told:
	case err := <-done:
		t.Fatal(err)
	}
	exchangeStep(t, c, "finish?force")
	after, err := own.Get()
	if err != nil {
		t.Fatal(err)
	}
	now := x509.VerifyOptions{Roots: pool(t, c), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if _, err := before.Leaf.Verify(now); err == nil {
		t.Error("the certificate of before is good in the end")
	}
	if _, err := after.Leaf.Verify(now); err != nil {
		t.Errorf("the new one is not: %v", err)
	}
	for changed := true; changed; { // whom it trusts follows
		if changed, err = n.trust.ask(ctx, remote); err != nil {
			t.Fatal(err)
		}
	}
	again := node() // with the kubeconfig of before
	if _, remote, err = again.enrol(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := again.trust.ask(ctx, remote); err != nil {
		t.Errorf("after a restart the node is refused: %v", err)
	}
}

// nodeRest reaches the server by a kubeconfig that was made once.
func nodeRest(t *testing.T, c *cluster.Cluster, dir string) *rest.Config {
	t.Helper()
	path := filepath.Join(dir, "given")
	if _, err := os.Stat(path); err != nil {
		text, err := c.Kubeconfig("system:node:n1", auth.GroupNodes)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := joined(path)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// pool are the authorities of the cluster.
func pool(t *testing.T, c *cluster.Cluster) *x509.CertPool {
	t.Helper()
	cfg, err := c.Rest()
	if err != nil {
		t.Fatal(err)
	}
	p := x509.NewCertPool()
	p.AppendCertsFromPEM(cfg.CAData)
	return p
}
