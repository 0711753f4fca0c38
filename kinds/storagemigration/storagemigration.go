// Package storagemigration declares the kind that asks for stored objects to be written anew.
package storagemigration

import (
	"strings"

	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

// StorageVersionMigrations declares the kind.
var StorageVersionMigrations = &resource.Def[*storagemigrationv1.StorageVersionMigration]{
	GVK: storagemigrationv1.SchemeGroupVersion.WithKind("StorageVersionMigration"), Plural: "storageversionmigrations", Status: true,
	Quirks:   resource.Quirks{NeedsRevision: true, StatusResets: []string{"metadata"}},
	Validate: resource.Serving(validateMigration), ValidateStatus: resource.Serving(validateMigrationStatus),
	Columns: []resource.Column[*storagemigrationv1.StorageVersionMigration]{
		resource.Col("Name", "string", func(m *storagemigrationv1.StorageVersionMigration) any { return m.Name }),
		resource.Col("Resource", "string", func(m *storagemigrationv1.StorageVersionMigration) any {
			return (&metav1.GroupResource{Group: m.Spec.Resource.Group, Resource: m.Spec.Resource.Resource}).String()
		}),
		resource.Col("Status", "string", func(m *storagemigrationv1.StorageVersionMigration) any { return state(m) }),
	},
}

// state names the last of the conditions that say how far a migration is.
func state(m *storagemigrationv1.StorageVersionMigration) string {
	told := "Unknown"
	for _, c := range m.Status.Conditions {
		switch t := storagemigrationv1.MigrationConditionType(c.Type); t {
		case storagemigrationv1.MigrationRunning, storagemigrationv1.MigrationFailed, storagemigrationv1.MigrationSucceeded:
			if c.Status == metav1.ConditionTrue {
				told = c.Type
			}
		}
	}
	return told
}

func validateMigration(m, old *storagemigrationv1.StorageVersionMigration) (errs field.ErrorList) {
	path, r := field.NewPath("spec", "resource"), m.Spec.Resource
	if old != nil {
		errs = append(errs, rule.Frozen(m.Spec, old.Spec, field.NewPath("spec"))...)
	}
	if r.Group != "" {
		errs = append(errs, rule.Format(r.Group, path.Child("group"), rule.Subdomain)...)
	}
	return append(errs, rule.NeededFormat(r.Resource, path.Child("resource"), validation.IsDNS1035Label)...)
}

// wellFormed is true of a revision as servers write it: a number without leading zeros.
func wellFormed(revision string) bool {
	return strings.Trim(revision, "0123456789") == "" && revision[0] != '0'
}

func validateMigrationStatus(m, old *storagemigrationv1.StorageVersionMigration) field.ErrorList {
	path := field.NewPath("status")
	errs := metavalidation.ValidateConditions(m.Status.Conditions, path.Child("conditions"))
	if v := m.Status.ResourceVersion; v != "" && !wellFormed(v) {
		errs = append(errs, field.Invalid(path.Child("resourceVersion"), v, "resource version is not well formed: "+v))
	}
	if was := old.Status.ResourceVersion; was != "" && was != m.Status.ResourceVersion {
		errs = append(errs, field.Invalid(path.Child("resourceVersion"), m.Status.ResourceVersion, "field is immutable"))
	}
	finished := map[string]bool{}
	for i, c := range m.Status.Conditions {
		if c.Status == "True" && (c.Type == "Succeeded" || c.Type == "Failed") {
			finished[c.Type] = true
			if len(finished) > 1 {
				errs = append(errs, field.Invalid(path.Child("conditions").Index(i), c.Type, "Succeeded and Failed are mutually exclusive"))
			}
		}
	}
	return errs
}
