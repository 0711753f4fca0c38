package resource_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/resource"
)

func TestMetaBefore37(t *testing.T) {
	within := field.NewPath("spec", "embedded", "metadata")
	for _, c := range []struct {
		name string
		e    *field.Error
		want string
	}{
		{"kind of an owner", field.Required(field.NewPath("metadata", "ownerReferences").Index(1).Child("kind"), "must not be empty"),
			`metadata.ownerReferences.kind: Invalid value: "": must not be empty`},
		{"version of an owner", field.Required(within.Child("ownerReferences").Index(0).Child("apiVersion"), "must not be empty"),
			`spec.embedded.metadata.ownerReferences.apiVersion: Invalid value: "": version must not be empty`},
		{"no operation", field.Required(within.Child("managedFields").Index(0).Child("operation"), "must not be empty"),
			"spec.embedded.metadata.managedFields[0].operation: Invalid value: \"\": must be `Apply` or `Update`"},
		{"unknown operation", field.NotSupported(within.Child("managedFields").Index(0).Child("operation"), "x", []string{"Apply"}),
			"spec.embedded.metadata.managedFields[0].operation: Invalid value: \"x\": must be `Apply` or `Update`"},
		{"another field", field.Required(within.Child("name"), "x"), "spec.embedded.metadata.name: Required value: x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if resource.MetaBefore37(c.e); c.e.Error() != c.want {
				t.Errorf("%s, want %s", c.e.Error(), c.want)
			}
		})
	}
}
