package selinux

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestRead finds the label of containers' files where runtimes do.
func TestRead(t *testing.T) {
	const label = "system_u:object_r:container_file_t:s0"
	lxc := "# of containers\nprocess = \"system_u:system_r:container_t:s0\"\nfile = \"" + label + "\"\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"of the policy": {map[string]string{"etc/selinux/config": "SELINUX=enforcing\nSELINUXTYPE=targeted\n",
			"etc/selinux/targeted/contexts/lxc_contexts": lxc}, "container_file_t"},
		"of the containers' package": {map[string]string{"etc/selinux/config": "SELINUXTYPE=none\n",
			"usr/share/containers/selinux/contexts": lxc}, "container_file_t"},
		"no policy":           {nil, ""},
		"nothing of files":    {map[string]string{"usr/share/containers/selinux/contexts": "process = \"a:b:c\"\n"}, ""},
		"a policy of nothing": {map[string]string{"etc/selinux/config": "SELINUXTYPE=targeted\n"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for path, text := range c.files {
				at := filepath.Join(root, path)
				if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			p, err := read(root)
			if (err == nil) != (c.want != "") || p != nil && p.sort != c.want {
				t.Errorf("%+v, %v; want %q", p, err, c.want)
			}
		})
	}
	if enabled(t.TempDir(), "/proc/self/attr/current") {
		t.Error("a directory passes for the kernel's")
	}
}

// TestUses says what labels containers need a volume to have.
func TestUses(t *testing.T) {
	p, err := New("system_u:object_r:container_file_t:s0")
	if err != nil {
		t.Fatal(err)
	}
	with := func(level string) *corev1.SecurityContext {
		return &corev1.SecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Level: level, Type: "spc_t"}}
	}
	on := []corev1.VolumeMount{{Name: "data", MountPath: "/a"}, {Name: "data", MountPath: "/b"}}
	recursive := corev1.SELinuxChangePolicyRecursive
	whole := &corev1.PodSecurityContext{SELinuxOptions: &corev1.SELinuxOptions{User: "me_u", Level: "s0:c9"}}
	red := with("s0:c1,c2")
	const one, mine = "system_u:object_r:container_file_t:s0:c1,c2", "me_u:object_r:container_file_t:s0:c9"
	for name, c := range map[string]struct {
		spec corev1.PodSpec
		want []string
		all  bool
	}{
		"nobody says":    {corev1.PodSpec{Containers: []corev1.Container{{VolumeMounts: on}}}, nil, false},
		"the container":  {corev1.PodSpec{Containers: []corev1.Container{{SecurityContext: red, VolumeMounts: on}}}, []string{one}, false},
		"the pod":        {corev1.PodSpec{SecurityContext: whole, Containers: []corev1.Container{{VolumeMounts: on}}}, []string{mine}, false},
		"no level":       {corev1.PodSpec{Containers: []corev1.Container{{SecurityContext: with(""), VolumeMounts: on}}}, []string{""}, false},
		"one without it": {corev1.PodSpec{Containers: []corev1.Container{{SecurityContext: with("s0:c3")}, {VolumeMounts: on}}}, nil, false},
		"both say the same": {corev1.PodSpec{SecurityContext: whole, Containers: []corev1.Container{{VolumeMounts: on}, {VolumeMounts: on}}},
			[]string{mine}, false},
		"one says otherwise": {corev1.PodSpec{SecurityContext: whole, InitContainers: []corev1.Container{{VolumeMounts: on}},
			Containers: []corev1.Container{{SecurityContext: with("s0:c1,c2"), VolumeMounts: on}}}, []string{mine, one}, false},
		"a debugger": {corev1.PodSpec{EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
			SecurityContext: with("s0:c1,c2"), VolumeMounts: on}}}}, []string{one}, false},
		"file by file": {corev1.PodSpec{SecurityContext: &corev1.PodSecurityContext{SELinuxChangePolicy: &recursive}}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, all := p.Uses(&corev1.Pod{Spec: c.spec}, "data")
			if !slices.Equal(got, c.want) || all != c.all {
				t.Errorf("%v, %v; want %v, %v", got, all, c.want, c.all)
			}
			if got, _ := (*Policy)(nil).Uses(&corev1.Pod{Spec: c.spec}, "data"); got != nil {
				t.Errorf("without SELinux: %v", got)
			}
		})
	}
}

// TestLabelled finds the file system that a path is on.
func TestLabelled(t *testing.T) {
	const table = `22 1 8:1 / / rw - ext4 /dev/sda rw,seclabel
30 22 8:2 / /mnt rw - nfs srv:/x rw,vers=4
31 30 8:3 / /mnt/a\040b rw shared:1 - xfs /dev/sdb rw,seclabel,attr2
`
	for path, want := range map[string]bool{"/": true, "/etc": true, "/mnt": false, "/mnt/x": false, "/mntx": true, `/mnt/a\040b/c`: true} {
		if got := labelled(table, path); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
	if (*Policy)(nil).Labels("/") {
		t.Error("a machine without SELinux has labels")
	}
}
