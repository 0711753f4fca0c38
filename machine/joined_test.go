package machine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kloop-dev/kloop/auth/pki"
	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kit/whole"
	"github.com/kloop-dev/kloop/node/credential"
	"github.com/kloop-dev/kloop/resource"
)

// TestNodeJoins has a machine that knows a token and a hash join, restart, and get the certificate of its API.
func TestNodeJoins(t *testing.T) {
	ctx, quiet := t.Context(), slog.New(slog.DiscardHandler)
	c, cfg := started(t, cluster.Config{})
	admin, err := client.NewRemote(cfg, kinds.NewSet(), "test")
	if err != nil {
		t.Fatal(err)
	}
	token, err := cluster.NodeToken(ctx, admin, c.URL(), cfg.CAData, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	join := credential.Discovery{Server: c.URL(), Token: token, Hashes: []string{hashOf(t, cfg)}}
	for what, bad := range map[string]credential.Discovery{
		"which is not the one that was given": {Server: join.Server, Token: token, Hashes: []string{"sha256:00"}},
		"does not know the secret":            {Server: join.Server, Token: token[:7] + strings.Repeat("x", 16), Hashes: join.Hashes},
		"does not know the bootstrap token":   {Server: join.Server, Token: "nobody." + strings.Repeat("x", 16), Hashes: join.Hashes},
	} {
		n := Joined{Config: Config{Name: "n1", Log: quiet}, Join: bad, Keys: t.TempDir()}
		if _, _, err := n.enrol(ctx); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%q, want %q", err, what)
		}
	}

	dir := t.TempDir()
	machine := Config{Name: "n1", Address: netip.MustParseAddr("10.0.0.1"), Log: quiet}
	n := Joined{Config: machine, Join: join, Keys: dir}
	own, _, err := n.enrol(ctx)
	if err != nil {
		t.Fatal(err)
	}
	first, err := own.Get()
	if err != nil || first.Leaf.Subject.CommonName != "system:node:n1" {
		t.Fatal(err, first)
	}

	again := Joined{Config: machine, Keys: dir} // no token any more
	own, remote, err := again.enrol(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if kept, err := own.Get(); err != nil || kept.Leaf.SerialNumber.Cmp(first.Leaf.SerialNumber) != 0 {
		t.Errorf("the node did not find its certificate again: %v", err)
	}
	if err := own.Renew(ctx); err != nil {
		t.Errorf("renew the certificate as the node itself: %v", err)
	}
	if next, err := own.Get(); err != nil || next.Leaf.SerialNumber.Cmp(first.Leaf.SerialNumber) == 0 {
		t.Errorf("the certificate is not a new one: %v", err)
	}

	serving, err := again.serving(remote)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- serving.Renew(ctx) }() // waits until the Node says that the address is its own
	if _, err := remote.Create(ctx, kinds.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := remote.Patch(ctx, kinds.Nodes, "", "n1", client.Patch{Type: types.MergePatchType, Sub: "status",
		Data: []byte(`{"status":{"addresses":[{"type":"InternalIP","address":"10.0.0.1"}]}}`)}); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	cert, err := serving.Get()
	if err != nil || !slices.Contains(cert.Leaf.DNSNames, "n1") || len(cert.Leaf.IPAddresses) != 1 {
		t.Error(err, cert)
	}
	for _, name := range []string{nodeKubeconfig, nodeClientFile, nodeServerFile} {
		if i, err := os.Stat(filepath.Join(dir, name)); err != nil || i.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// hashOf returns the hash of the cluster's authority, by which a machine that joins knows it.
// started is a cluster that ends with the test, and how its administrator reaches it.
func started(t *testing.T, conf cluster.Config) (*cluster.Cluster, *rest.Config) {
	t.Helper()
	conf.Kit, conf.Log = whole.Kit(), slog.New(slog.DiscardHandler)
	c, err := cluster.Start(context.WithoutCancel(t.Context()), conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	cfg, err := c.Rest()
	if err != nil {
		t.Fatal(err)
	}
	return c, cfg
}

func hashOf(t *testing.T, cfg *rest.Config) string {
	t.Helper()
	certs, err := pki.ParseCerts(cfg.CAData)
	if err != nil {
		t.Fatal(err)
	}
	return credential.KeyHash(certs[0])
}

// TestJoinBegunBefore: a join that was interrupted, so that there is no certificate yet, goes on with the next start.
func TestJoinBegunBefore(t *testing.T) {
	n := &Joined{Keys: t.TempDir()}
	n.Join.Server = "https://192.0.2.1:6443"
	path := filepath.Join(n.Keys, nodeKubeconfig)
	if err := n.keep(path, []byte("an authority")); err != nil {
		t.Fatal(err)
	}
	cfg, err := joined(path)
	if err != nil || cfg == nil || cfg.Host != n.Join.Server || string(cfg.CAData) != "an authority" {
		t.Errorf("%+v %v", cfg, err)
	}
}

// TestJoinTorn: what a join had begun to write when the machine lost power does not keep it from beginning anew, and is written whole.
func TestJoinTorn(t *testing.T) {
	n := &Joined{Keys: t.TempDir()}
	path := filepath.Join(n.Keys, nodeKubeconfig)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if cfg, err := joined(path); cfg != nil || err != nil {
		t.Errorf("%+v %v", cfg, err)
	}
	if err := n.keep(path, []byte("an authority")); err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(path); err != nil || os.SameFile(before, after) || after.Mode().Perm() != 0o600 {
		t.Errorf("it was written in place: %v %v", after, err)
	}
}

// A teller is a server that tells its ranges of cluster IPs, or why not.
type teller struct {
	client.Client
	cidrs []string
	err   error
	fails int // questions before the answer
	asked int
}

func (s *teller) Get(context.Context, resource.Kind, string, string) (resource.Object, error) {
	if s.asked++; s.asked <= s.fails {
		return nil, errors.New("connection refused")
	}
	return &networkingv1.ServiceCIDR{Spec: networkingv1.ServiceCIDRSpec{CIDRs: s.cidrs}}, s.err
}

// TestRanges: a node has the ranges of cluster IPs that the cluster tells. One that starts before its servers, as after a loss of power,
// has those that it was told before, and waits for them only if it knows none.
func TestRanges(t *testing.T) {
	gone := errors.New("connection refused")
	missing := apierrors.NewNotFound(kinds.ServiceCIDRs.Info().GR(), "kubernetes")
	for _, tt := range []struct {
		name, kept string
		server     teller
		want       string
		waits      bool
	}{
		{"told", "", teller{cidrs: []string{"10.43.0.0/16", "fd43::/108"}}, "[10.43.0.0/16 fd43::/108]", false},
		{"told otherwise than before", "10.1.0.0/16\n", teller{cidrs: []string{"10.43.0.0/16"}}, "[10.43.0.0/16]", false},
		{"told before", "10.43.0.0/16\nfd43::/108\n", teller{err: gone}, "[10.43.0.0/16 fd43::/108]", false},
		{"soon there", "", teller{cidrs: []string{"10.43.0.0/16"}, fails: 3}, "[10.43.0.0/16]", true},
		{"never there", "", teller{err: gone}, "[10.96.0.0/12]", true},
		{"a cluster without such objects", "", teller{err: missing}, "[10.96.0.0/12]", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &Joined{Keys: t.TempDir()}
				n.Services, n.Address = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")}, netip.MustParseAddr("192.0.2.1")
				path := filepath.Join(n.Keys, rangesFile)
				if err := os.WriteFile(path, []byte(tt.kept), 0o600); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				if err := n.settleAddresses(t.Context(), &tt.server); err != nil {
					t.Fatal(err)
				}
				if got := fmt.Sprint(n.Services); got != tt.want || time.Since(began) > 0 != tt.waits {
					t.Errorf("%s after %v, want %s", got, time.Since(began), tt.want)
				}
				text, err := os.ReadFile(path)
				if want := strings.Join(tt.server.cidrs, "\n"); err != nil || !strings.HasPrefix(string(text), want) {
					t.Errorf("kept %q, %v", text, err)
				}
			})
		})
	}
}

// TestSourcesWithoutAddress: a node that joins reads all that its loops need before it knows its address. Without the Leases it would
// never answer for a load balancer's address.
func TestSourcesWithoutAddress(t *testing.T) {
	before := Config{Name: "n1", Proxy: true}
	after := before
	after.Address = netip.MustParseAddr("192.0.2.1")
	if got, want := nodeSources(before), nodeSources(after); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, with an address %v", got, want)
	}
}

// TestHostPort: an address of the server is told from its URL, for the address by which this machine reaches it.
func TestHostPort(t *testing.T) {
	for server, want := range map[string]string{"https://192.168.5.1": "192.168.5.1:443", "https://h:6443": "h:6443", "h:6443": "h:6443",
		"192.168.5.1:6443": "", "": ""} {
		if got := hostPort(server); got != want {
			t.Errorf("%q: %q, want %q", server, got, want)
		}
	}
}
