package apiextensions

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/rule"
)

// approvedAnnotation says where the API of a protected group was approved.
const approvedAnnotation = "api-approved.kubernetes.io"

func validateDefinition(c, old crd) (errs field.ErrorList) {
	add := func(list field.ErrorList) { errs = append(errs, list...) }
	spec := field.NewPath("spec")
	add(rule.FixedName(c, c.Spec.Names.Plural+"."+c.Spec.Group, apivalidation.NameIsDNSSubdomain))
	add(approval(c, old))
	if c.Spec.PreserveUnknownFields && (old == nil || !old.Spec.PreserveUnknownFields) {
		add(field.ErrorList{field.Invalid(spec.Child("preserveUnknownFields"), true, "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead")})
	}
	if g := spec.Child("group"); c.Spec.Group == "" {
		add(field.ErrorList{field.Required(g, "")})
	} else if says := validation.IsDNS1123Subdomain(c.Spec.Group); len(says) > 0 {
		add(field.ErrorList{field.Invalid(g, c.Spec.Group, strings.Join(says, ","))})
	} else if !strings.Contains(c.Spec.Group, ".") {
		add(field.ErrorList{field.Invalid(g, c.Spec.Group, "should be a domain with at least one dot")})
	}
	add(rule.Chosen(c.Spec.Scope, spec.Child("scope"), v1.ClusterScoped, v1.NamespaceScoped))
	add(names(&c.Spec.Names, spec.Child("names"), true))
	add(versions(c, old, spec))
	add(conversion(c.Spec.Conversion, spec.Child("conversion")))
	add(storedVersions(c, field.NewPath("status", "storedVersions")))
	if old != nil {
		add(established(c, old, spec))
	}
	return errs
}

// established refuses changes that would make stored objects unreachable.
func established(c, old crd, spec *field.Path) (errs field.ErrorList) {
	if is(old, v1.Established) {
		errs = append(errs, rule.Frozen(c.Spec.Scope, old.Spec.Scope, spec.Child("scope"))...)
		errs = append(errs, rule.Frozen(c.Spec.Names.Kind, old.Spec.Names.Kind, spec.Child("names", "kind"))...)
	}
	errs = append(errs, rule.Frozen(c.Spec.Group, old.Spec.Group, spec.Child("group"))...)
	return append(errs, rule.Frozen(c.Spec.Names.Plural, old.Spec.Names.Plural, spec.Child("names", "plural"))...)
}

func is(c crd, t v1.CustomResourceDefinitionConditionType) bool {
	for _, cond := range c.Status.Conditions {
		if cond.Type == t {
			return cond.Status == v1.ConditionTrue
		}
	}
	return false
}

// approval asks for a sign of approval in the groups of the Kubernetes project.
func approval(c, old crd) field.ErrorList {
	g := c.Spec.Group
	if g != "k8s.io" && g != "kubernetes.io" && !strings.HasSuffix(g, ".k8s.io") && !strings.HasSuffix(g, ".kubernetes.io") {
		return nil
	}
	said, path := c.Annotations[approvedAnnotation], field.NewPath("metadata", "annotations").Key(approvedAnnotation)
	if old != nil && old.Annotations[approvedAnnotation] == said {
		return nil
	}
	if said == "" {
		return field.ErrorList{field.Required(path, "protected groups must have approval annotation, see https://github.com/kubernetes/enhancements/pull/1111")}
	}
	if u, err := url.ParseRequestURI(said); !strings.HasPrefix(said, "unapproved") && (err != nil || u.Host == "" || u.Scheme == "") {
		return field.ErrorList{field.Invalid(path, said, "must be a URL or start with unapproved")}
	}
	return nil
}

func names(n *v1.CustomResourceDefinitionNames, path *field.Path, all bool) (errs field.ErrorList) {
	for _, f := range []struct{ name, value string }{{"plural", n.Plural}, {"singular", n.Singular}, {"kind", n.Kind}, {"listKind", n.ListKind}} {
		if f.value == "" {
			if all {
				errs = append(errs, field.Required(path.Child(f.name), ""))
			}
			continue
		}
		if says := validation.IsDNS1035Label(strings.ToLower(f.value)); len(says) > 0 {
			errs = append(errs, field.Invalid(path.Child(f.name), f.value, "may have mixed case, but should otherwise match: "+strings.Join(says, ",")))
		} else if strings.HasPrefix(f.name, "plural") || f.name == "singular" {
			errs = append(errs, rule.Format(f.value, path.Child(f.name), validation.IsDNS1035Label)...)
		}
	}
	for _, l := range []struct {
		name   string
		values []string
	}{{"shortNames", n.ShortNames}, {"categories", n.Categories}} {
		for i, v := range l.values {
			if says := validation.IsDNS1035Label(v); len(says) > 0 {
				errs = append(errs, field.Invalid(path.Child(l.name).Index(i), v, strings.Join(says, ",")))
			}
		}
	}
	if n.Kind != "" && n.Kind == n.ListKind {
		errs = append(errs, field.Invalid(path.Child("listKind"), n.ListKind, "kind and listKind may not be the same"))
	}
	return errs
}

