package volume

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/node/csi"
)

// A certificate holds the content of a podCertificate source, and the request for it or for its successor.
type certificate struct {
	key, chain []byte // PEM; none: nothing was issued yet
	renew, end time.Time
	asked      *request
	refused    error     // for the pod's life
	again      time.Time // not asked before, after a request that failed or was lost
	overdue    bool      // said
	expired    bool      // said
}

// A request waits for its signer.
type request struct {
	name string
	key  []byte
}

// The times of certificates: how much later than the signer says they may be renewed, so that not all pods ask at once; when that is
// overdue; the pauses after a request that failed or was lost, and between two looks at one that nobody answers.
const (
	renewJitter  = 5 * time.Minute
	renewOverdue = 10 * time.Minute
	askAgain     = 30 * time.Second
)

// certificate adds the key and the chain of a certificate of the pod's own, which a signer gives.
func (f *filling) certificate(ctx context.Context, at string, src *corev1.PodCertificateProjection, mode fs.FileMode) error {
	s := f.m.state(f.pod.UID)
	f.m.mu.Lock()
	c := s.certs[at]
	if c == nil {
		c = f.adopt(src)
		s.certs[at] = c
	}
	f.m.mu.Unlock()
	if err := f.step(ctx, c, src); err != nil {
		return err
	}
	f.soon(f.watch(c))
	mode, user := f.private(mode)
	for path, data := range parts(src, c) {
		f.files[path] = file{data: data, mode: mode, user: user}
	}
	return nil
}

// parts are the files of a source.
func parts(src *corev1.PodCertificateProjection, c *certificate) map[string][]byte {
	m := map[string][]byte{src.CredentialBundlePath: append(append([]byte(nil), c.key...), c.chain...), src.KeyPath: c.key,
		src.CertificateChainPath: c.chain}
	delete(m, "")
	return m
}

// step brings the certificate on by what is known now. No error: there is one to show.
func (f *filling) step(ctx context.Context, c *certificate, src *corev1.PodCertificateProjection) error {
	if c.asked != nil {
		if err := f.answered(ctx, c); err != nil {
			if c.chain == nil {
				return err
			}
			f.stale(err)
		}
	}
	if c.refused != nil {
		return c.refused
	}
	if now := time.Now(); c.asked == nil && now.After(c.again) && (c.chain == nil || !now.Before(c.renew)) {
		if err := f.ask(ctx, c, src); err != nil {
			c.again = now.Add(askAgain)
			if c.chain == nil {
				c.again = time.Time{} // the loop itself pauses
				return err
			}
			f.stale(err)
		}
	}
	if c.chain == nil {
		return f.waits(c, src)
	}
	return nil
}

// stale says that a certificate could not be renewed yet: the old one is shown.
func (f *filling) stale(err error) {
	f.m.log.Warn("renew a pod's certificate", "object", "pod/"+f.pod.Namespace+"/"+f.pod.Name, "again", askAgain, "err", err)
}

func (f *filling) waits(c *certificate, src *corev1.PodCertificateProjection) error {
	if c.asked == nil {
		return csi.Wait("the PodCertificateRequest is gone without an answer; another one will be made")
	}
	return csi.Wait(fmt.Sprintf("credential bundle is not issued yet: signer %s has not answered PodCertificateRequest %s",
		src.SignerName, c.asked.name))
}

// watch says of a certificate that should have been renewed that it was not, and when to look again.
func (f *filling) watch(c *certificate) time.Duration {
	now := time.Now()
	if now.After(c.renew.Add(renewOverdue)) && !c.overdue {
		c.overdue = true
		f.warn("CertificateOverdueForRefresh", "PodCertificate refresh overdue")
	}
	if now.After(c.end) && !c.expired {
		c.expired = true
		f.warn("CertificateExpired", "PodCertificate expired")
	}
	if left := c.renew.Sub(now); left > 0 {
		return left
	}
	return askAgain
}

func (f *filling) warn(reason, format string, args ...any) {
	f.m.cfg.Events.Event(kinds.Pods, f.pod, corev1.EventTypeWarning, reason, format, args...)
}

// answered looks at the request under way.
func (f *filling) answered(ctx context.Context, c *certificate) error {
	r, err := read(ctx, f.m, kinds.PodCertificateRequests, f.pod.Namespace, c.asked.name)
	optional := true
	switch {
	case absent(err, &optional):
		c.asked, c.again = nil, time.Now().Add(askAgain)
		return nil
	case err != nil:
		return err
	}
	for _, is := range r.Status.Conditions {
		switch is.Type {
		case certificatesv1.PodCertificateRequestConditionTypeDenied, certificatesv1.PodCertificateRequestConditionTypeFailed:
			f.refuse(c, r.Name, is)
			return nil
		case certificatesv1.PodCertificateRequestConditionTypeIssued:
			return f.issued(c, r)
		}
	}
	return nil
}

// refuse notes that the signer does not give the certificate. That holds for the pod's life.
func (f *filling) refuse(c *certificate, name string, is metav1.Condition) {
	word := map[bool]string{true: "denied", false: "failed"}[is.Type == certificatesv1.PodCertificateRequestConditionTypeDenied]
	c.asked, c.refused = nil, fmt.Errorf("PodCertificateRequest was permanently %s: reason=%q message=%q", word, is.Reason, is.Message)
	f.warn(is.Type, "PodCertificateRequest %s was %s, reason=%q, message=%q", name, word, is.Reason, is.Message)
}

func (f *filling) issued(c *certificate, r *certificatesv1.PodCertificateRequest) error {
	s := &r.Status
	chain, _ := certificates([]byte(s.CertificateChain))
	if chain == nil || s.BeginRefreshAt == nil || s.NotAfter == nil {
		return fmt.Errorf("PodCertificateRequest %s was issued without a certificate", r.Name)
	}
	*c = certificate{key: c.asked.key, chain: chain, end: s.NotAfter.Time, renew: s.BeginRefreshAt.Add(rand.N(renewJitter))}
	return nil
}

// ask makes a key and a request for its certificate.
func (f *filling) ask(ctx context.Context, c *certificate, src *corev1.PodCertificateProjection) error {
	p := f.pod
	account, err := read(ctx, f.m, kinds.ServiceAccounts, p.Namespace, p.Spec.ServiceAccountName)
	if err != nil {
		return err
	}
	node, err := read(ctx, f.m, kinds.Nodes, "", f.m.cfg.Node)
	if err != nil {
		return err
	}
	key, proof, err := newKey(src.KeyType)
	if err != nil {
		return err
	}
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID}
	out, err := f.m.cfg.Client.Create(ctx, kinds.PodCertificateRequests, &certificatesv1.PodCertificateRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "req-", Namespace: p.Namespace, OwnerReferences: []metav1.OwnerReference{owner}},
		Spec: certificatesv1.PodCertificateRequestSpec{SignerName: src.SignerName, PodName: p.Name, PodUID: p.UID,
			ServiceAccountName: account.Name, ServiceAccountUID: account.UID, NodeName: types.NodeName(node.Name), NodeUID: node.UID,
			MaxExpirationSeconds: src.MaxExpirationSeconds, StubPKCS10Request: proof, UnverifiedUserAnnotations: src.UserAnnotations}})
	if err != nil {
		return fmt.Errorf("ask signer %s for the pod's certificate: %w", src.SignerName, err)
	}
	c.asked = &request{name: out.GetName(), key: key}
	return nil
}
