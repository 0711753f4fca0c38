package node

import (
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	"sigs.k8s.io/yaml"
)

// securityOf is what the runtime is asked for, or the reason why it is not asked. pod and container are security contexts as YAML; user
// is the image's, if it says one: a number or a name.
func securityOf(t *testing.T, pod, container, user string) (*cri.LinuxContainerSecurityContext, string) {
	t.Helper()
	a, f := testAgent(t), newFakeRuntime()
	a.cfg.Runtime.Images = f
	f.images["img"] = &cri.Image{Id: "img", Username: user}
	p := testPod(never, "", "a")
	p.Spec.SecurityContext, p.Spec.Containers[0].SecurityContext = &corev1.PodSecurityContext{}, &corev1.SecurityContext{}
	if err := yaml.UnmarshalStrict([]byte(pod), p.Spec.SecurityContext); err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict([]byte(container), p.Spec.Containers[0].SecurityContext); err != nil {
		t.Fatal(err)
	}
	s, err := a.starter.containerSecurity(t.Context(), p, &p.Spec.Containers[0], "img")
	if err != nil {
		return s, err.Error()
	}
	return s, ""
}

// TestUser: the container's word wins over the pod's, and that over the image's. Who must not be root is none.
func TestUser(t *testing.T) {
	const breaks = "container's runAsUser breaks non-root policy"
	for _, c := range []struct{ pod, container, image, want string }{
		{`{}`, `{}`, "", ""}, {`{}`, `{}`, "7", "7"}, {`{}`, `{}`, "www", "www"},
		{`{runAsUser: 1000}`, `{}`, "7", "1000"}, {`{runAsUser: 1000}`, `{runAsUser: 0}`, "7", "0"},
		{`{}`, `{runAsUser: 65534, runAsGroup: 3}`, "", "65534:3"}, {`{runAsUser: 1, runAsGroup: 2}`, `{runAsGroup: 3}`, "", "1:3"},
		{`{}`, `{runAsGroup: 3}`, "", "0:3"},
		{`{}`, `{runAsNonRoot: true, runAsUser: 1234}`, "", "1234"}, {`{}`, `{runAsNonRoot: true}`, "1234", "1234"},
		{`{runAsNonRoot: true}`, `{runAsUser: 0}`, "", breaks}, {`{runAsUser: 0}`, `{runAsNonRoot: true}`, "7", breaks},
		{`{runAsNonRoot: true}`, `{}`, "", "container has runAsNonRoot and image will run as root"},
		{`{runAsNonRoot: true}`, `{}`, "0", "container has runAsNonRoot and image will run as root"},
		{`{runAsNonRoot: true}`, `{runAsNonRoot: false}`, "0", "0"},
		{`{runAsNonRoot: true}`, `{}`, "www", "container has runAsNonRoot and image has non-numeric user (www), cannot verify user is non-root"},
	} {
		s, got := securityOf(t, c.pod, c.container, c.image)
		got, _, _ = strings.Cut(got, " (pod: ")
		if got == "" {
			got = s.RunAsUsername
			if s.RunAsUser != nil {
				got = strconv.FormatInt(s.RunAsUser.Value, 10)
			}
			if s.RunAsGroup != nil {
				got += ":" + strconv.FormatInt(s.RunAsGroup.Value, 10)
			}
		}
		if got != c.want {
			t.Errorf("pod %s container %s image %q: %q, want %q", c.pod, c.container, c.image, got, c.want)
		}
	}
}

