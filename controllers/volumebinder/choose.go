package volumebinder

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kloop-dev/kloop/kinds/core"
)

// A verdict is the decision about a claim.
type verdict int

const (
	missing  verdict = iota // no volume suits: one has to be made
	bind                    // to the volume
	wait                    // for the volume that the claim names
	taken                   // that volume is another's
	unfit                   // that volume does not suit
	lost                    // the claim's volume is gone
	misbound                // the claim's volume is another's
)

// choose is pure: it finds the volume of a claim. One that waits for its first consumer gets from here only a volume that
// is meant for it: the scheduler chooses among others.
func choose(p *corev1.PersistentVolumeClaim, waits bool, get func(string) *corev1.PersistentVolume,
	all []*corev1.PersistentVolume) (*corev1.PersistentVolume, verdict) {
	if p.Spec.VolumeName != "" {
		v, bound := get(p.Spec.VolumeName), p.Annotations[completed] != ""
		switch {
		case v == nil && bound:
			return nil, lost
		case v == nil:
			return nil, wait
		case bound && v.Spec.ClaimRef != nil && v.Spec.ClaimRef.UID != p.UID: // though it has its name
			return nil, misbound
		case bound, meantFor(v, p), v.Spec.ClaimRef == nil && mismatch(v, p) == "":
			return v, bind
		case v.Spec.ClaimRef == nil:
			return v, unfit
		}
		return nil, taken
	}
	switch {
	case p.Annotations[completed] != "": // somebody took its volume's name away
		return nil, lost
	case p.DeletionTimestamp != nil:
		return nil, wait
	}
	if v := best(p, waits, all); v != nil {
		return v, bind
	}
	return nil, missing
}

// best is the volume that is meant for the claim, or else, of those that allow as little beyond what it asks for as can be,
// the smallest.
func best(p *corev1.PersistentVolumeClaim, waits bool, all []*corev1.PersistentVolume) (found *corev1.PersistentVolume) {
	want := p.Spec.Resources.Requests[corev1.ResourceStorage]
	for _, v := range all {
		size := v.Spec.Capacity[corev1.ResourceStorage]
		switch {
		case v.DeletionTimestamp != nil || size.Cmp(want) < 0 || mode(v.Spec.VolumeMode) != mode(p.Spec.VolumeMode) || !allows(v, p):
		case meantFor(v, p):
			return v
		case waits || v.Spec.ClaimRef != nil || v.Status.Phase != corev1.VolumeAvailable || !selects(p, v) || mismatch(v, p) != "":
		case found == nil || less(v, found):
			found = v
		}
	}
	return found
}

func less(a, b *corev1.PersistentVolume) bool {
	if x, y := len(a.Spec.AccessModes), len(b.Spec.AccessModes); x != y {
		return x < y
	}
	x, y := a.Spec.Capacity[corev1.ResourceStorage], b.Spec.Capacity[corev1.ResourceStorage]
	return x.Cmp(y) < 0
}

