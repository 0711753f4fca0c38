package podspec

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/rule"
)

// checkOS refuses what the named operating system does not have.
func (c *checker) checkOS(path *field.Path) field.ErrorList {
	if c.spec.OS == nil {
		return nil
	}
	switch c.spec.OS.Name {
	case corev1.Linux:
		return refuseWindows(c.spec, path)
	case corev1.Windows:
		return c.checkOnWindows(path)
	case "":
		return field.ErrorList{field.Required(path.Child("os", "name"), "")}
	}
	return field.ErrorList{field.NotSupported(path.Child("os"), c.spec.OS.Name, []corev1.OSName{corev1.Linux, corev1.Windows})}
}

// refuseWindows forbids options of Windows in the security contexts of the pod and of its containers.
func refuseWindows(s *corev1.PodSpec, path *field.Path) (errs field.ErrorList) {
	says := "windows options cannot be set for a linux pod"
	if p := s.SecurityContext; p != nil && p.WindowsOptions != nil {
		errs = append(errs, field.Forbidden(path.Child("securityContext", "windowsOptions"), says))
	}
	eachContainer(s, path, func(c *corev1.Container, at spot) {
		if c.SecurityContext != nil && c.SecurityContext.WindowsOptions != nil {
			errs = append(errs, field.Forbidden(at.path().Child("securityContext", "windowsOptions"), says))
		}
	})
	return errs
}

// everyContainer visits the containers of a pod, of all three sorts.
func everyContainer(s *corev1.PodSpec, do func(*corev1.Container)) {
	for i := range s.InitContainers {
		do(&s.InitContainers[i])
	}
	for i := range s.Containers {
		do(&s.Containers[i])
	}
	for i := range s.EphemeralContainers {
		do((*corev1.Container)(&s.EphemeralContainers[i].EphemeralContainerCommon))
	}
}

// A spot says which container of a pod one is. Its path is made when there is something to say of it.
type spot struct {
	spec *field.Path
	list string
	i    int
}

func (s spot) path() *field.Path { return s.spec.Child(s.list).Index(s.i) }

// eachContainer is everyContainer with the spots.
func eachContainer(s *corev1.PodSpec, path *field.Path, f func(*corev1.Container, spot)) {
	for i := range s.InitContainers {
		f(&s.InitContainers[i], spot{path, "initContainers", i})
	}
	for i := range s.Containers {
		f(&s.Containers[i], spot{path, "containers", i})
	}
	for i := range s.EphemeralContainers {
		f((*corev1.Container)(&s.EphemeralContainers[i].EphemeralContainerCommon), spot{path, "ephemeralContainers", i})
	}
}

// podNotOnWindows lists the fields of a pod's security context that mean nothing to Windows.
var podNotOnWindows = []struct {
	name string
	set  func(*corev1.PodSecurityContext) bool
}{
	{"appArmorProfile", func(p *corev1.PodSecurityContext) bool { return p.AppArmorProfile != nil }},
	{"seLinuxOptions", func(p *corev1.PodSecurityContext) bool { return p.SELinuxOptions != nil }},
	{"seccompProfile", func(p *corev1.PodSecurityContext) bool { return p.SeccompProfile != nil }},
	{"fsGroup", func(p *corev1.PodSecurityContext) bool { return p.FSGroup != nil }},
	{"fsGroupChangePolicy", func(p *corev1.PodSecurityContext) bool { return p.FSGroupChangePolicy != nil }},
	{"sysctls", func(p *corev1.PodSecurityContext) bool { return len(p.Sysctls) > 0 }},
	{"runAsUser", func(p *corev1.PodSecurityContext) bool { return p.RunAsUser != nil }},
	{"runAsGroup", func(p *corev1.PodSecurityContext) bool { return p.RunAsGroup != nil }},
	{"supplementalGroups", func(p *corev1.PodSecurityContext) bool { return p.SupplementalGroups != nil }},
	{"supplementalGroupsPolicy", func(p *corev1.PodSecurityContext) bool { return p.SupplementalGroupsPolicy != nil }},
	{"seLinuxChangePolicy", func(p *corev1.PodSecurityContext) bool { return p.SELinuxChangePolicy != nil }},
}

// notOnWindows lists those of containers.
var notOnWindows = []struct {
	name string
	set  func(*corev1.SecurityContext) bool
}{
	{"appArmorProfile", func(c *corev1.SecurityContext) bool { return c.AppArmorProfile != nil }},
	{"seLinuxOptions", func(c *corev1.SecurityContext) bool { return c.SELinuxOptions != nil }},
	{"seccompProfile", func(c *corev1.SecurityContext) bool { return c.SeccompProfile != nil }},
	{"capabilities", func(c *corev1.SecurityContext) bool { return c.Capabilities != nil }},
	{"readOnlyRootFilesystem", func(c *corev1.SecurityContext) bool { return c.ReadOnlyRootFilesystem != nil }},
	{"privileged", func(c *corev1.SecurityContext) bool { return c.Privileged != nil }},
	{"allowPrivilegeEscalation", func(c *corev1.SecurityContext) bool { return c.AllowPrivilegeEscalation != nil }},
	{"procMount", func(c *corev1.SecurityContext) bool { return c.ProcMount != nil }},
	{"runAsUser", func(c *corev1.SecurityContext) bool { return c.RunAsUser != nil }},
	{"runAsGroup", func(c *corev1.SecurityContext) bool { return c.RunAsGroup != nil }},
}

