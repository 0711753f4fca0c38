package csi

import (
	"errors"
	"slices"
	"strings"
	"testing"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/kloop-dev/kloop/test/csidriver"
)

// Labels of containers' files.
const (
	red  = "system_u:object_r:container_file_t:s0:c0,c1"
	blue = "system_u:object_r:container_file_t:s0:c98,c99"
)

// labelRig is a node with SELinux, and a driver that mounts with labels, or does not.
func labelRig(t *testing.T, mounts bool) *rig {
	t.Helper()
	r := newRig(t, csidriver.Config{})
	r.drive(&storagev1.CSIDriverSpec{AttachRequired: new(false), SELinuxMount: &mounts})
	r.selinux = true
	r.start()
	return r
}

// flags are the mount options of the last call.
func flags(r *rig, rpc string) []string {
	switch q := r.d.Request(rpc).(type) {
	case *csispec.NodeStageVolumeRequest:
		return q.VolumeCapability.GetMount().GetMountFlags()
	case *csispec.NodePublishVolumeRequest:
		return q.VolumeCapability.GetMount().GetMountFlags()
	}
	return []string{"never called"}
}

// TestLabels has one pod after another, or both at once, with one volume, and looks at the options that the driver gets.
func TestLabels(t *testing.T) {
	const admitted, clash = "volumes_admitted ", "volume_context_mismatch_errors "
	once, single, many := corev1.ReadWriteOnce, corev1.ReadWriteOncePod, corev1.ReadWriteMany
	type uses struct {
		labels    []string
		recursive bool
	}
	for _, c := range []struct {
		name          string
		off           bool // the driver takes no labels
		mode          corev1.PersistentVolumeAccessMode
		options       []string
		first, second uses
		want, then    []string // options of the first and of the second
		conflict      string
		staged        int // how often, in all
		counted       string
	}{
		{"one label", false, single, nil, uses{[]string{red}, false}, uses{[]string{red}, false},
			[]string{`context="` + red + `"`}, []string{`context="` + red + `"`}, "volume uses the ReadWriteOncePod", 1, admitted + "RWOP"},
		{"beside other options", false, once, []string{"noatime"}, uses{[]string{red}, false}, uses{[]string{red}, false},
			[]string{"noatime", `context="` + red + `"`}, []string{"noatime", `context="` + red + `"`}, "", 1, admitted + "RWO"},
		{"nobody says", false, many, nil, uses{}, uses{}, nil, nil, "", 1, ""},
		{"each file gets it", false, many, nil, uses{[]string{red}, true}, uses{[]string{blue}, true}, nil, nil, "", 1, ""},
		{"a driver without", true, once, nil, uses{[]string{red}, false}, uses{[]string{blue}, true}, nil, nil, "", 1, ""},
		{"two labels", false, once, nil, uses{[]string{red}, false}, uses{[]string{blue}, false}, []string{`context="` + red + `"`},
			[]string{`context="` + blue + `"`}, `conflicting SELinux labels of volume pv: "` + red + `" and "` + blue + `"`, 2,
			admitted + "RWO," + clash + "RWO," + admitted + "RWO"},
		{"two labels of a volume for one pod", false, single, nil, uses{[]string{red}, false}, uses{[]string{blue}, false},
			[]string{`context="` + red + `"`}, []string{`context="` + blue + `"`}, `conflicting SELinux labels of volume pv`, 2,
			admitted + "RWOP," + clash + "RWOP," + admitted + "RWOP"},
		{"a label, then each file", false, once, nil, uses{[]string{red}, false}, uses{[]string{blue}, true}, []string{`context="` + red + `"`},
			nil, `conflicting SELinux labels of volume pv: "` + red + `" and ""`, 2, admitted + "RWO," + clash + "RWO"},
		{"each file, then a label", false, once, nil, uses{[]string{red}, true}, uses{[]string{red}, false}, nil,
			[]string{`context="` + red + `"`}, `conflicting SELinux labels of volume pv: "" and "` + red + `"`, 2,
			clash + "RWO," + admitted + "RWO"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := labelRig(t, !c.off)
			pv := r.volume("pv", c.mode)
			pv.Spec.MountOptions = c.options
			request := func(uid string, u uses) *Request {
				q := ask(uid, pv, false)
				q.Labels, q.Recursive = u.labels, u.recursive
				return q
			}
			expect := func(want []string) {
				t.Helper()
				for _, rpc := range []string{"NodeStageVolume", "NodePublishVolume"} {
					if got := flags(r, rpc); !slices.Equal(got, want) {
						t.Errorf("%s with %q, want %q", rpc, got, want)
					}
				}
			}
			if got := r.mounts(request("u1", c.first)); got.Labelled != (strings.Contains(strings.Join(c.want, " "), "context")) {
				t.Errorf("labelled: %v", got.Labelled)
			}
			expect(c.want)
			_, err := r.Mount(r.ctx, request("u2", c.second))
			if (err == nil) != (c.conflict == "") || err != nil && !strings.Contains(err.Error(), c.conflict) {
				t.Errorf("%v, want %q", err, c.conflict)
			}
			r.check(r.Unmount(r.ctx, "u1"))
			r.mounts(request("u2", c.second))
			expect(c.then)
			if got := strings.Count(calls(r), "NodeStageVolume"); got != c.staged {
				t.Errorf("staged %d times, want %d", got, c.staged)
			}
			if got := strings.Join(r.counted, ","); got != c.counted {
				t.Errorf("counted %s, want %s", got, c.counted)
			}
			r.check(r.Unmount(r.ctx, "u2"))
			r.clean()
		})
	}
}

