package converge

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds/core"
)

// Nobody is advised to make a claim anew that has a volume: its data would go with it.
func TestClaimsWithDataLast(t *testing.T) {
	for volume, want := range map[string]bool{"": true, "pv-1": false} {
		t.Run(volume, func(t *testing.T) {
			c := &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{VolumeName: volume}}
			l := &Look{World: &World{}, Kind: core.PersistentVolumeClaims, Obj: c}
			if _, obj := l.LastingTop(); (obj != nil) != want {
				t.Errorf("made anew: %v", obj != nil)
			}
		})
	}
}
