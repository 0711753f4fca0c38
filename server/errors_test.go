package server

import (
	"fmt"
	"reflect"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Refused says what the library does.
func TestRefused(t *testing.T) {
	at := field.NewPath("spec")
	one, other := field.Invalid(at.Child("a"), 5, "too odd"), field.Required(at.Child("b").Key("k"), "")
	for i, errs := range []field.ErrorList{nil, {one}, {one, one}, {one, other, one}, {other, field.TooMany(at, 3, 2), one}} {
		kind := schema.GroupKind{Group: "apps", Kind: "Deployment"}
		if got, want := Refused(kind, "n", errs), apierrors.NewInvalid(kind, "n", errs); !reflect.DeepEqual(got, want) &&
			fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", want) {
			t.Errorf("%d: %+v\nwant %+v", i, got, want)
		}
	}
}
