//go:build !reader

package apiextensions

import (
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/resource"
)

// columns are those since 1.37; definitions had none of their own before.
func columns(on *features.Set) []resource.Column[crd] {
	if on.AtLeast(37) {
		return since37
	}
	return nil
}

var since37 = []resource.Column[crd]{
	resource.Name(func(c crd) any { return c.Name }),
	resource.Col("Scope", "string", func(c crd) any { return string(c.Spec.Scope) }),
	resource.Col("Versions", "string", served),
	resource.Col("Created At", "date", func(c crd) any { return c.CreationTimestamp.UTC().Format(time.RFC3339) }),
	resource.Wide("Group", "string", func(c crd) any { return c.Spec.Group }),
	resource.Wide("Kind", "string", func(c crd) any { return c.Spec.Names.Kind }),
	resource.Wide("ShortNames", "string", func(c crd) any { return strings.Join(c.Spec.Names.ShortNames, ",") }),
	resource.Wide("Established", "boolean", func(c crd) any {
		return slices.ContainsFunc(c.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
			return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
		})
	}),
}

// served names the versions that are served, and says which one is stored.
func served(c crd) any {
	var list []string
	for _, v := range c.Spec.Versions {
		switch {
		case v.Served && v.Storage:
			list = append(list, v.Name+"(storage)")
		case v.Served:
			list = append(list, v.Name)
		}
	}
	slices.Sort(list)
	return strings.Join(list, ",")
}
