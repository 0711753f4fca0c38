package apply

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// In a list an empty map is not one that is missing, but for what is stored as JSON.
func TestEmptyInLists(t *testing.T) {
	for _, x := range []struct {
		name string
		a, b any
		want bool
	}{
		{"in a list", []corev1.LimitRangeItem{{Max: corev1.ResourceList{}}}, []corev1.LimitRangeItem{{}}, false},
		{"in none", corev1.LimitRangeItem{Max: corev1.ResourceList{}}, corev1.LimitRangeItem{}, true},
		{"in a definition", []apiextensionsv1.CustomResourceDefinitionVersion{{SelectableFields: []apiextensionsv1.SelectableField{}}},
			[]apiextensionsv1.CustomResourceDefinitionVersion{{}}, true},
	} {
		t.Run(x.name, func(t *testing.T) {
			if got := equalOf(reflect.TypeOf(x.a))(reflect.ValueOf(x.a), reflect.ValueOf(x.b)); got != x.want {
				t.Errorf("equal %t", got)
			}
		})
	}
}
