package machine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/auth/pki"
	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/internal/atomicfile"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/node/credential"
)

// anchors are the cluster's authorities as a node knows them. The cluster may exchange them while the node runs: it asks now and then.
// They are safe for concurrent use.
type anchors struct {
	asking sync.Mutex // one writes the file at a time
	file   string     // where what the cluster told is kept, for the next start
	now    atomic.Pointer[anchor]
}

type anchor struct {
	pem   []byte
	first *x509.Certificate // signs
	pool  *x509.CertPool
}

// askAuthority is the pause between two questions for the authorities.
const askAuthority = time.Minute

// newAnchors trusts what the node was given, or what the cluster told in the place of just that. keys is the directory for it.
func newAnchors(given []byte, keys string) (*anchors, error) {
	sum := sha256.Sum256(given)
	a := &anchors{file: filepath.Join(keys, fmt.Sprintf("ca-after-%x.crt", sum[:8]))}
	told, err := os.ReadFile(a.file)
	if errors.Is(err, fs.ErrNotExist) {
		told, err = given, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the cluster's authorities: %w", err)
	}
	return a, a.use(told)
}

func (a *anchors) use(text []byte) error {
	certs, err := pki.ParseCerts(text)
	if err != nil {
		return fmt.Errorf("read the cluster's CA: %w", err)
	}
	a.now.Store(&anchor{pem: text, first: certs[0], pool: pki.Pool(certs...)})
	return nil
}

// pool is for those who verify.
func (a *anchors) pool() *x509.CertPool { return a.now.Load().pool }

// ask asks the cluster whom to trust, and says whether that changed.
func (a *anchors) ask(ctx context.Context, c client.Client) (bool, error) {
	a.asking.Lock()
	defer a.asking.Unlock()
	obj, err := c.Get(ctx, kinds.ConfigMaps, metav1.NamespaceSystem, cluster.AuthorityName)
	if err != nil {
		return false, err
	}
	m, ok := obj.(*corev1.ConfigMap)
	if !ok || m.Data[cluster.AuthorityKey] == "" || m.Data[cluster.AuthorityKey] == string(a.now.Load().pem) {
		return false, nil
	}
	text := []byte(m.Data[cluster.AuthorityKey])
	if _, err := pki.ParseCerts(text); err != nil {
		return false, fmt.Errorf("read the cluster's CA: %w", err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(a.file), 0o700), atomicfile.Write(a.file, text, 0o600)); err != nil {
		return false, fmt.Errorf("keep the cluster's CA: %w", err)
	}
	return true, a.use(text)
}

// follow asks until ctx ends. When the authorities change, connections are made anew, and certificates that another authority signed
// than the one that signs now are renewed.
func (a *anchors) follow(ctx context.Context, c client.Client, pause time.Duration, n *Joined, certs ...*credential.Credential) error {
	for {
		wait := time.NewTimer(pause/2 + rand.N(pause)) // not all nodes at once
		select {
		case <-ctx.Done():
			wait.Stop()
			return nil
		case <-wait.C:
		}
		changed, err := a.ask(ctx, c)
		if err != nil {
			if ctx.Err() == nil {
				n.log().Info("ask for the cluster's authorities", "err", err)
			}
			continue
		}
		if changed {
			n.log().Info("the cluster's authorities changed", "file", a.file)
			n.reconnect()
		}
		for _, own := range certs {
			a.renew(ctx, n, own)
		}
	}
}

// renew renews a certificate of another authority than the one that signs now.
func (a *anchors) renew(ctx context.Context, n *Joined, own *credential.Credential) {
	pair, err := own.Get()
	first := a.now.Load().first
	if err != nil || bytes.Equal(pair.Leaf.AuthorityKeyId, first.SubjectKeyId) || len(pair.Leaf.AuthorityKeyId) == 0 {
		return
	}
	if err := own.Renew(ctx); err != nil {
		n.log().Warn("renew a certificate of an authority of before", "err", err)
	}
}
