package volume

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// newKey makes a private key, as PEM, and an empty signing request that proves who has it.
func newKey(kind string) (key, proof []byte, err error) {
	made, err := generate(kind)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key of type %s: %w", kind, err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(made)
	if err != nil {
		return nil, nil, err
	}
	if proof, err = x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, made); err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), proof, nil
}

func generate(kind string) (crypto.Signer, error) {
	switch kind {
	case "RSA3072":
		return rsa.GenerateKey(rand.Reader, 3072)
	case "RSA4096":
		return rsa.GenerateKey(rand.Reader, 4096)
	case "ECDSAP256":
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "ECDSAP384":
		return ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "ECDSAP521":
		return ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	case "ED25519":
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	}
	return nil, fmt.Errorf("unknown type")
}

// certificates are the certificates among some PEM blocks, without what surrounds them, and the first of them; nil: there are none.
func certificates(text []byte) (clean []byte, leaf *x509.Certificate) {
	var out bytes.Buffer
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, nil
		}
		if leaf == nil {
			leaf = c
		}
		out.Write(pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes}))
	}
	return out.Bytes(), leaf
}

// adopt finds the key and the chain that an agent before this one has written, where both are in the volume.
//
// Unlike Kubernetes, a restart of the agent asks for no certificate anew. When the signer wanted it renewed is not on the disk: that is
// done when two thirds of its time are over.
func (f *filling) adopt(src *corev1.PodCertificateProjection) *certificate {
	none := &certificate{}
	keys, chains := f.old(src.CredentialBundlePath, src.KeyPath), f.old(src.CredentialBundlePath, src.CertificateChainPath)
	block, _ := pem.Decode(keys)
	chain, leaf := certificates(chains)
	if block == nil || leaf == nil || !time.Now().Before(leaf.NotAfter) {
		return none
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return none
	}
	signer, ok := parsed.(crypto.Signer)
	if !ok {
		return none
	}
	if public, ok := leaf.PublicKey.(interface{ Equal(crypto.PublicKey) bool }); !ok || !public.Equal(signer.Public()) {
		return none
	}
	return &certificate{key: pem.EncodeToMemory(block), chain: chain, end: leaf.NotAfter,
		renew: leaf.NotBefore.Add(leaf.NotAfter.Sub(leaf.NotBefore) * 2 / 3)}
}

// old reads a file of the volume, the first of these that the source names.
func (f *filling) old(names ...string) []byte {
	for _, name := range names {
		if name != "" {
			data, _ := os.ReadFile(filepath.Join(f.path, dataLink, name)) // none: it is made anew
			return data
		}
	}
	return nil
}
