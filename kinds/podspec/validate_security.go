package podspec

import (
	"reflect"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-helpers/node/util/sysctl"

	"github.com/kloop-dev/kloop/kinds/rule"
)

func checkUser(id *int64, path *field.Path) field.ErrorList {
	if id == nil {
		return nil
	}
	return rule.Says(utilvalidation.IsValidUserID(*id), *id, path)
}

func checkGroup(id *int64, path *field.Path) field.ErrorList {
	if id == nil {
		return nil
	}
	return rule.Says(utilvalidation.IsValidGroupID(*id), *id, path)
}

func isTrue(b *bool) bool { return b != nil && *b }

func isFalse(b *bool) bool { return b != nil && !*b }

// checkHostUsers refuses what a pod that has users of its own can't have.
func checkHostUsers(s *corev1.PodSpec, path *field.Path) (errs field.ErrorList) {
	if !isFalse(s.HostUsers) {
		return nil
	}
	for _, f := range []struct {
		name string
		set  bool
	}{{"hostNetwork", s.HostNetwork}, {"HostPID", s.HostPID}, {"HostIPC", s.HostIPC}} { // clients know two of them so
		if f.set {
			errs = append(errs, field.Forbidden(path.Child(f.name), "when `hostUsers` is false"))
		}
	}
	eachContainer(s, path, func(k *corev1.Container, at spot) {
		if len(k.VolumeDevices) > 0 {
			errs = append(errs, field.Forbidden(at.path().Child("volumeDevices"), "when `hostUsers` is false"))
		}
	})
	return errs
}

// checkSecurity checks the security context of the pod and what goes with it.
func (c *checker) checkSecurity(path *field.Path) (errs field.ErrorList) {
	s := c.spec
	add := func(list ...*field.Error) { errs = append(errs, list...) }
	at, since37 := path.Child("securityContext"), c.on.AtLeast(37)
	shared := func(wanted bool, at *field.Path) {
		if wanted && isTrue(s.ShareProcessNamespace) && s.HostPID {
			add(field.Invalid(at.Child("shareProcessNamespace"), true, "ShareProcessNamespace and HostPID cannot both be enabled"))
		}
	}
	p := s.SecurityContext
	if p == nil || reflect.ValueOf(p).Elem().IsZero() { // defaults leave it empty
		shared(since37, path)
		shared(!since37, at)
		return errs
	}
	add(checkGroup(p.FSGroup, at.Child("fsGroup"))...)
	add(checkUser(p.RunAsUser, at.Child("runAsUser"))...)
	add(checkGroup(p.RunAsGroup, at.Child("runAsGroup"))...)
	for i := range p.SupplementalGroups {
		add(checkGroup(&p.SupplementalGroups[i], at.Child("supplementalGroups").Index(i))...)
	}
	shared(!since37, at)
	add(c.checkSysctls(p.Sysctls, at.Child("sysctls"))...)
	add(rule.AmongPtr(p.FSGroupChangePolicy, at.Child("fsGroupChangePolicy"), corev1.FSGroupChangeOnRootMismatch,
		corev1.FSGroupChangeAlways)...)
	add(checkSeccomp(p.SeccompProfile, at.Child("seccompProfile"))...)
	add(checkWindows(p.WindowsOptions, at.Child("windowsOptions"))...)
	add(checkAppArmor(p.AppArmorProfile, at.Child("appArmorProfile"))...)
	add(rule.AmongPtr(p.SupplementalGroupsPolicy, at.Child("supplementalGroupsPolicy"),
		corev1.SupplementalGroupsPolicyMerge, corev1.SupplementalGroupsPolicyStrict)...)
	policies := []corev1.PodSELinuxChangePolicy{corev1.SELinuxChangePolicyMountOption, corev1.SELinuxChangePolicyRecursive}
	if c.recursive {
		policies = policies[1:]
	}
	add(rule.AmongPtr(p.SELinuxChangePolicy, at.Child("seLinuxChangePolicy"), policies...)...)
	shared(since37, path)
	return errs
}

// relabels says that a pod tells how its volumes get their labels. Up to 1.36 there is one way for those that did not tell before.
func relabels(s *corev1.PodSpec) bool {
	return s.SecurityContext != nil && s.SecurityContext.SELinuxChangePolicy != nil
}

