package clusters

import (
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/auth/pki"
)

// identify makes the kubeconfig of a node, if it has none that can be read and was signed by the cluster's authority. So a node comes
// back whose cluster has exchanged its keys without it; what is left of its own certificates is taken away, and it asks for others.
func (c *Cluster) identify(n int) error {
	keys, err := pki.Open(pki.Config{Dir: filepath.Join(c.NodeDir(1), "pki")})
	if err != nil {
		return err
	}
	for _, file := range []string{"kubelet-client-current.pem", "kubelet-server-current.pem"} {
		path := filepath.Join(c.NodeDir(n), "pki", file)
		if text, err := os.ReadFile(path); err != nil || known(keys.CA, text) {
			continue // the agent says what is wrong with a file that can't be read
		}
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("take away a certificate of former keys: %w", err)
		}
	}
	path := c.nodeKubeconfig(n)
	if cfg, err := clientcmd.LoadFromFile(path); err == nil {
		for _, user := range cfg.AuthInfos {
			if known(keys.CA, user.ClientCertificateData) {
				return nil
			}
		}
	}
	name, address := c.NodeName(n), c.Address(n).String()
	cert, key, err := keys.CA.Issue(pki.Leaf{User: "system:node:" + name, Groups: []string{auth.GroupNodes}, Client: true, Server: true,
		Hosts: []string{name, "127.0.0.1", address}, Life: 10 * 365 * 24 * time.Hour}, time.Now())
	if err != nil {
		return fmt.Errorf("make the identity of node %s: %w", name, err)
	}
	if err := os.MkdirAll(c.NodeDir(n), 0o700); err != nil {
		return err
	}
	return replace(path, pki.Kubeconfig(c.Server(), keys.CA.PEM(), cert, key), 0o600)
}

// known says whether the authority, or the one before it during an exchange, has signed the first certificate of a text.
func known(ca *pki.Authority, text []byte) bool {
	certs, err := pki.ParseCerts(text)
	if err != nil || len(certs) == 0 {
		return false
	}
	_, err = certs[0].Verify(x509.VerifyOptions{Roots: ca.Pool(), Intermediates: pki.Pool(certs[1:]...),
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}, CurrentTime: certs[0].NotBefore.Add(time.Second)})
	return err == nil
}
