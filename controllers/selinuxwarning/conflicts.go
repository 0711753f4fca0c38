package selinuxwarning

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// A Conflict is between two pods that have one volume, as the first of them sees it.
type Conflict struct {
	Property                       string // SELinuxLabel or SELinuxChangePolicy
	Namespace, Pod, Value          string
	OtherNamespace, Other, Against string
}

// text is upstream's, which names no pod of another namespace.
func (c *Conflict) text() string {
	const end = ". If both pods land on the same node, only one of them may access the volume."
	begin := c.Property + ` "` + c.Value + `" conflicts with `
	if c.Namespace != c.OtherNamespace {
		return begin + "another pod that uses the same volume as this pod with a different " + c.Property + end
	}
	return begin + "pod " + c.Other + " that uses the same volume as this pod with " + c.Property + ` "` + c.Against + `"` + end
}

// Many is a volume that containers of one pod want with several labels.
type Many struct{ Namespace, Pod, Volume string }

// A volumeID is a volume of a driver.
type volumeID struct{ driver, handle string }

// A use is a pod's of a volume: the label that it is mounted with, "" for none, and who gives the files theirs.
type use struct {
	pod    *corev1.Pod
	label  string
	policy corev1.PodSELinuxChangePolicy
}

// mostConflicts bounds those of a cluster that are looked at: pods that share a volume conflict with each other.
const mostConflicts = 10_000

// Conflicts finds the pods that want one volume of a driver in different ways, and tells each side, once however often it has the
// volume, up to mostConflicts; and those whose containers do not agree.
func Conflicts(read resource.Reader, add func(Conflict), many func(Many)) {
	users, told := map[volumeID][]use{}, map[Conflict]bool{}
	once := func(x Conflict) {
		if !told[x] && len(told) < mostConflicts {
			told[x] = true
			add(x)
		}
	}
	for obj := range read.Each(kinds.Pods, "") {
		p := obj.(*corev1.Pod)
		if core.Terminal(p) {
			continue
		}
		for i := range p.Spec.Volumes {
			v := &p.Spec.Volumes[i]
			pv := volumeOf(read, p, v)
			if pv == nil || pv.Spec.CSI == nil {
				continue
			}
			labels, used := labelsOf(p, v.Name)
			if !used {
				continue
			}
			if len(labels) > 1 {
				many(Many{p.Namespace, p.Name, v.Name})
				continue
			}
			u := use{pod: p, policy: corev1.SELinuxChangePolicyRecursive}
			if len(labels) == 1 && takes(read, pv.Spec.CSI.Driver) && policyOf(p) != corev1.SELinuxChangePolicyRecursive {
				for u.label = range labels {
				}
			}
			if u.label != "" {
				u.policy = policyOf(p)
			}
			id := volumeID{pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle}
			for _, o := range users[id] {
				if o.pod != p {
					compare(o, u, once)
				}
			}
			users[id] = append(users[id], u)
		}
	}
}

// Count tells of each conflict, as the labels of upstream's metric selinux_warning_controller_selinux_volume_conflict are.
func Count(read resource.Reader, add func(labels [7]string)) {
	Conflicts(read, func(x Conflict) {
		add([7]string{x.Property, x.Namespace, x.Pod, x.Value, x.OtherNamespace, x.Other, x.Against})
	}, func(Many) {})
}

// compare tells both of what differs.
func compare(a, b use, add func(Conflict)) {
	if a.policy == b.policy && a.label == b.label {
		return // as most do, and there may be many
	}
	each := func(property, x, y string) {
		add(Conflict{property, a.pod.Namespace, a.pod.Name, x, b.pod.Namespace, b.pod.Name, y})
		add(Conflict{property, b.pod.Namespace, b.pod.Name, y, a.pod.Namespace, a.pod.Name, x})
	}
	if a.policy != b.policy {
		each("SELinuxChangePolicy", string(a.policy), string(b.policy))
	}
	if differ(a.label, b.label) {
		each("SELinuxLabel", a.label, b.label)
	}
}

// differ says that two labels can't be of the same files. User, role and type that one of them leaves open come from the node's policy.
func differ(a, b string) bool {
	x, y := parts(a), parts(b)
	for i := range 3 {
		if x[i] != "" && y[i] != "" && x[i] != y[i] {
			return true
		}
	}
	return x[3] != y[3]
}

func parts(label string) (p [4]string) {
	copy(p[:], strings.SplitN(label, ":", 4))
	return p
}

// volumeOf is the PersistentVolume that a pod's volume is; nil: none, or none yet.
func volumeOf(read resource.Reader, p *corev1.Pod, v *corev1.Volume) *corev1.PersistentVolume {
	pvc := resource.Get(read, kinds.PersistentVolumeClaims, p.Namespace, core.ClaimName(p, v))
	if pvc == nil || pvc.Spec.VolumeName == "" {
		return nil
	}
	pv := resource.Get(read, kinds.PersistentVolumes, "", pvc.Spec.VolumeName)
	if pv == nil || claimOf(pv) != pvc.UID {
		return nil
	}
	return pv
}

// labelsOf are the labels that containers of the pod have which mount the volume. used: some do.
func labelsOf(p *corev1.Pod, volume string) (labels map[string]bool, used bool) {
	note := func(own *corev1.SecurityContext, mounts []corev1.VolumeMount) {
		var o *corev1.SELinuxOptions
		if sc := p.Spec.SecurityContext; sc != nil {
			o = sc.SELinuxOptions
		}
		if own != nil && own.SELinuxOptions != nil {
			o = own.SELinuxOptions
		}
		for i := range mounts {
			if mounts[i].Name != volume {
				continue
			}
			if used = true; o == nil {
				return
			}
			if labels == nil {
				labels = map[string]bool{}
			}
			text := strings.Join([]string{o.User, o.Role, o.Type, o.Level}, ":")
			if text == ":::" {
				text = ""
			}
			labels[text] = true
		}
	}
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			note(list[i].SecurityContext, list[i].VolumeMounts)
		}
	}
	for i := range p.Spec.EphemeralContainers {
		note(p.Spec.EphemeralContainers[i].SecurityContext, p.Spec.EphemeralContainers[i].VolumeMounts)
	}
	return labels, used
}

func policyOf(p *corev1.Pod) corev1.PodSELinuxChangePolicy {
	if sc := p.Spec.SecurityContext; sc != nil && sc.SELinuxChangePolicy != nil {
		return *sc.SELinuxChangePolicy
	}
	return corev1.SELinuxChangePolicyMountOption
}

func claimOf(pv *corev1.PersistentVolume) types.UID {
	if pv.Spec.ClaimRef == nil {
		return ""
	}
	return pv.Spec.ClaimRef.UID
}

// takes says that the driver mounts with labels.
func takes(read resource.Reader, driver string) bool {
	d := resource.Get(read, kinds.CSIDrivers, "", driver)
	return d != nil && mounts(d)
}

func mounts(d *storagev1.CSIDriver) bool { return d.Spec.SELinuxMount != nil && *d.Spec.SELinuxMount }
