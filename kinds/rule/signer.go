package rule

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// longestSigner is the length of the longest name of a signer: a domain, a slash, and NAMESPACE.NAME.
const longestSigner = utilvalidation.DNS1123SubdomainMaxLength + 1 +
	utilvalidation.DNS1123LabelMaxLength + 1 + utilvalidation.DNS1123SubdomainMaxLength

// SignerName checks a signer's name like example.com/path: a domain, and names separated by dots, of which the first bad one is reported.
func SignerName(name string, path *field.Path) (errs field.ErrorList) {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	domain, rest, ok := strings.Cut(name, "/")
	if !ok || strings.Contains(rest, "/") {
		return field.ErrorList{field.Invalid(path, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'")}
	}
	if len(domain) > utilvalidation.DNS1123SubdomainMaxLength {
		errs = append(errs, field.TooLong(path, "", utilvalidation.DNS1123SubdomainMaxLength))
	}
	errs = append(errs, firstBad(domain, path, utilvalidation.IsDNS1123Label)...)
	if !strings.Contains(domain, ".") {
		errs = append(errs, field.Invalid(path, domain, "should be a domain with at least two segments separated by dots"))
	}
	errs = append(errs, firstBad(rest, path, utilvalidation.IsDNS1123Subdomain)...)
	if len(name) > longestSigner {
		errs = append(errs, field.TooLong(path, "", longestSigner))
	}
	return errs
}

func firstBad(dotted string, path *field.Path, check func(string) []string) (errs field.ErrorList) {
	for label := range strings.SplitSeq(dotted, ".") {
		for _, says := range check(label) {
			errs = append(errs, field.Invalid(path, dotted, fmt.Sprintf("validating label %q: %s", label, says)))
		}
		if len(errs) > 0 {
			break
		}
	}
	return errs
}

// PodCertificateSeconds returns the shortest and the longest life in seconds that a pod may ask of a signer's certificate (KEP-4317).
// Signers of Kubernetes' own domain give shorter ones.
func PodCertificateSeconds(signer string) (shortest, longest int32) {
	domain, _, _ := strings.Cut(signer, "/")
	if domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io") {
		return 3600, 24 * 3600
	}
	return 3600, 91 * 24 * 3600
}

// SignerAnnotations checks what a pod tells a signer (KEP-4317): as annotations, but every key has a domain.
func SignerAnnotations(list map[string]string, path *field.Path) (errs field.ErrorList) {
	for key := range list {
		errs = append(errs, utilvalidation.IsDomainPrefixedKey(path, strings.ToLower(key))...)
	}
	if validation.ValidateAnnotationsSize(list) != nil {
		errs = append(errs, field.TooLong(path, "", validation.TotalAnnotationSizeLimitB))
	}
	return errs
}