// checkOnWindows refuses what Windows does not have. Errors of what the pod shares with its host come behind those of the security context
// since 1.37, before among them.
func (c *checker) checkOnWindows(path *field.Path) (errs field.ErrorList) {
	s, says := c.spec, "cannot be set for a windows pod"
	shared := []struct {
		name, after string
		set         bool
	}{{"hostUsers", "seLinuxOptions", s.HostUsers != nil}, {"hostPID", "seLinuxOptions", s.HostPID}, {"hostIPC", "seLinuxOptions", s.HostIPC},
		{"shareProcessNamespace", "sysctls", s.ShareProcessNamespace != nil}}
	for i, f := range podNotOnWindows {
		if s.SecurityContext != nil && f.set(s.SecurityContext) {
			errs = append(errs, field.Forbidden(path.Child("securityContext", f.name), says))
		}
		for _, h := range shared {
			if h.set && (f.name == h.after && !c.on.AtLeast(37) || i == len(podNotOnWindows)-1 && c.on.AtLeast(37)) {
				errs = append(errs, field.Forbidden(path.Child(h.name), says))
			}
		}
	}
	eachContainer(s, path, func(k *corev1.Container, at spot) {
		for _, f := range notOnWindows {
			if k.SecurityContext != nil && f.set(k.SecurityContext) {
				errs = append(errs, field.Forbidden(at.path().Child("securityContext", f.name), says))
			}
		}
	})
	return errs
}

// checkHostProcess: if one container is a process of the Windows host, all are, on the host's network.
func checkHostProcess(s *corev1.PodSpec, path *field.Path) (errs field.ErrorList) {
	said := s.SecurityContext != nil && s.SecurityContext.WindowsOptions != nil && s.SecurityContext.WindowsOptions.HostProcess != nil
	pod := said && *s.SecurityContext.WindowsOptions.HostProcess
	with, without := false, false
	eachContainer(s, path, func(c *corev1.Container, at spot) {
		host := pod
		if c.SecurityContext != nil && c.SecurityContext.WindowsOptions != nil && c.SecurityContext.WindowsOptions.HostProcess != nil {
			host = *c.SecurityContext.WindowsOptions.HostProcess
			if said && host != pod {
				errs = append(errs, field.Invalid(at.path().Child("securityContext", "windowsOptions", "hostProcess"), host,
					fmt.Sprintf("pod hostProcess value must be identical if both are specified, was %v", pod)))
			}
		}
		with, without = with || host, without || !host
	})
	if !with {
		return errs
	}
	if without {
		errs = append(errs, field.Invalid(path, "",
			"If pod contains any hostProcess containers then all containers must be HostProcess containers"))
	}
	if !s.HostNetwork {
		errs = append(errs, field.Invalid(path.Child("hostNetwork"), s.HostNetwork,
			"hostNetwork must be true if pod contains any hostProcess containers"))
	}
	return errs
}

func checkWindows(w *corev1.WindowsSecurityContextOptions, path *field.Path) (errs field.ErrorList) {
	if w == nil {
		return nil
	}
	if n := w.GMSACredentialSpecName; n != nil {
		errs = append(errs, rule.Format(*n, path.Child("gmsaCredentialSpecName"), rule.Subdomain)...)
	}
	if g, at := w.GMSACredentialSpec, path.Child("gmsaCredentialSpec"); g != nil {
		switch {
		case *g == "":
			errs = append(errs, field.Invalid(at, *g, "gmsaCredentialSpec cannot be an empty string"))
		case len(*g) > 64<<10:
			errs = append(errs, field.Invalid(at, "", "gmsaCredentialSpec size must be under 64 KiB"))
		}
	}
	if u := w.RunAsUserName; u != nil {
		errs = append(errs, checkWindowsUser(*u, path.Child("runAsUserName"))...)
	}
	return errs
}

// What the domain of a Windows user may be.
var (
	netBIOS       = regexp.MustCompile(`^[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}$`)
	windowsDomain = sync.OnceValue(func() *regexp.Regexp { // large when it is compiled, and seldom asked
		return regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(\.[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$`)
	})
)

func checkWindowsUser(u string, path *field.Path) field.ErrorList {
	parts := strings.Split(u, `\`)
	switch {
	case u == "":
		return field.ErrorList{field.Invalid(path, u, "runAsUserName cannot be an empty string")}
	case strings.ContainsFunc(u, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return field.ErrorList{field.Invalid(path, u, "runAsUserName cannot contain control characters")}
	case len(parts) > 2:
		return field.ErrorList{field.Invalid(path, u, "runAsUserName cannot contain more than one backslash")}
	}
	domain, name := "", parts[len(parts)-1]
	if len(parts) == 2 {
		domain = parts[0]
	}
	says := make([]string, 0, 1)
	for _, c := range []struct {
		bad  bool
		says string
	}{{len(domain) >= 256, "runAsUserName's Domain length must be under 256 characters"},
		{len(parts) == 2 && !netBIOS.MatchString(domain) && !windowsDomain().MatchString(domain),
			"runAsUserName's Domain doesn't match the NetBios nor the DNS format"},
		{name == "", "runAsUserName's User cannot be empty"},
		{len(name) > 104, "runAsUserName's User length must not be longer than 104 characters"},
		{name != "" && strings.Trim(name, ". ") == "", "runAsUserName's User cannot contain only periods or spaces"},
		{strings.ContainsAny(name, `"/\:;|=,+*?<>@[]`), `runAsUserName's User cannot contain the following characters: "/\:;|=,+*?<>@[]`}} {
		if c.bad {
			says = append(says, c.says)
		}
	}
	return rule.Says(says, u, path)
}