func (c *checker) checkSecurityContext(s *corev1.SecurityContext, path *field.Path) (errs field.ErrorList) {
	if s == nil {
		return nil
	}
	add := func(list ...*field.Error) { errs = append(errs, list...) }
	add(checkUser(s.RunAsUser, path.Child("runAsUser"))...)
	add(checkGroup(s.RunAsGroup, path.Child("runAsGroup"))...)
	add(rule.AmongPtr(s.ProcMount, path.Child("procMount"), corev1.DefaultProcMount, corev1.UnmaskedProcMount)...)
	if s.ProcMount != nil && *s.ProcMount == corev1.UnmaskedProcMount && !isFalse(c.spec.HostUsers) {
		add(field.Invalid(path.Child("procMount"), *s.ProcMount, "`hostUsers` must be false to use `Unmasked`"))
	}
	add(checkSeccomp(s.SeccompProfile, path.Child("seccompProfile"))...)
	if isFalse(s.AllowPrivilegeEscalation) {
		if isTrue(s.Privileged) {
			add(field.Invalid(path, rule.Internal(s), "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"))
		}
		if s.Capabilities != nil {
			for _, k := range s.Capabilities.Add {
				if k == "CAP_SYS_ADMIN" {
					add(field.Invalid(path, rule.Internal(s),
						"cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"))
				}
			}
		}
	}
	add(checkWindows(s.WindowsOptions, path.Child("windowsOptions"))...)
	add(checkAppArmor(s.AppArmorProfile, path.Child("appArmorProfile"))...)
	return errs
}

// checkType checks the type of the profile that a field holds.
func checkType[T ~string](t T, path *field.Path, name string, allowed ...T) field.ErrorList {
	if t == "" {
		return field.ErrorList{field.Required(path.Child("type"), "type is required when "+name+" is set")}
	}
	return rule.Among(t, path.Child("type"), allowed...)
}

func checkSeccomp(p *corev1.SeccompProfile, path *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	errs := checkType(p.Type, path, "seccompProfile", corev1.SeccompProfileTypeLocalhost, corev1.SeccompProfileTypeRuntimeDefault,
		corev1.SeccompProfileTypeUnconfined)
	at := path.Child("localhostProfile")
	switch {
	case p.Type == corev1.SeccompProfileTypeLocalhost && p.LocalhostProfile == nil:
		errs = append(errs, field.Required(at, "must be set when seccomp type is Localhost"))
	case p.Type == corev1.SeccompProfileTypeLocalhost:
		errs = append(errs, checkInnerPath(*p.LocalhostProfile, at)...)
	case p.LocalhostProfile != nil:
		errs = append(errs, field.Invalid(at, rule.Internal(p), "can only be set when seccomp type is Localhost"))
	}
	return errs
}

func checkAppArmor(p *corev1.AppArmorProfile, path *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	errs := checkType(p.Type, path, "appArmorProfile", corev1.AppArmorProfileTypeLocalhost, corev1.AppArmorProfileTypeRuntimeDefault,
		corev1.AppArmorProfileTypeUnconfined)
	at := path.Child("localhostProfile")
	switch name := p.LocalhostProfile; {
	case len(errs) > 0:
	case p.Type != corev1.AppArmorProfileTypeLocalhost:
		if name != nil {
			errs = append(errs, field.Invalid(at, *name, "can only be set when AppArmor type is Localhost"))
		}
	case name == nil || *name == "":
		errs = append(errs, field.Required(at, "must be set when AppArmor type is Localhost"))
	case strings.TrimSpace(*name) != *name:
		errs = append(errs, field.Invalid(at, *name, "must not be padded with whitespace"))
	}
	if name := p.LocalhostProfile; p.Type == corev1.AppArmorProfileTypeLocalhost && name != nil && len(*name) > 4095 {
		errs = append(errs, field.TooLong(at, *name, 4095))
	}
	return errs
}

var sysctlName = regexp.MustCompile(`^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$`)

// IsSysctlName says whether a name can be that of a kernel parameter.
func IsSysctlName(name string) bool { return len(name) <= 253 && sysctlName.MatchString(name) }

func (c *checker) checkSysctls(list []corev1.Sysctl, path *field.Path) (errs field.ErrorList) {
	seen := sets.New[string]()
	for i, s := range list {
		at := path.Index(i).Child("name")
		switch {
		case s.Name == "":
			errs = append(errs, field.Required(at, ""))
		case !IsSysctlName(s.Name):
			errs = append(errs, field.Invalid(at, s.Name, "must have at most 253 characters and match regex "+sysctlName.String()))
		case seen.Has(s.Name):
			errs = append(errs, field.Duplicate(at, s.Name))
		}
		seen.Insert(s.Name)
		switch of, _, _ := sysctl.GetNamespace(s.Name); {
		case c.spec.HostNetwork && of == sysctl.NetNamespace:
			errs = append(errs, field.Invalid(at, s.Name, "may not be specified when 'hostNetwork' is true"))
		case c.spec.HostIPC && of == sysctl.IPCNamespace:
			errs = append(errs, field.Invalid(at, s.Name, "may not be specified when 'hostIPC' is true"))
		}
	}
	return errs
}
