package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/rule"
)

// What a resolver's configuration can hold.
const (
	maxNameservers = 3
	maxSearches    = 32
	maxSearchChars = 2048
)

func checkDNS(s *corev1.PodSpec, path *field.Path) (errs field.ErrorList) {
	add := func(list ...*field.Error) { errs = append(errs, list...) }
	d := s.DNSConfig
	if d == nil && s.DNSPolicy != corev1.DNSNone {
		return nil
	}
	servers, searches := path.Child("nameservers"), path.Child("searches")
	if s.DNSPolicy == corev1.DNSNone {
		switch {
		case d == nil:
			return field.ErrorList{field.Required(path, "must provide `dnsConfig` when `dnsPolicy` is None")}
		case len(d.Nameservers) == 0:
			return field.ErrorList{field.Required(servers, "must provide at least one DNS nameserver when `dnsPolicy` is None")}
		}
	}
	if len(d.Nameservers) > maxNameservers {
		add(field.Invalid(servers, d.Nameservers, "must not have more than 3 nameservers"))
	}
	for i, n := range d.Nameservers {
		add(utilvalidation.IsValidIPForLegacyField(servers.Index(i), n, true, nil)...)
	}
	if len(d.Searches) > maxSearches {
		add(field.Invalid(searches, d.Searches, "must not have more than 32 search paths"))
	}
	if len(strings.Join(d.Searches, " ")) > maxSearchChars {
		add(field.Invalid(searches, d.Searches, "must not have more than 2048 characters (including spaces) in the search list"))
	}
	for i, n := range d.Searches {
		if n != "." {
			add(rule.Format(strings.TrimSuffix(n, "."), searches.Index(i), utilvalidation.IsDNS1123SubdomainWithUnderscore)...)
		}
	}
	for i, o := range d.Options {
		if o.Name == "" {
			add(field.Required(path.Child("options").Index(i), "must not be empty"))
		}
	}
	return errs
}
