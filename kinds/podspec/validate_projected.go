package podspec

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/rule"
)

var keyTypes = []string{"RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"}

// A projection collects the files that the sources of one volume put beside each other.
type projection struct {
	path  *field.Path // of the volume: clients know it for what upstream does not blame on one source
	files sets.Set[string]
	errs  field.ErrorList
}

func (p *projection) add(list ...*field.Error) { p.errs = append(p.errs, list...) }

// place notes a file that no other source may bring.
func (p *projection) place(file, name string) {
	if p.files.Has(file) {
		p.add(field.Invalid(p.path, name, "conflicting duplicate paths"))
	}
	p.files.Insert(file)
}

func checkProjected(sources []corev1.VolumeProjection, path *field.Path) field.ErrorList {
	p := &projection{path: path, files: sets.New[string]()}
	list := path.Child("sources")
	for i := range sources {
		at := list.Index(i)
		if n := p.source(&sources[i], at); n > 1 {
			p.add(field.Forbidden(at, "may not specify more than 1 volume type per source"))
		}
	}
	return p.errs
}

// source checks what a source names, and returns how much that is. One that names nothing is only warned of.
func (p *projection) source(s *corev1.VolumeProjection, at *field.Path) (n int) {
	if s.Secret != nil {
		n++
		p.keys(s.Secret.Name, s.Secret.Items, at.Child("secret"))
	}
	if s.ConfigMap != nil {
		n++
		p.keys(s.ConfigMap.Name, s.ConfigMap.Items, at.Child("configMap"))
	}
	if s.DownwardAPI != nil {
		n++
		p.add(checkFiles(s.DownwardAPI.Items, at.Child("downwardAPI"))...)
		for _, it := range s.DownwardAPI.Items {
			if it.Path != "" {
				p.place(it.Path, it.Path)
			}
		}
	}
	if s.ServiceAccountToken != nil {
		n++
		p.token(s.ServiceAccountToken, at.Child("serviceAccountToken"))
	}
	if s.ClusterTrustBundle != nil {
		n++
		p.bundle(s.ClusterTrustBundle, at.Child("clusterTrustBundle"))
	}
	if s.PodCertificate != nil {
		n++
		p.certificate(s.PodCertificate, at.Child("podCertificate"))
	}
	return n
}

func (p *projection) keys(name string, items []corev1.KeyToPath, path *field.Path) {
	p.add(rule.Needed(name, path.Child("name"))...)
	p.add(checkItems(items, path.Child("items"))...)
	for _, it := range items {
		if it.Path != "" {
			p.place(it.Path, name)
		}
	}
}

func (p *projection) token(t *corev1.ServiceAccountTokenProjection, path *field.Path) {
	switch e := t.ExpirationSeconds; {
	case e == nil:
	case *e < 600:
		p.add(field.Invalid(path.Child("expirationSeconds"), *e, "may not specify a duration less than 10 minutes"))
	case *e > 1<<32:
		p.add(field.Invalid(path.Child("expirationSeconds"), *e, "may not specify a duration larger than 2^32 seconds"))
	}
	if t.Path == "" {
		p.add(field.Required(p.path.Child("path"), ""))
		return
	}
	p.add(checkVisiblePath(t.Path, p.path, "path")...)
}

func (p *projection) bundle(b *corev1.ClusterTrustBundleProjection, path *field.Path) {
	switch {
	case b.Name != nil && b.SignerName != nil:
		p.add(field.Invalid(path, rule.Internal(b), "only one of name and signerName may be used"))
	case b.Name == nil && b.SignerName == nil:
		p.add(field.Required(path, "either name or signerName must be specified"))
	case b.Name != nil:
		if *b.Name == "" {
			p.add(field.Required(path.Child("name"), "must be a valid object name"))
		}
		own := (*b.Name)[strings.LastIndexByte(*b.Name, ':')+1:] // before it stands the signer's name, if it has one
		for _, says := range rule.Subdomain(own) {
			p.add(field.Invalid(path.Child("name"), *b.Name, "not a valid clustertrustbundlename: "+says))
		}
		if b.LabelSelector != nil {
			p.add(field.Invalid(path.Child("labelSelector"), b.LabelSelector, "labelSelector must be unset if name is specified"))
		}
	default:
		if *b.SignerName == "" {
			p.add(field.Required(path.Child("signerName"), "must be a valid signer name"))
		}
		p.add(rule.SignerName(*b.SignerName, path.Child("signerName"))...)
		if b.LabelSelector != nil {
			p.add(rule.Selector(b.LabelSelector, path.Child("labelSelector"))...)
		}
	}
	p.add(rule.Needed(b.Path, path.Child("path"))...)
	p.add(checkVisiblePath(b.Path, path, "path")...)
	p.place(b.Path, b.Path) // also of several without one
}

func (p *projection) certificate(c *corev1.PodCertificateProjection, path *field.Path) {
	p.add(rule.SignerName(c.SignerName, path.Child("signerName"))...)
	p.add(rule.SignerAnnotations(c.UserAnnotations, path.Child("userAnnotations"))...)
	p.add(rule.Listed(c.KeyType, path.Child("keyType"), keyTypes...)...)
	if life := c.MaxExpirationSeconds; life != nil {
		at := path.Child("maxExpirationSeconds")
		switch shortest, longest := rule.PodCertificateSeconds(c.SignerName); {
		case *life < shortest:
			p.add(field.Invalid(at, *life, fmt.Sprintf("if provided, maxExpirationSeconds must be >= %d", shortest)))
		case *life > longest:
			p.add(field.Invalid(at, *life, fmt.Sprintf("if provided, maxExpirationSeconds must be <= %d", longest)))
		}
	}
	if c.CredentialBundlePath == "" && c.KeyPath == "" && c.CertificateChainPath == "" {
		p.add(field.Required(path, "specify at least one of credentialBundlePath, keyPath, and certificateChainPath"))
	}
	for _, f := range []struct{ name, file string }{{"credentialBundlePath", c.CredentialBundlePath},
		{"keyPath", c.KeyPath}, {"certificateChainPath", c.CertificateChainPath}} {
		if f.file != "" {
			p.add(checkVisiblePath(f.file, path, f.name)...)
			p.place(f.file, f.file)
		}
	}
}
