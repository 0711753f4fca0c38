package certificates

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"iter"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/cell"
	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

// maxBundle is the largest trust bundle, in bytes.
const maxBundle = 1 << 20

// ClusterTrustBundles declares the kind.
var ClusterTrustBundles = &resource.Def[*certificatesv1.ClusterTrustBundle]{
	GVK: gvk("ClusterTrustBundle"), Plural: "clustertrustbundles", Name: bundleName,
	Validate: resource.Serving(validateBundle),
	Quirks:   resource.Quirks{NeedsRevision: true},
	Columns: []resource.Column[*certificatesv1.ClusterTrustBundle]{
		resource.Col("SignerName", "string", func(b *certificatesv1.ClusterTrustBundle) any { return cell.Or(b.Spec.SignerName, cell.None) }),
	},
	Select: []resource.Field[*certificatesv1.ClusterTrustBundle]{
		{Label: "spec.signerName", Value: func(b *certificatesv1.ClusterTrustBundle) string { return b.Spec.SignerName }}},
}

// bundleName judges only the last part: the ones before, with colons, are those of the signer.
func bundleName(name string, prefix bool) []string {
	last := name[strings.LastIndexByte(name, ':')+1:]
	if prefix {
		last = strings.TrimSuffix(last, "-") + "x"
	}
	return rule.Subdomain(last)
}

// validateBundle ties the name of a signer's bundle to the signer (KEP-3257): users who may write objects below the prefix speak for it.
// Values are left out of errors, they are long.
func validateBundle(b, old *certificatesv1.ClusterTrustBundle) (errs field.ErrorList) {
	name, spec := field.NewPath("metadata", "name"), field.NewPath("spec")
	signerPath := spec.Child("signerName")
	if s := b.Spec.SignerName; s == "" {
		if strings.Contains(b.Name, ":") {
			errs = append(errs, field.Invalid(name, b.Name, "ClusterTrustBundle without signer name must not have \":\" in its name"))
		}
	} else {
		errs = append(errs, rule.SignerName(s, signerPath)...)
		if want := strings.ReplaceAll(s, "/", ":") + ":"; !strings.HasPrefix(b.Name, want) {
			errs = append(errs, field.Invalid(name, b.Name, "ClusterTrustBundle for signerName "+s+" must be named with prefix "+want))
		}
	}
	if old != nil {
		errs = append(errs, rule.Frozen(b.Spec.SignerName, old.Spec.SignerName, signerPath)...)
		if b.Spec.TrustBundle == old.Spec.TrustBundle {
			return errs
		}
	}
	return append(errs, anchors(b.Spec.TrustBundle, spec.Child("trustBundle"))...)
}

// anchors checks that a bundle holds certificates of authorities, each once. What stands between them is left alone.
func anchors(bundle string, path *field.Path) (errs field.ErrorList) {
	if len(bundle) > maxBundle {
		return field.ErrorList{field.TooLong(path, "<value omitted>", maxBundle)}
	}
	entries, first := map[string][]int{}, []string{}
	for i, b := range blocks([]byte(bundle)) {
		if says := badAnchor(b); says != "" {
			errs = append(errs, field.Invalid(path, "<value omitted>", fmt.Sprintf("entry %d %s", i, says)))
			continue
		}
		der := string(b.Bytes)
		if entries[der] == nil {
			first = append(first, der)
		}
		entries[der] = append(entries[der], i)
	}
	if len(errs) > 0 {
		return errs
	}
	if len(first) == 0 {
		return field.ErrorList{field.Invalid(path, "<value omitted>", "at least one trust anchor must be provided")}
	}
	for _, der := range first {
		if at := entries[der]; len(at) > 1 {
			errs = append(errs, field.Invalid(path, "<value omitted>", fmt.Sprintf("duplicate trust anchor (indices %v)", at)))
		}
	}
	return errs
}

// badAnchor says why a block is no certificate of an authority, or nothing.
func badAnchor(b *pem.Block) string {
	switch {
	case b.Type != certificateBlock:
		return "has bad block type: " + b.Type
	case len(b.Headers) != 0:
		return "has PEM block headers"
	}
	switch cert, err := x509.ParseCertificate(b.Bytes); {
	case err != nil:
		return "does not parse as X.509"
	case !cert.IsCA:
		return "does not have the CA bit set"
	case !cert.BasicConstraintsValid:
		return "has invalid basic constraints"
	}
	return ""
}

// blocks goes through the PEM blocks of a text.
func blocks(text []byte) iter.Seq2[int, *pem.Block] {
	return func(yield func(int, *pem.Block) bool) {
		for i := 0; ; i++ {
			var b *pem.Block
			if b, text = pem.Decode(text); b == nil || !yield(i, b) {
				return
			}
		}
	}
}
