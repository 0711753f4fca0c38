package cluster

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kloop-dev/kloop/internal/eventually"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// TestIdentity finds the server's Lease, and metrics that name the server once an issuer's keys were fetched.
func TestIdentity(t *testing.T) {
	var issuer *httptest.Server
	issuer = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/keys" {
			http.Error(w, "none", http.StatusServiceUnavailable)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"issuer": issuer.URL, "jwks_uri": issuer.URL + "/keys"})
	}))
	defer issuer.Close()
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: issuer.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	c := startFor(t, Config{DataDir: t.TempDir(), Authn: Authn{TokenFile: write(t, "s3cret,ann,1,\"system:masters\"\n"),
		OIDC: OIDC{IssuerURL: issuer.URL, ClientID: "c", CAFile: ca}}})
	id := self(c.cfg).ID()
	eventually.True(t, "the server has a Lease", func() bool {
		l := resource.Get(c.door.read(), kinds.Leases, "kube-system", id)
		return l != nil && l.Labels["apiserver.kubernetes.io/identity"] == "kube-apiserver"
	})
	b64 := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	ask(t, c, b64(`{"alg":"RS256","kid":"k"}`)+"."+b64(`{"iss":"`+issuer.URL+`","aud":"c","sub":"s"}`)+"."+b64("x"), "/version")
	_, body := ask(t, c, "s3cret", "/metrics")
	want := `apiserver_authentication_jwt_authenticator_jwks_fetch_last_timestamp_seconds{apiserver_id_hash="` + hashed(id) +
		`",jwt_issuer_hash="` + hashed(issuer.URL) + `",result="failure"}`
	if !strings.Contains(body, want) {
		t.Errorf("the metrics lack %s", want)
	}
	if !strings.Contains(body, `apiserver_storage_size_bytes{storage_cluster_id="etcd-0"} `) {
		t.Error("the metrics lack the size of the store")
	}
}
