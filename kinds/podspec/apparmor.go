package podspec

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

// apparmorOne begins the annotations that said, before there was a field, how a container is confined.
const apparmorOne = "container.apparmor.security.beta.kubernetes.io/"

// confinement reads the value of such an annotation; nil means that it says nothing known.
func confinement(v string) *corev1.AppArmorProfile {
	switch name, local := strings.CutPrefix(v, "localhost/"); {
	case v == "runtime/default":
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}
	case v == "unconfined":
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	case local && name != "":
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: &name}
	}
	return nil
}

// ConfinementWarnings warns of the annotations of a new pod, as it was sent, that say what a field should. One that is refused
// gets that warning, too.
func ConfinementWarnings(annotations map[string]string, s *corev1.PodSpec) (list []string) {
	if len(annotations) == 0 || s.OS != nil && s.OS.Name == corev1.Windows {
		return nil
	}
	everyContainer(s, func(c *corev1.Container) {
		if confinedByNote(annotations, c, s) {
			list = append(list, field.NewPath("metadata", "annotations").Key(apparmorOne+c.Name).String()+": "+apparmorText)
		}
	})
	return list
}

// confinedByNote says whether an annotation confines a container that has no field for it, otherwise than its pod is confined.
func confinedByNote(annotations map[string]string, c *corev1.Container, s *corev1.PodSpec) bool {
	v, ok := annotations[apparmorOne+c.Name]
	if !ok || c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil {
		return false
	}
	p := confinement(v)
	return p == nil || s.SecurityContext == nil || s.SecurityContext.AppArmorProfile == nil ||
		!resource.Same(s.SecurityContext.AppArmorProfile, p)
}

// ConfineByAnnotation sets the profile of containers that only an annotation gives one.
func ConfineByAnnotation(annotations map[string]string, s *corev1.PodSpec) {
	if len(annotations) == 0 || s.OS != nil && s.OS.Name == corev1.Windows {
		return
	}
	everyContainer(s, func(c *corev1.Container) {
		v, ok := annotations[apparmorOne+c.Name]
		p := confinement(v)
		if !ok || p == nil || profileOf(c, s) != nil && resource.Same(profileOf(c, s), p) {
			return
		}
		if c.SecurityContext == nil {
			c.SecurityContext = &corev1.SecurityContext{}
		}
		rule.Fill(&c.SecurityContext.AppArmorProfile, *p)
	})
}

// profileOf is the profile that confines a container: its own, else its pod's.
func profileOf(c *corev1.Container, s *corev1.PodSpec) *corev1.AppArmorProfile {
	switch {
	case c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil:
		return c.SecurityContext.AppArmorProfile
	case s.SecurityContext != nil:
		return s.SecurityContext.AppArmorProfile
	}
	return nil
}

// checkConfinement checks annotations: that there is such a container, and such a profile.
func checkConfinement(annotations map[string]string, s *corev1.PodSpec, path *field.Path) (errs field.ErrorList) {
	for key, v := range annotations {
		name, ok := strings.CutPrefix(key, apparmorOne)
		if !ok {
			continue
		}
		if ContainerNamed(s, name) == nil {
			errs = append(errs, field.Invalid(path.Key(key), name, "container not found"))
		}
		if v != "" && confinement(v) == nil && v != corev1.DeprecatedAppArmorBetaProfileNamePrefix {
			errs = append(errs, field.Invalid(path.Key(key), v, fmt.Sprintf("invalid AppArmor profile name: %q", v)))
		}
	}
	return errs
}

// confinementAgrees checks that an annotation says of a container what its field says, or its pod's.
func confinementAgrees(v string, p *corev1.AppArmorProfile, path *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	local, isLocal := strings.CutPrefix(v, corev1.DeprecatedAppArmorBetaProfileNamePrefix)
	agrees := true
	switch p.Type {
	case corev1.AppArmorProfileTypeUnconfined:
		agrees = v == corev1.DeprecatedAppArmorBetaProfileNameUnconfined
	case corev1.AppArmorProfileTypeRuntimeDefault:
		agrees = v == corev1.DeprecatedAppArmorBetaProfileRuntimeDefault
	case corev1.AppArmorProfileTypeLocalhost:
		if agrees = isLocal; isLocal && (p.LocalhostProfile == nil || *p.LocalhostProfile != local) {
			return field.ErrorList{field.Forbidden(path.Child("localhostProfile"), "apparmor profile in annotation and field must match")}
		}
	}
	if agrees {
		return nil
	}
	return field.ErrorList{field.Forbidden(path.Child("type"), "apparmor type in annotation and field must match")}
}
