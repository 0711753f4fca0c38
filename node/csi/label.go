package csi

import (
	"fmt"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A Conflict is the error of a volume that can't be mounted with the label of SELinux that its pod needs: its containers do not agree, or
// another pod has it with another label.
type Conflict struct{ text string }

// Error says which labels do not agree.
func (c *Conflict) Error() string { return c.text }

// What became of a volume's label, in the words of upstream's metrics. With a warning the volume is mounted all the same.
const (
	labelAdmitted = "volumes_admitted"
	labelClashes  = "volume_context_mismatch_errors"
	labelMany     = "pod_context_mismatch_errors"
	labelManyWarn = "pod_context_mismatch_warnings"
)

// A label of SELinux, as a job needs it.
type label struct {
	text    string // that it is to be mounted with; "": none
	matters bool   // nobody can have it with another one at the same time
}

// labelled finds out with which label the volume is to be mounted (KEP-1710). One that a pod defines itself, or that is used as a device,
// has none. A pod that has its volume keeps it as it is.
func (j *job) labelled(m *Mounter) (l label, err error) {
	if !m.cfg.SELinux || j.Block {
		return l, nil
	}
	if d, err := read(m.mountDir(j.Pod.UID, j.name())); err == nil {
		return label{text: d.Label}, nil
	}
	switch {
	case len(j.Labels) > 1 && j.PV == nil:
		j.count(m, labelManyWarn)
	case len(j.Labels) > 1:
		j.count(m, labelMany)
		return l, &Conflict{"multiple SELinux labels found: " + strings.Join(j.Labels, ",")}
	}
	l.matters = j.PV != nil && j.about != nil && is(j.about.Spec.SELinuxMount)
	if l.matters && !j.Recursive && len(j.Labels) == 1 {
		l.text = j.Labels[0]
	}
	return l, nil
}

// mounting describes the volume's use to the driver that is to mount it.
func (j *job) mounting() *csi.VolumeCapability {
	c := j.capability(j.d)
	if mount := c.GetMount(); mount != nil && j.label.text != "" {
		mount.MountFlags = append(mount.MountFlags, fmt.Sprintf("context=%q", j.label.text))
	}
	return c
}

// ask notes that the pod wants the volume, unless another one that this agent knows wants it with another label: the volume has to be let
// go of as if this pod were not there.
func (j *job) ask(m *Mounter) error {
	other, first := m.want(j.v, j.Pod.UID, j.attaches(), j.label)
	if other != nil {
		return j.clash(m, *other)
	}
	if first && j.label.text != "" {
		j.count(m, labelAdmitted)
	}
	return nil
}

// remains refuses a volume that is staged with another label: by an earlier agent, or since it could not be unstaged yet.
func (j *job) remains(m *Mounter) error {
	if !j.label.matters {
		return nil
	}
	d, err := read(m.stageDir(j.v))
	if err != nil || d.Label == j.label.text {
		return nil // what can't be read is written anew
	}
	m.unask(j.v, j.Pod.UID)
	users, err := m.users(j.v, "")
	switch {
	case err != nil:
		return err
	case slices.ContainsFunc(users, func(uid types.UID) bool { return uid != j.Pod.UID }):
		return j.clash(m, d.Label)
	}
	return Wait(fmt.Sprintf("waiting for unmount of volume %q, because it is already mounted to a different pod "+
		"with a different SELinux label", j.v.unique()))
}

func (j *job) clash(m *Mounter, other string) error {
	j.count(m, labelClashes)
	return &Conflict{fmt.Sprintf("conflicting SELinux labels of volume %s: %q and %q", j.PV.Name, other, j.label.text)}
}

func (j *job) count(m *Mounter, what string) {
	if m.cfg.Labelled != nil {
		m.cfg.Labelled(what, j.v.driver, accessMode(j.PV))
	}
}

// accessMode is the widest mode of a volume, in short; "inline": a pod defines it itself.
func accessMode(pv *corev1.PersistentVolume) string {
	if pv == nil {
		return "inline"
	}
	for _, m := range []struct {
		mode  corev1.PersistentVolumeAccessMode
		short string
	}{{corev1.ReadWriteMany, "RWX"}, {corev1.ReadOnlyMany, "ROX"}, {corev1.ReadWriteOnce, "RWO"}, {corev1.ReadWriteOncePod, "RWOP"}} {
		if slices.Contains(pv.Spec.AccessModes, m.mode) {
			return m.short
		}
	}
	return ""
}
