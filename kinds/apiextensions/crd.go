// Package apiextensions declares the kind by which users declare kinds.
package apiextensions

import (
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

type crd = *apiextensionsv1.CustomResourceDefinition

// CustomResourceDefinitions declares the kind.
var CustomResourceDefinitions = checked(&resource.Def[crd]{
	GVK: apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), Plural: "customresourcedefinitions",
	Quirks: resource.Quirks{MetaUpdateOnly: true, NeedsRevision: true, KeepsEmpty: true, UnqualifiedFinalizers: true, ErrorsRepeat: true,
		StatusWithoutTable: true},
	Short: []string{"crd", "crds"}, Categories: []string{"api-extensions"}, Generation: true, Status: true,
	Storage: "apiextensions.k8s.io/customresourcedefinitions",
	Default: defaultDefinition, Prepare: resource.Serving(prepareDefinition),
	PrepareStatus: resource.Serving(prepareStatus), Seal: seal,
})

// defaultDefinition derives the names that are left out from the kind, as status.acceptedNames will have them.
func defaultDefinition(c crd) {
	names := &c.Spec.Names
	rule.FillZero(&names.Singular, strings.ToLower(names.Kind))
	if names.Kind != "" {
		rule.FillZero(&names.ListKind, names.Kind+"List")
	}
	rule.Fill(&c.Spec.Conversion, apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter})
	if w := c.Spec.Conversion.Webhook; w != nil && w.ClientConfig == nil && w.ConversionReviewVersions == nil {
		c.Spec.Conversion.Webhook = nil // one that says nothing is none
	}
	if w := c.Spec.Conversion.Webhook; w != nil && w.ClientConfig != nil && w.ClientConfig.Service != nil {
		rule.Fill(&w.ClientConfig.Service.Port, 443)
	}
}

// prepareStatus fills in for a status that says of no version that objects are stored in it.
func prepareStatus(c, old crd) {
	if len(c.Status.StoredVersions) == 0 {
		prepareDefinition(c, old)
	}
}

// prepareDefinition notes in which version objects may be stored from now on: the first that says so.
func prepareDefinition(c, _ crd) {
	at := slices.IndexFunc(c.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Storage })
	if at >= 0 && !slices.Contains(c.Status.StoredVersions, c.Spec.Versions[at].Name) {
		c.Status.StoredVersions = append(slices.Clone(c.Status.StoredVersions), c.Spec.Versions[at].Name)
	}
}