// storedVersions checks that what may be stored can still be read.
func storedVersions(c crd, path *field.Path) (errs field.ErrorList) {
	stored := c.Status.StoredVersions
	if len(stored) == 0 {
		return field.ErrorList{field.Invalid(path, stored, "must have at least one stored version")}
	}
	storing := ""
	for _, v := range c.Spec.Versions {
		if v.Storage {
			storing = v.Name
		}
	}
	for i, s := range stored {
		if !slices.ContainsFunc(c.Spec.Versions, func(v v1.CustomResourceDefinitionVersion) bool { return v.Name == s }) {
			errs = append(errs, field.Invalid(path.Index(i), s, "missing from spec.versions; v1 was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in it and removes it from status.storedVersions"))
		}
	}
	flags := slices.DeleteFunc(slices.Clone(c.Spec.Versions), func(v v1.CustomResourceDefinitionVersion) bool { return !v.Storage })
	if len(flags) != 1 || !slices.Contains(stored, storing) {
		errs = append(errs, field.Invalid(path, stored, fmt.Sprintf("must have the storage version %s", storing)))
	}
	return errs
}

func conversion(c *v1.CustomResourceConversion, path *field.Path) (errs field.ErrorList) {
	if c == nil {
		return nil
	}
	errs = append(errs, rule.Chosen(c.Strategy, path.Child("strategy"), v1.NoneConverter, v1.WebhookConverter)...)
	client, reviews := path.Child("webhookClientConfig"), path.Child("conversionReviewVersions")
	if c.Strategy != v1.WebhookConverter {
		if c.Webhook != nil && c.Webhook.ClientConfig != nil {
			errs = append(errs, field.Forbidden(client, "should not be set when strategy is not set to Webhook"))
		}
		if c.Webhook != nil && len(c.Webhook.ConversionReviewVersions) > 0 {
			errs = append(errs, field.Forbidden(reviews, "should not be set when strategy is not set to Webhook"))
		}
		return errs
	}
	if c.Webhook == nil || c.Webhook.ClientConfig == nil {
		errs = append(errs, field.Required(client, "required when strategy is set to Webhook"))
	} else {
		errs = append(errs, webhook(c.Webhook.ClientConfig, client)...)
	}
	if c.Webhook == nil || len(c.Webhook.ConversionReviewVersions) == 0 {
		return append(errs, field.Required(reviews, "must specify one of v1, v1beta1"))
	}
	list := c.Webhook.ConversionReviewVersions
	for i, v := range list {
		if slices.Contains(list[:i], v) {
			errs = append(errs, field.Invalid(reviews.Index(i), v, "duplicate version"))
		}
		errs = append(errs, rule.Format(v, reviews.Index(i), validation.IsDNS1035Label)...)
	}
	if !slices.Contains(list, "v1") && !slices.Contains(list, "v1beta1") {
		errs = append(errs, field.Invalid(reviews, list, "must include at least one of v1, v1beta1"))
	}
	return errs
}

func webhook(c *v1.WebhookClientConfig, path *field.Path) field.ErrorList {
	switch {
	case (c.URL == nil) == (c.Service == nil):
		return field.ErrorList{field.Required(path, "exactly one of url or service is required")}
	case c.URL != nil:
		return rule.WebhookURL(*c.URL, path.Child("url"))
	}
	return rule.WebhookService(c.Service.Namespace, c.Service.Name, c.Service.Path, c.Service.Port, path.Child("service"))
}

func validateDefinitionStatus(c, _ crd) field.ErrorList {
	errs := names(&c.Status.AcceptedNames, field.NewPath("status", "acceptedNames"), false)
	return append(errs, storedVersions(c, field.NewPath("status", "storedVersions"))...)
}
