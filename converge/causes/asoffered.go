package causes

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
)

// asOffered advises to make a claim anew, which another one does not make, so that it asks for what one of some free volumes offers.
func asOffered(l *converge.Look, c *corev1.PersistentVolumeClaim, among []*corev1.PersistentVolume) []string {
	if k, obj := l.LastingTop(); k != kinds.PersistentVolumeClaims || obj == nil || setOf(l.World, c) != nil {
		return nil
	}
	best, changes := "", []converge.Change(nil)
	for _, v := range among {
		if v.Status.Phase != corev1.VolumeAvailable {
			continue
		}
		var list []converge.Change
		if have := v.Spec.Capacity[corev1.ResourceStorage]; have.Cmp(c.Spec.Resources.Requests[corev1.ResourceStorage]) < 0 {
			list = append(list, converge.Put("/spec/resources/requests/storage", have.String()))
		}
		if slices.ContainsFunc(c.Spec.AccessModes, func(m corev1.PersistentVolumeAccessMode) bool {
			return !slices.Contains(v.Spec.AccessModes, m)
		}) {
			list = append(list, converge.Put("/spec/accessModes", v.Spec.AccessModes))
		}
		if v.Spec.StorageClassName != core.ClaimClass(c) {
			list = append(list, converge.Add("/spec/storageClassName", v.Spec.StorageClassName))
		}
		fits := c.DeepCopy()
		fits.Spec.AccessModes, fits.Spec.Resources.Requests = v.Spec.AccessModes[:min(1, len(v.Spec.AccessModes))], nil
		if unfitting(v, fits, true) == "" && len(list) > 0 && (changes == nil || len(list) < len(changes)) {
			best, changes = v.Name, list
		}
	}
	if changes == nil {
		return nil
	}
	return []string{"if volume " + best + " is meant, make the claim anew so that it asks for what that offers: " +
		converge.Anew(converge.RefTo(kinds.PersistentVolumeClaims, c), changes...)}
}
