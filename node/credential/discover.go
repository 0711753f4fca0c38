package credential

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kloop-dev/kloop/auth/pki"
	"github.com/kloop-dev/kloop/auth/token"
)

// infoPath names what a joining machine may read before it is authenticated.
const infoPath = "/api/v1/namespaces/kube-public/configmaps/cluster-info"

// A Discovery finds out whom to trust, with a bootstrap token.
type Discovery struct {
	Server string   // https://host:port
	Token  string   // id.secret
	Hashes []string // sha256:… of the public keys of the authorities that may vouch for the server
}

// Authority returns the authority of the server, PEM: what cluster-info says, signed with the token, and of one of the hashes.
// Everybody who holds a token could sign, hence the hash.
func (d Discovery) Authority(ctx context.Context) ([]byte, error) {
	id, secret, ok := strings.Cut(d.Token, ".")
	if !ok {
		return nil, errors.New("a bootstrap token has the form id.secret; kloop token --node prints one on a server's machine")
	}
	// The first look is over a connection that nobody vouches for: what it tells is not believed before it is checked.
	info, err := read(ctx, d.Server, &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true})
	if err != nil {
		return nil, err
	}
	text := info.Data["kubeconfig"]
	switch signature, ok := info.Data["jws-kubeconfig-"+id]; {
	case !ok:
		return nil,
			fmt.Errorf(
				"the server at %s does not know the bootstrap token %s: it expired, may not sign (usage-bootstrap-signing), "+
					"or the loop bootstrap-signer does not run", d.Server, id)
	case !token.SignedBy(signature, text, id, secret):
		return nil, fmt.Errorf("the server at %s does not know the secret of the bootstrap token %s", d.Server, id)
	}
	ca, err := authorityIn(text)
	if err != nil {
		return nil, fmt.Errorf("read cluster-info: %w", err)
	}
	certs, err := pki.ParseCerts(ca)
	if err != nil {
		return nil, fmt.Errorf("read the authority in cluster-info: %w", err)
	}
	pool := x509.NewCertPool()
	vouched := false
	for _, c := range certs { // two while they are exchanged
		if slices.Contains(d.Hashes, KeyHash(c)) {
			pool.AddCert(c)
			vouched = true
		}
	}
	if !vouched {
		return nil, fmt.Errorf("the server at %s is of an authority with the key %s, which is not the one that was given", d.Server,
			KeyHash(certs[0]))
	}
	// The second look shows that the server has a certificate of that authority, which then vouches for all that it tells.
	again, err := read(ctx, d.Server, &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool})
	if err == nil && again.Data["kubeconfig"] != text {
		err = errors.New("cluster-info changed between two looks")
	}
	return ca, err
}

// KeyHash is the hash of a certificate's public key, as kubeadm writes it.
func KeyHash(c *x509.Certificate) string {
	return "sha256:" + hex.EncodeToString(pki.KeyHash(c))
}

func authorityIn(kubeconfig string) ([]byte, error) {
	cfg, err := clientcmd.Load([]byte(kubeconfig))
	if err != nil {
		return nil, err
	}
	for _, c := range cfg.Clusters {
		if len(c.CertificateAuthorityData) > 0 {
			return c.CertificateAuthorityData, nil
		}
	}
	return nil, errors.New("it names no authority")
}

func read(ctx context.Context, server string, how *tls.Config) (*corev1.ConfigMap, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(server, "/")+infoPath, nil)
	if err != nil {
		return nil, fmt.Errorf("read cluster-info: %w", err)
	}
	t := &http.Transport{TLSClientConfig: how, DisableKeepAlives: true, Proxy: http.ProxyFromEnvironment}
	res, err := t.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("read cluster-info: %w", err)
	}
	defer res.Body.Close()
	switch res.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
		return nil, fmt.Errorf("the server at %s shows no cluster-info: make a token there with kloop token --node", server)
	default:
		return nil, fmt.Errorf("read cluster-info: %s", res.Status)
	}
	m := &corev1.ConfigMap{}
	if err := json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(m); err != nil {
		return nil, fmt.Errorf("read cluster-info: %w", err)
	}
	return m, nil
}