// TestConfinement: what a container may do is what its spec says, and no more where it says nothing.
func TestConfinement(t *testing.T) {
	const open, byRuntime, local = cri.SecurityProfile_Unconfined, cri.SecurityProfile_RuntimeDefault, cri.SecurityProfile_Localhost
	for _, c := range []struct {
		pod, container          string
		seccomp                 cri.SecurityProfile_ProfileType
		privileged, noNew, read bool
		masked                  bool
	}{
		{`{}`, `{}`, open, false, false, false, true},
		{`{}`, `{privileged: true}`, open, true, false, false, false},
		{`{}`, `{privileged: false, allowPrivilegeEscalation: false}`, open, false, true, false, true},
		{`{}`, `{allowPrivilegeEscalation: true, readOnlyRootFilesystem: true}`, open, false, false, true, true},
		{`{}`, `{readOnlyRootFilesystem: false, procMount: Unmasked}`, open, false, false, false, false},
		{`{seccompProfile: {type: RuntimeDefault}}`, `{}`, byRuntime, false, false, false, true},
		{`{seccompProfile: {type: RuntimeDefault}}`, `{seccompProfile: {type: Unconfined}}`, open, false, false, false, true},
		{`{seccompProfile: {type: Unconfined}}`, `{}`, open, false, false, false, true},
		{`{}`, `{seccompProfile: {type: Localhost, localhostProfile: x/y.json}}`, local, false, false, false, true},
	} {
		s, err := securityOf(t, c.pod, c.container, "")
		if err != "" || s.Seccomp.ProfileType != c.seccomp || s.Privileged != c.privileged || s.NoNewPrivs != c.noNew ||
			s.ReadonlyRootfs != c.read || len(s.MaskedPaths) > 0 != c.masked || len(s.ReadonlyPaths) > 0 != c.masked {
			t.Errorf("pod %s container %s: %v %s", c.pod, c.container, s, err)
		}
	}
	for _, c := range []struct{ pod, container, want string }{
		{`{}`, `{}`, ""}, {`{appArmorProfile: {type: RuntimeDefault}}`, `{}`, "RuntimeDefault "},
		{`{appArmorProfile: {type: Localhost, localhostProfile: p}}`, `{}`, "Localhost p"},
		{`{appArmorProfile: {type: Localhost, localhostProfile: p}}`, `{appArmorProfile: {type: Localhost, localhostProfile: q}}`, "Localhost q"},
		{`{appArmorProfile: {type: RuntimeDefault}}`, `{appArmorProfile: {type: Unconfined}}`, "Unconfined "},
	} {
		s, _ := securityOf(t, c.pod, c.container, "")
		got := ""
		if s.Apparmor != nil {
			got = s.Apparmor.ProfileType.String() + " " + s.Apparmor.LocalhostRef
		}
		if got != c.want {
			t.Errorf("AppArmor of pod %s container %s: %q, want %q", c.pod, c.container, got, c.want)
		}
	}
	if s, _ := securityOf(t, `{supplementalGroups: [5, 6], fsGroup: 7}`, `{}`, ""); len(s.SupplementalGroups) != 3 {
		t.Errorf("groups %v", s.SupplementalGroups)
	}
}

// TestSysctls: parameters reach the sandbox in one spelling, and are judged in it.
func TestSysctls(t *testing.T) {
	const forced, filter = "kernel.shm_rmid_forced", "net.ipv4.conf.eno2/100.rp_filter"
	for in, want := range map[string]string{forced: forced, "kernel/shm_rmid_forced": forced, filter: filter,
		"net/ipv4/conf/eno2.100/rp_filter": filter, "x": "x", "": ""} {
		p := testPod(never, "", "a")
		p.Spec.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: in, Value: "1"}}}
		if got := sysctls(p); len(got) != 1 || got[want] != "1" {
			t.Errorf("%s: %v, want %s", in, got, want)
		}
		r := forbiddenSysctl(p, []string{"net.ipv4.conf.*"})
		if may := want != "x" && want != ""; may != (r == nil) {
			t.Errorf("%s: %+v", in, r)
		}
	}
	for in, allowed := range map[string]string{"kernel.shmmax": "kernel.shm*", "kernel.msgmax": "", "net.core.somaxconn": "net.ipv4.*"} {
		p := testPod(never, "", "a")
		p.Spec.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: in, Value: "1"}}}
		if r := forbiddenSysctl(p, []string{allowed}); (r == nil) != (in == "kernel.shmmax") {
			t.Errorf("%s with %q allowed: %+v", in, allowed, r)
		}
	}
}
