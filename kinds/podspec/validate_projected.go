package podspec

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/rule"
)

var keyTypes = []string{"RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"}

// A projection collects the files that the sources of one volume put beside each other.
type projection struct {
	files sets.Set[string]
	errs  field.ErrorList
}

func (p *projection) add(list ...*field.Error) { p.errs = append(p.errs, list...) }

// place notes a file that no other source may bring.
func (p *projection) place(file, name string, path *field.Path) {
	if file != "" && p.files.Has(file) {
		p.add(field.Invalid(path, name, "conflicting duplicate paths"))
	}
	p.files.Insert(file)
}

func checkProjected(sources []v1.VolumeProjection, path *field.Path) field.ErrorList {
	p := &projection{files: sets.New[string]()}
	for i := range sources {
		at, n := path.Index(i), 0
		s := &sources[i]
		p.one(&n, s.Secret != nil, at.Child("secret"), func(at *field.Path) { p.keys(s.Secret.Name, s.Secret.Items, at) })
		p.one(&n, s.ConfigMap != nil, at.Child("configMap"), func(at *field.Path) { p.keys(s.ConfigMap.Name, s.ConfigMap.Items, at) })
		p.one(&n, s.DownwardAPI != nil, at.Child("downwardAPI"), func(at *field.Path) {
			p.add(checkFiles(s.DownwardAPI.Items, at)...)
			for _, it := range s.DownwardAPI.Items {
				p.place(it.Path, it.Path, at)
			}
		})
		p.one(&n, s.ServiceAccountToken != nil, at.Child("serviceAccountToken"), func(at *field.Path) { p.token(s.ServiceAccountToken, at) })
		p.one(&n, s.ClusterTrustBundle != nil, at.Child("clusterTrustBundle"), func(at *field.Path) { p.bundle(s.ClusterTrustBundle, at) })
		p.one(&n, s.PodCertificate != nil, at.Child("podCertificate"), func(at *field.Path) { p.certificate(s.PodCertificate, at) })
		if n == 0 {
			p.add(field.Required(at, "must specify a projected volume source"))
		}
	}
	return p.errs
}

func (p *projection) one(n *int, set bool, path *field.Path, check func(*field.Path)) {
	switch {
	case !set:
	case *n > 0:
		p.add(field.Forbidden(path, "may not specify more than 1 volume type per source"))
	default:
		*n++
		check(path)
	}
}

func (p *projection) keys(name string, items []v1.KeyToPath, path *field.Path) {
	p.add(rule.Needed(name, path.Child("name"))...)
	p.add(checkItems(items, path.Child("items"))...)
	for _, it := range items {
		p.place(it.Path, name, path)
	}
}

func (p *projection) token(t *v1.ServiceAccountTokenProjection, path *field.Path) {
	if e := t.ExpirationSeconds; e != nil {
		p.add(rule.Within(*e, 600, 1<<32, path.Child("expirationSeconds"))...)
	}
	if t.Path == "" {
		p.add(field.Required(path.Child("path"), ""))
		return
	}
	p.add(checkVisiblePath(t.Path, path.Child("path"))...)
	p.place(t.Path, t.Path, path)
}

func (p *projection) bundle(b *v1.ClusterTrustBundleProjection, path *field.Path) {
	switch {
	case b.Name != nil && b.SignerName != nil:
		p.add(field.Invalid(path, b, "only one of name and signerName may be used"))
	case b.Name == nil && b.SignerName == nil:
		p.add(field.Required(path, "either name or signerName must be specified"))
	case b.Name != nil:
		if *b.Name == "" {
			p.add(field.Required(path.Child("name"), "must be a valid object name"))
		} else { // before the last colon stands the signer's name, if it has one
			own := (*b.Name)[strings.LastIndexByte(*b.Name, ':')+1:]
			p.add(rule.Format(own, path.Child("name"), rule.Subdomain)...)
		}
		if b.LabelSelector != nil {
			p.add(field.Invalid(path.Child("labelSelector"), b.LabelSelector, "labelSelector must be unset if name is specified"))
		}
	default:
		if *b.SignerName == "" {
			p.add(field.Required(path.Child("signerName"), "must be a valid signer name"))
		}
		if b.LabelSelector != nil {
			p.add(rule.Selector(b.LabelSelector, path.Child("labelSelector"))...)
		}
	}
	p.add(rule.Needed(b.Path, path.Child("path"))...)
	p.add(checkVisiblePath(b.Path, path.Child("path"))...)
	p.place(b.Path, b.Path, path)
}

func (p *projection) certificate(c *v1.PodCertificateProjection, path *field.Path) {
	p.add(rule.Needed(c.SignerName, path.Child("signerName"))...)
	if c.SignerName != "" {
		p.add(utilvalidation.IsDomainPrefixedPath(path.Child("signerName"), c.SignerName)...)
	}
	p.add(rule.Among(c.KeyType, path.Child("keyType"), keyTypes...)...)
	if c.MaxExpirationSeconds != nil {
		p.add(rule.Within(*c.MaxExpirationSeconds, 3600, 91*24*3600, path.Child("maxExpirationSeconds"))...)
	}
	if c.CredentialBundlePath == "" && c.KeyPath == "" && c.CertificateChainPath == "" {
		p.add(field.Required(path, "specify at least one of credentialBundlePath, keyPath, and certificateChainPath"))
	}
	for _, f := range []struct{ name, file string }{{"credentialBundlePath", c.CredentialBundlePath},
		{"keyPath", c.KeyPath}, {"certificateChainPath", c.CertificateChainPath}} {
		if f.file != "" {
			p.add(checkVisiblePath(f.file, path.Child(f.name))...)
			p.place(f.file, f.file, path.Child(f.name))
		}
	}
}
