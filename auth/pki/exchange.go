package pki

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Keys are exchanged in two steps, while the cluster runs.
//
// Rotate makes new ones. They sign from then on; those of before are believed beside them. What the new authority signs is shown
// together with a certificate of that authority which the old one has signed: so who knows the old one alone, a node that has not
// heard yet or another server, believes it too, and in which order they hear does not matter. Finish has the old authority believed
// no more; the certificate by which it vouched for its successor goes on being shown, for those who still trust it.

// crossFile is the end of the names of files with certificates by which earlier authorities vouch for the present one.
const crossFile = "-cross.crt"

// maxEarlier bounds how many earlier authorities vouch, and how many earlier keys of tokens are kept.
const maxEarlier = 2

// authorityFiles are the names of the authorities' files.
var authorityFiles = []string{"ca", "front-proxy-ca"}

// Exchanging says that two authorities are believed.
func (p *PKI) Exchanging() bool { return len(p.CA.Trusted()) > 1 }

// Changed is closed when keys are exchanged, or everything is to be issued anew.
func (p *PKI) Changed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

// Renew has everything that the authorities issue on demand issued anew.
func (p *PKI) Renew() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range []*Authority{p.CA, p.FrontProxy} {
		again := *a.now.Load()
		a.now.Store(&again)
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

// Rotate makes new authorities and a new key for tokens; those of before are believed until Finish. An exchange that is under way is an
// error.
func (p *PKI) Rotate() error {
	if p.Exchanging() {
		return errors.New("two authorities are believed already: finish that exchange first")
	}
	now := p.now()
	files := map[string][]byte{}
	for i, a := range []*Authority{p.CA, p.FrontProxy} {
		if err := succeed(files, authorityFiles[i], a.now.Load(), now); err != nil {
			return err
		}
	}
	key, err := newKey()
	if err != nil {
		return err
	}
	if files["sa.key"], err = keyPEM(key); err != nil {
		return err
	}
	before, also := p.ServiceAccount()
	files["sa.pub"], err = publicList(append([]crypto.PublicKey{key.Public(), before.Public()}, also...)...)
	if err != nil {
		return err
	}
	return p.Adopt(files)
}

// succeed makes the files of an authority's successor.
func succeed(files map[string][]byte, name string, old *signing, now time.Time) error {
	key, err := newKey()
	if err != nil {
		return err
	}
	next, err := newAuthority(old.cert.Subject.CommonName, key, now)
	if err != nil {
		return err
	}
	n, err := serial()
	if err != nil {
		return err
	}
	t := &x509.Certificate{SerialNumber: n, Subject: next.cert.Subject, SubjectKeyId: next.cert.SubjectKeyId, NotBefore: next.cert.NotBefore,
		NotAfter: old.cert.NotAfter, IsCA: true, BasicConstraintsValid: true, KeyUsage: next.cert.KeyUsage}
	der, err := x509.CreateCertificate(rand.Reader, t, old.cert, key.Public(), old.key)
	if err != nil {
		return fmt.Errorf("have the authority %q vouch for its successor: %w", old.cert.Subject.CommonName, err)
	}
	cross := certPEM(der)
	for _, c := range old.cross[:min(len(old.cross), maxEarlier-1)] {
		cross = append(cross, certPEM(c)...)
	}
	files[name+".crt"], files[name+crossFile] = append(slices.Clip(next.pem), certPEM(old.cert.Raw)...), cross
	files[name+".key"], err = keyPEM(key)
	return err
}

// publicList is the text of the keys, each once, the first ones if there are too many.
func publicList(keys ...crypto.PublicKey) (text []byte, err error) {
	n := 0
	for _, k := range keys {
		one, err := publicPEM(k)
		if err != nil {
			return nil, err
		}
		if n <= maxEarlier && !bytes.Contains(text, one) {
			text = append(text, one...)
			n++
		}
	}
	return text, nil
}

// Finish has earlier authorities believed no more, and with tokens the tokens of earlier keys neither.
func (p *PKI) Finish(tokens bool) error {
	files, err := p.Finished(tokens)
	if err != nil {
		return err
	}
	return p.Adopt(files)
}

// Finished are the files that there are after Finish.
func (p *PKI) Finished(tokens bool) (map[string][]byte, error) {
	files, err := p.Files()
	if err != nil {
		return nil, err
	}
	for i, a := range []*Authority{p.CA, p.FrontProxy} {
		files[authorityFiles[i]+".crt"] = certPEM(a.Cert().Raw)
	}
	if key, _ := p.ServiceAccount(); tokens {
		files["sa.pub"], err = publicPEM(key.Public())
	}
	return files, err
}

// Files are the keys as files by their names, for servers that share them.
func (p *PKI) Files() (map[string][]byte, error) {
	files := map[string][]byte{}
	for i, a := range []*Authority{p.CA, p.FrontProxy} {
		s, name := a.now.Load(), authorityFiles[i]
		key, err := keyPEM(s.key)
		if err != nil {
			return nil, err
		}
		files[name+".crt"], files[name+".key"] = s.pem, key
		for _, c := range s.cross {
			files[name+crossFile] = append(files[name+crossFile], certPEM(c)...)
		}
	}
	key, also := p.ServiceAccount()
	var err error
	if files["sa.key"], err = keyPEM(key); err == nil {
		files["sa.pub"], err = publicList(append([]crypto.PublicKey{key.Public()}, also...)...)
	}
	return files, err
}

// FormerFile is beside the keys and has the KeyHash of each authority that once was the cluster's, in hex, a line each: a token that
// names one of them is of this cluster, though it opens nothing any more.
const FormerFile = "ca.former"

// KeyHash names an authority by its public key, as kubeadm does.
func KeyHash(ca *x509.Certificate) []byte {
	sum := sha256.Sum256(ca.RawSubjectPublicKeyInfo)
	return sum[:]
}

// Adopt takes the keys that another server of the cluster has, by what Files returned there. One of the authorities must be known: it is
// the same cluster then. Files are written before anything is used, certificates before their keys, so that a crash leaves keys that
// work: the ones of before with both believed.
func (p *PKI) Adopt(files map[string][]byte) error {
	d := &dir{given: maps.Clone(files)}
	k, err := d.load(p.now())
	switch {
	case err != nil:
		return fmt.Errorf("take the keys of another server: %w", err)
	case len(d.fresh) > 0:
		return fmt.Errorf("take the keys of another server: %s is missing", d.fresh[0].name)
	case !related(p.CA.now.Load(), k.ca) || !related(p.FrontProxy.now.Load(), k.front):
		return errors.New("take the keys of another server: they are another cluster's")
	}
	out := &dir{path: p.dir}
	for _, end := range []string{crossFile, ".crt", ".key"} {
		for _, name := range authorityFiles {
			if data := files[name+end]; len(data) > 0 {
				out.fresh = append(out.fresh, file{name + end, data})
			}
		}
	}
	out.fresh = append(out.fresh, file{"sa.pub", files["sa.pub"]}, file{"sa.key", files["sa.key"]})
	if old := p.CA.now.Load().cert; !old.Equal(k.ca.cert) {
		former, err := out.read(FormerFile)
		if err != nil {
			return err
		}
		out.fresh = append(out.fresh, file{FormerFile, fmt.Appendf(former, "%x\n", KeyHash(old))})
	}
	if err := out.flush(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.CA.now.Store(k.ca)
	p.FrontProxy.now.Store(k.front)
	p.signing, p.also = k.sa, k.also
	close(p.changed)
	p.changed = make(chan struct{})
	return nil
}

// related says that one of the two believes the one that signs in the other, or vouched for it.
func related(old, next *signing) bool {
	in := func(c *x509.Certificate, list []*x509.Certificate) bool { return slices.ContainsFunc(list, c.Equal) }
	return in(old.cert, next.trusted) || in(next.cert, old.trusted) || slices.ContainsFunc(next.cross, func(der []byte) bool {
		c, err := x509.ParseCertificate(der)
		return err == nil && c.CheckSignatureFrom(old.cert) == nil
	})
}
