package volumebinder

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// A verdict is what to do with a claim.
type verdict int

const (
	missing verdict = iota // no volume suits: one has to be made
	bind                   // to the volume
	wait                   // for the volume that the claim names
	taken                  // that volume is another's
	lost                   // the claim's volume is gone
)

// choose is pure: it finds the volume of a claim.
func choose(p *corev1.PersistentVolumeClaim, get func(string) *corev1.PersistentVolume, all []*corev1.PersistentVolume) (*corev1.PersistentVolume, verdict) {
	if p.Spec.VolumeName != "" {
		v, bound := get(p.Spec.VolumeName), p.Annotations[completed] != ""
		switch {
		case v == nil && bound:
			return nil, lost
		case v == nil:
			return nil, wait
		case v.Spec.ClaimRef == nil || meantFor(v, p):
			return v, bind
		case bound:
			return nil, lost
		}
		return nil, taken
	}
	if p.DeletionTimestamp != nil {
		return nil, wait
	}
	if v := smallest(p, all); v != nil {
		return v, bind
	}
	return nil, missing
}

// smallest is the volume that is meant for the claim, or else the smallest that suits.
func smallest(p *corev1.PersistentVolumeClaim, all []*corev1.PersistentVolume) (best *corev1.PersistentVolume) {
	want := p.Spec.Resources.Requests[corev1.ResourceStorage]
	for _, v := range all {
		if v.DeletionTimestamp != nil || !suits(v, p) {
			continue
		}
		size := v.Spec.Capacity[corev1.ResourceStorage]
		switch {
		case size.Cmp(want) < 0:
		case meantFor(v, p):
			return v
		case v.Spec.ClaimRef != nil || v.Status.Phase != corev1.VolumeAvailable:
		case best == nil:
			best = v
		default:
			have := best.Spec.Capacity[corev1.ResourceStorage]
			if size.Cmp(have) < 0 {
				best = v
			}
		}
	}
	return best
}

// meantFor says that the volume names the claim: this very one, or whatever has its name.
func meantFor(v *corev1.PersistentVolume, p *corev1.PersistentVolumeClaim) bool {
	ref := v.Spec.ClaimRef
	return ref != nil && ref.Namespace == p.Namespace && ref.Name == p.Name && (ref.UID == "" || ref.UID == p.UID)
}

// suits compares all but the size.
func suits(v *corev1.PersistentVolume, p *corev1.PersistentVolumeClaim) bool {
	if v.Spec.StorageClassName != className(p) || mode(v.Spec.VolumeMode) != mode(p.Spec.VolumeMode) {
		return false
	}
	for _, m := range p.Spec.AccessModes {
		if !slices.Contains(v.Spec.AccessModes, m) {
			return false
		}
	}
	if p.Spec.Selector == nil {
		return true
	}
	sel, err := metav1.LabelSelectorAsSelector(p.Spec.Selector)
	return err == nil && sel.Matches(labels.Set(v.Labels))
}

func className(p *corev1.PersistentVolumeClaim) string {
	if old, ok := p.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return old
	}
	if p.Spec.StorageClassName == nil {
		return ""
	}
	return *p.Spec.StorageClassName
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
	case claim.Spec.VolumeName == v.Name || claim.Spec.VolumeName == "":
		return corev1.VolumeBound, false
	}
	return v.Status.Phase, v.Annotations[byController] != ""
}