// mismatch says why a volume that a claim names, or one that is free, can't be the claim's; "" when it can.
func mismatch(v *corev1.PersistentVolume, p *corev1.PersistentVolumeClaim) string {
	size, want := v.Spec.Capacity[corev1.ResourceStorage], p.Spec.Resources.Requests[corev1.ResourceStorage]
	switch {
	case v.DeletionTimestamp != nil:
		return fmt.Sprintf("the volume is marked for deletion %q", v.Name)
	case size.Cmp(want) < 0:
		return "requested PV is too small"
	case core.VolumeClass(v) != core.ClaimClass(p):
		return "storageClassName does not match"
	case deref(v.Spec.VolumeAttributesClassName) != deref(p.Spec.VolumeAttributesClassName):
		return "volumeAttributesClassName does not match"
	case mode(v.Spec.VolumeMode) != mode(p.Spec.VolumeMode):
		return "incompatible volumeMode"
	case !allows(v, p):
		return "incompatible accessMode"
	}
	return ""
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// allows says whether the volume can be used in all the ways that the claim asks for.
func allows(v *corev1.PersistentVolume, p *corev1.PersistentVolumeClaim) bool {
	return !slices.ContainsFunc(p.Spec.AccessModes,
		func(m corev1.PersistentVolumeAccessMode) bool { return !slices.Contains(v.Spec.AccessModes, m) })
}

// selects says whether the claim's selector takes the volume.
func selects(p *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) bool {
	if p.Spec.Selector == nil {
		return true
	}
	sel, err := metav1.LabelSelectorAsSelector(p.Spec.Selector)
	return err == nil && sel.Matches(labels.Set(v.Labels))
}

// meantFor says that the volume names the claim: this very one, or whatever has its name.
func meantFor(v *corev1.PersistentVolume, p *corev1.PersistentVolumeClaim) bool {
	ref := v.Spec.ClaimRef
	return ref != nil && ref.Namespace == p.Namespace && ref.Name == p.Name && (ref.UID == "" || ref.UID == p.UID)
}

func mode(m *corev1.PersistentVolumeMode) corev1.PersistentVolumeMode {
	if m == nil {
		return corev1.PersistentVolumeFilesystem
	}
	return *m
}

// phaseOf is the phase of a volume, given the claim that has the name that it names; unbind says that it should let go
// of a claim that took another volume.
func phaseOf(v *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) (phase corev1.PersistentVolumePhase, unbind bool) {
	ref := v.Spec.ClaimRef
	switch {
	case ref == nil || ref.UID == "":
		return corev1.VolumeAvailable, false
	case claim == nil || claim.UID != ref.UID:
		if v.Status.Phase == corev1.VolumeFailed {
			return corev1.VolumeFailed, false
		}
		return corev1.VolumeReleased, false
	case claim.Spec.VolumeName == v.Name:
		return corev1.VolumeBound, false
	case claim.Spec.VolumeName == "":
		return v.Status.Phase, false // the claim takes it next, or finds that it does not suit
	case v.Annotations[provisionedBy] != "" && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete:
		return corev1.VolumeReleased, false // it was made for a claim that needs it no more
	}
	return v.Status.Phase, true
}

// reclaim says what becomes of a volume that is released: nothing, or why nobody can do what its policy asks for.
//
// Unlike Kubernetes, no directory on the machine of the controllers is emptied or removed, and no pod empties a volume.
func reclaim(v *corev1.PersistentVolume) (reason, text string) {
	by := v.Annotations[provisionedBy]
	switch v.Spec.PersistentVolumeReclaimPolicy {
	case corev1.PersistentVolumeReclaimRecycle:
		return "VolumeFailedRecycle", "No recycler plugin found for the volume!"
	case corev1.PersistentVolumeReclaimDelete:
	default:
		return "", ""
	}
	none := "no volume plugin matched"
	if v.Spec.NFS != nil || v.Spec.HostPath != nil { // upstream has plugins for them, which delete nothing
		none = "no deletable volume plugin matched"
	}
	switch {
	case by != "" && !strings.HasPrefix(by, "kubernetes.io/"), by == "" && v.Spec.CSI != nil:
		return "", "" // who made it deletes it
	case v.Spec.HostPath != nil && !strings.HasPrefix(v.Spec.HostPath.Path, "/tmp/") && (by == "" || by == "kubernetes.io/host-path"):
		return "VolumeFailedDelete", "host_path deleter only supports /tmp/.+ but received provided " + v.Spec.HostPath.Path
	case by == "kubernetes.io/nfs":
		return "VolumeFailedDelete", none
	case by != "":
		return "VolumeFailedDelete", "no volume plugin matched name: " + by
	}
	return "VolumeFailedDelete", fmt.Sprintf("error getting deleter volume plugin for volume %q: %s", v.Name, none)
}
