package certificates

import (
	"fmt"
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
		errs = append(errs, signer(s, signerPath)...)
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
	bundle := spec.Child("trustBundle")
	switch {
	case b.Spec.TrustBundle == "":
		return append(errs, field.Invalid(bundle, "<value omitted>", "at least one trust anchor must be provided"))
	case len(b.Spec.TrustBundle) > maxBundle:
		return append(errs, field.TooLong(bundle, "<value omitted>", maxBundle))
	}
	if err := anchors(b.Spec.TrustBundle); err != nil {
		errs = append(errs, field.Invalid(bundle, "<value omitted>", err.Error()))
	}
	return errs
}

// anchors checks that a bundle holds certificates of authorities, each once.
func anchors(bundle string) error {
	list, err := parseCertificates([]byte(bundle))
	for i, c := range list {
		if !c.IsCA {
			return fmt.Errorf("entry %d does not have the CA bit set", i)
		}
		for k, before := range list[:i] {
			if c.Equal(before) {
				return fmt.Errorf("duplicate trust anchor (indices [%d %d])", k, i)
			}
		}
	}
	return err
}
