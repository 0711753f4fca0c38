package networking

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/kloop-dev/kloop/kinds/rule"
)

func decimal(n int) string { return strconv.Itoa(n) }

func ingressRule(r networkingv1.IngressRule, path *field.Path) (errs field.ErrorList) {
	if r.Host != "" {
		if netutils.ParseIPSloppy(r.Host) != nil {
			errs = append(errs, field.Invalid(path.Child("host"), r.Host, "must be a DNS name, not an IP address"))
		}
		errs = append(errs, hostName(r.Host, path.Child("host"))...)
	}
	if r.HTTP == nil {
		return errs
	}
	paths := path.Child("http", "paths")
	if len(r.HTTP.Paths) == 0 {
		errs = append(errs, field.Required(paths, ""))
	}
	for i, p := range r.HTTP.Paths {
		errs = append(errs, httpPath(p, paths.Index(i))...)
	}
	return errs
}

// hostName checks a host, which may start with a wildcard label.
func hostName(h string, path *field.Path) field.ErrorList {
	if strings.Contains(h, "*") {
		return rule.Format(h, path, utilvalidation.IsWildcardDNS1123Subdomain)
	}
	return rule.Format(h, path, rule.Subdomain)
}

// What a matched path must not contain or end with: it would never match a cleaned one.
var (
	badSequences = []string{"//", "/./", "/../", "%2f", "%2F"}
	badSuffixes  = []string{"/..", "/."}
)

func httpPath(p networkingv1.HTTPIngressPath, path *field.Path) (errs field.ErrorList) {
	at := path.Child("path")
	switch {
	case p.PathType == nil:
		return field.ErrorList{field.Required(path.Child("pathType"), "pathType must be specified")}
	case *p.PathType == networkingv1.PathTypeExact || *p.PathType == networkingv1.PathTypePrefix:
		errs = append(errs, cleanPath(p.Path, at)...)
	case *p.PathType == networkingv1.PathTypeImplementationSpecific:
		if p.Path != "" && !strings.HasPrefix(p.Path, "/") {
			errs = append(errs, field.Invalid(at, p.Path, "must be an absolute path"))
		}
	default:
		errs = append(errs, rule.Among(*p.PathType, path.Child("pathType"),
			networkingv1.PathTypeExact, networkingv1.PathTypePrefix, networkingv1.PathTypeImplementationSpecific)...)
	}
	return append(errs, backend(&p.Backend, path.Child("backend"))...)
}

func cleanPath(p string, at *field.Path) (errs field.ErrorList) {
	if !strings.HasPrefix(p, "/") {
		errs = append(errs, field.Invalid(at, p, "must be an absolute path"))
	}
	for _, bad := range badSequences {
		if strings.Contains(p, bad) {
			errs = append(errs, field.Invalid(at, p, "must not contain '"+bad+"'"))
		}
	}
	for _, bad := range badSuffixes {
		if strings.HasSuffix(p, bad) {
			errs = append(errs, field.Invalid(at, p, "cannot end with '"+bad+"'"))
		}
	}
	return errs
}

func backend(b *networkingv1.IngressBackend, path *field.Path) field.ErrorList {
	switch {
	case b.Resource != nil && b.Service != nil:
		return field.ErrorList{field.Invalid(path, "", "cannot set both resource and service backends")}
	case b.Resource != nil:
		return typedReference(b.Resource, path.Child("resource"))
	case b.Service != nil:
		return serviceBackend(b.Service, path)
	}
	return field.ErrorList{field.Invalid(path, "", "resource or service backend is required")}
}

func typedReference(r *corev1.TypedLocalObjectReference, path *field.Path) (errs field.ErrorList) {
	if r.APIGroup != nil {
		errs = append(errs, rule.Format(*r.APIGroup, path.Child("apiGroup"), rule.Subdomain)...)
	}
	errs = append(errs, segment(r.Kind, path.Child("kind"))...)
	return append(errs, segment(r.Name, path.Child("name"))...)
}

func serviceBackend(s *networkingv1.IngressServiceBackend, path *field.Path) field.ErrorList {
	name, port := path.Child("service", "name"), path.Child("service", "port")
	errs := rule.NeededFormat(s.Name, name, func(n string) []string { return validation.NameIsDNSLabel(n, false) })
	switch {
	case s.Port.Name != "" && s.Port.Number != 0:
		errs = append(errs, field.Invalid(path, "", "cannot set both port name & port number"))
	case s.Port.Name != "":
		errs = append(errs, rule.Format(s.Port.Name, port.Child("name"), utilvalidation.IsValidPortName)...)
	case s.Port.Number != 0:
		errs = append(errs, rule.Says(utilvalidation.IsValidPortNum(int(s.Port.Number)), s.Port.Number, port.Child("number"))...)
	default:
		errs = append(errs, field.Required(path, "port name or number is required"))
	}
	return errs
}

// address checks one address of a load balancer; IPs that were there before may stay as they are.
func address(ip, host string, before []string, path *field.Path) (errs field.ErrorList) {
	if ip != "" {
		errs = append(errs, utilvalidation.IsValidIPForLegacyField(path.Child("ip"), ip, true, before)...)
	}
	if host != "" {
		errs = append(errs, rule.Format(host, path.Child("hostname"), rule.Subdomain)...)
		if netutils.ParseIPSloppy(host) != nil {
			errs = append(errs, field.Invalid(path.Child("hostname"), host, "must be a DNS name, not an IP address"))
		}
	}
	return errs
}
