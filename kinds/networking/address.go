package networking

import (
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/kloop-dev/kloop/kinds/cell"
	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

// IPAddresses declares the kind. The name is the address in its canonical form.
var IPAddresses = &resource.Def[*networkingv1.IPAddress]{
	GVK: gvk("IPAddress"), Plural: "ipaddresses", Short: []string{"ip"}, Name: addressName,
	Validate: resource.Serving(validateAddress),
	Quirks:   resource.Quirks{GenerateNameLiteral: true, MetaNewFirst: true},
	Columns: []resource.Column[*networkingv1.IPAddress]{
		resource.Col("ParentRef", "string", func(a *networkingv1.IPAddress) any { return parentText(a.Spec.ParentRef) }),
		{Cell: resource.Age[*networkingv1.IPAddress]().Cell}, // the age is in the rows, but no column is announced for it
	},
}

func parentText(r *networkingv1.ParentReference) string {
	if r == nil {
		return cell.None
	}
	text := strings.ToLower(schema.GroupResource{Group: r.Group, Resource: r.Resource}.String())
	if r.Namespace != "" {
		text += "/" + r.Namespace
	}
	return text + "/" + r.Name
}

func addressName(name string, _ bool) (says []string) {
	for _, err := range validation.IsValidIP(field.NewPath("metadata", "name"), name) {
		says = append(says, err.Detail)
	}
	return says
}

func validateAddress(a, old *networkingv1.IPAddress) (errs field.ErrorList) {
	path := field.NewPath("spec", "parentRef")
	if old != nil {
		errs = rule.Frozen(a.Spec.ParentRef, old.Spec.ParentRef, path)
	}
	r := a.Spec.ParentRef
	if r == nil {
		return append(errs, field.Required(path, ""))
	}
	if r.Group != "" {
		errs = append(errs, rule.Format(r.Group, path.Child("group"), rule.Subdomain)...)
	}
	errs = append(errs, segment(r.Resource, path.Child("resource"))...)
	errs = append(errs, segment(r.Name, path.Child("name"))...)
	if r.Namespace != "" {
		errs = append(errs, segment(r.Namespace, path.Child("namespace"))...)
	}
	return errs
}

// ServiceCIDRs declares the kind.
var ServiceCIDRs = &resource.Def[*networkingv1.ServiceCIDR]{
	GVK: gvk("ServiceCIDR"), Plural: "servicecidrs", Status: true,
	Validate: resource.Serving(validateServiceCIDR),
	Quirks:   resource.Quirks{MetaUpdateOnly: true, StatusResets: []string{"metadata"}},
	Columns: []resource.Column[*networkingv1.ServiceCIDR]{
		resource.Col("CIDRs", "string", func(c *networkingv1.ServiceCIDR) any { return strings.Join(c.Spec.CIDRs, ",") }),
		resource.Age[*networkingv1.ServiceCIDR](),
	},
}

func validateServiceCIDR(c, old *networkingv1.ServiceCIDR) field.ErrorList {
	path, list := field.NewPath("spec", "cidrs"), c.Spec.CIDRs
	if old != nil {
		return cidrUpdate(list, old.Spec.CIDRs, path)
	}
	return cidrs(list, path)
}

func cidrs(list []string, path *field.Path) (errs field.ErrorList) {
	switch n := len(list); {
	case n == 0:
		return field.ErrorList{field.Required(path, "at least one CIDR required")}
	case n > 2:
		return field.ErrorList{field.Invalid(path, list, "may only hold up to 2 values")}
	}
	for i, s := range list {
		errs = append(errs, validation.IsValidCIDR(path.Index(i), s)...)
	}
	if len(list) == 2 && sameFamily(list[0], list[1]) {
		errs = append(errs, field.Invalid(path, list, "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"))
	}
	return errs
}

// sameFamily also tells the family of ranges that are not in the form that is asked for.
func sameFamily(a, b string) bool {
	family := netutils.IPFamilyOfCIDRString(a)
	return family != netutils.IPFamilyUnknown && family == netutils.IPFamilyOfCIDRString(b)
}

// cidrUpdate lets a single-stack range become dual-stack, nothing else.
func cidrUpdate(list, old []string, path *field.Path) (errs field.ErrorList) {
	grown := len(old) == 1 && len(list) == 2
	if !grown && len(list) != len(old) {
		return field.ErrorList{field.Invalid(path, list, "field is immutable")}
	}
	for i := range old {
		errs = append(errs, rule.Frozen(list[i], old[i], path.Index(i))...)
	}
	if grown {
		errs = append(errs, cidrs(list, path)...)
	}
	return errs
}
