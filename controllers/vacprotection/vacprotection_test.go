package vacprotection

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/resource"
)

func TestClasses(t *testing.T) {
	gold, silver, none := "gold", "silver", ""
	for _, tt := range []struct {
		name string
		obj  resource.Object
		want []string
	}{
		{"a volume", &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{VolumeAttributesClassName: &gold}}, []string{"gold"}},
		{"a volume without", &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{VolumeAttributesClassName: &none}}, nil},
		{"a claim between two", &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{VolumeAttributesClassName: &gold},
			Status: corev1.PersistentVolumeClaimStatus{CurrentVolumeAttributesClassName: &silver}}, []string{"gold", "silver"}},
		{"a claim being changed", &corev1.PersistentVolumeClaim{Status: corev1.PersistentVolumeClaimStatus{
			ModifyVolumeStatus: &corev1.ModifyVolumeStatus{TargetVolumeAttributesClassName: "gold"}}}, []string{"gold"}},
		{"a pod", &corev1.Pod{}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := classes(tt.obj); !slices.Equal(got, tt.want) {
				t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
			}
		})
	}
}
