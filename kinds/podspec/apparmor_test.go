package podspec_test

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/podspec"
)

// An annotation that confines a container is warned of where no field of the container stands in for it, nor one of the pod that says the
// same.
func TestConfinementWarnings(t *testing.T) {
	const key = "container.apparmor.security.beta.kubernetes.io/c"
	const ofPod = `{securityContext: {appArmorProfile: {type: RuntimeDefault}}, containers: [{name: c}]}`
	const ofContainer = `containers: [{name: c, securityContext: {appArmorProfile: {type: RuntimeDefault}}}]`
	for _, c := range []struct {
		name, value, spec string
		warned            bool
	}{
		{"annotation alone", "runtime/default", `containers: [{name: c}]`, true},
		{"field beside it", "runtime/default", ofContainer, false},
		{"other field beside it", "unconfined", ofContainer, false},
		{"field of the pod", "runtime/default", ofPod, false},
		{"other field of the pod", "unconfined", ofPod, true},
		{"no such profile", "x", ofPod, true},
		{"no such container", "unconfined", `containers: [{name: d}]`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := pod(t, c.spec)
			var want, inTemplate []string
			if c.warned {
				says := `]: deprecated since v1.30; use the "appArmorProfile" field instead`
				want, inTemplate = []string{"metadata.annotations[" + key + says}, []string{"template.metadata.annotations[" + key + says}
			}
			meta := &metav1.ObjectMeta{Annotations: map[string]string{key: c.value}}
			if got := podspec.ConfinementWarnings(meta.Annotations, &p.Spec); !slices.Equal(got, want) {
				t.Errorf("got %q", got)
			}
			if got := podspec.Warnings(meta, &p.Spec, nil); len(got) > 0 { // the field is there by then
				t.Errorf("of a pod: %q", got)
			}
			if got := podspec.Warnings(meta, &p.Spec, field.NewPath("template")); !slices.Equal(got, inTemplate) {
				t.Errorf("of a template: %q", got)
			}
		})
	}
}