// TestLabelOutlivesTheAgent has an agent that comes anew, and first hears of the pod that can't have the volume.
func TestLabelOutlivesTheAgent(t *testing.T) {
	r := labelRig(t, true)
	pv := r.volume("pv")
	mine, other := ask("u1", pv, false), ask("u2", pv, false)
	mine.Labels, other.Labels = []string{red}, []string{blue}
	r.mounts(mine)
	r.kill()
	r.start()
	if _, err := r.Mount(r.ctx, other); !errors.As(err, new(*Conflict)) {
		t.Errorf("with another label: %v", err)
	}
	mine.Labels = []string{blue} // whatever becomes of its pod's description, it has what it has
	r.mounts(mine)
	if got := flags(r, "NodePublishVolume"); !slices.Equal(got, []string{`context="` + red + `"`}) {
		t.Errorf("published again with %q", got)
	}
	// The volume can't be unstaged, so it is not free for the other label yet.
	r.d.Fail(func(rpc string) *csidriver.Fault {
		if rpc == "NodeUnstageVolume" {
			return &csidriver.Fault{Code: 13}
		}
		return nil
	})
	r.check(r.Unmount(r.ctx, "u1"))
	if _, err := r.Mount(r.ctx, other); !IsWaiting(err) || !strings.Contains(err.Error(), "with a different SELinux label") {
		t.Errorf("before it is unstaged: %v", err)
	}
	r.d.Fail(nil)
	r.check(r.Sweep(r.ctx))
	r.mounts(other)
	if got := flags(r, "NodeStageVolume"); !slices.Equal(got, []string{`context="` + blue + `"`}) {
		t.Errorf("staged with %q", got)
	}
	r.check(r.Unmount(r.ctx, "u2"))
	r.clean()
}

// TestManyLabels has containers of one pod that do not agree.
func TestManyLabels(t *testing.T) {
	r := labelRig(t, true)
	q := ask("u1", r.volume("pv"), false)
	q.Labels = []string{red, blue}
	if _, err := r.Mount(r.ctx, q); err == nil || err.Error() != "multiple SELinux labels found: "+red+","+blue {
		t.Error(err)
	}
	r.check(r.Unmount(r.ctx, "u1"))
	if got := strings.Join(r.counted, ","); got != "pod_context_mismatch_errors RWO" {
		t.Errorf("counted %s", got)
	}
	r.clean()
	r.selinux = false
	r.start()
	r.mounts(q)
	if got := flags(r, "NodeStageVolume"); got != nil {
		t.Errorf("a kernel without SELinux: %q", got)
	}
	r.check(r.Unmount(r.ctx, "u1"))
	r.clean()
}

// TestStepsInWords names the step at which a volume failed, and why, as the kubelet does.
func TestStepsInWords(t *testing.T) {
	const gone = ": driver name none.example.com not found in the list of registered CSI drivers"
	const secret = " ns/none failed: kubernetes.io/csi: failed to find the secret none in the namespace ns with error: " +
		"secrets \"none\" not found"
	r := newRig(t, csidriver.Config{})
	none := &corev1.SecretReference{Namespace: "ns", Name: "none"}
	for _, c := range []struct {
		name       string
		change     func(*corev1.CSIPersistentVolumeSource)
		block      bool
		step, text string
	}{
		{"no driver", func(s *corev1.CSIPersistentVolumeSource) { s.Driver = "none.example.com" }, false, "MountVolume.MountDevice",
			"kubernetes.io/csi: attacher.MountDevice failed to create newCsiDriverClient" + gone},
		{"no driver of a device", func(s *corev1.CSIPersistentVolumeSource) { s.Driver = "none.example.com" }, true, "MapVolume.SetUpDevice",
			"kubernetes.io/csi: blockMapper.SetUpDevice failed to get CSI client" + gone},
		{"no secret", func(s *corev1.CSIPersistentVolumeSource) { s.NodeStageSecretRef = none }, false, "MountVolume.MountDevice",
			"fetching NodeStageSecretRef" + secret},
		{"no secret for the pod", func(s *corev1.CSIPersistentVolumeSource) { s.NodePublishSecretRef = none }, false, "",
			"fetching NodePublishSecretRef" + secret},
	} {
		t.Run(c.name, func(t *testing.T) {
			pv := r.volume("pv")
			c.change(pv.Spec.CSI)
			_, err := r.Mount(r.ctx, ask("u1", pv, c.block))
			step := &StepError{}
			if errors.As(err, &step); step.Step != c.step || err == nil || err.Error() != c.text {
				t.Errorf("%s: %v\nwant %s: %s", step.Step, err, c.step, c.text)
			}
			r.check(r.Unmount(r.ctx, "u1"))
		})
	}
	r.clean()
}
