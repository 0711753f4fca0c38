package attachdetach

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// pvs has one PersistentVolume.
type pvs struct {
	resource.Reader
	pv *corev1.PersistentVolume
}

func (p pvs) Lookup(resource.Kind, string, string) resource.Object { return p.pv }

// TestTimesIn counts under upstream's names, or not at all.
func TestTimesIn(t *testing.T) {
	var f loop.Figures
	took := TimesIn(&f)
	took(operationAttach, "kubernetes.io/csi:d.io", time.Second)
	took(operationProvision, "d.io", 2*time.Second)
	var got []string
	for _, s := range f.All() {
		got = append(got, fmt.Sprint(s.Of.Name, s.Labels, s.Sum(), s.Count()))
	}
	if want := []string{"storage_operation_duration_seconds[false volume_attach success kubernetes.io/csi:d.io] 1 1",
		"volume_operation_total_seconds[provision d.io] 2 1"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if TimesIn(nil) != nil {
		t.Error("it counts for nobody")
	}
}

// TestTimes tells how long attaching, detaching and provisioning took, each once.
func TestTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		born := metav1.Now()
		time.Sleep(5 * time.Second)
		gone := metav1.Now()
		time.Sleep(2 * time.Second)
		va := func(attached bool, going *metav1.Time) *storagev1.VolumeAttachment {
			return &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: born, DeletionTimestamp: going},
				Spec: storagev1.VolumeAttachmentSpec{Attacher: "d.io"}, Status: storagev1.VolumeAttachmentStatus{Attached: attached}}
		}
		claim := func(phase corev1.PersistentVolumeClaimPhase, by string) *corev1.PersistentVolumeClaim {
			return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: born,
				Annotations: map[string]string{"volume.kubernetes.io/storage-provisioner": by}},
				Status: corev1.PersistentVolumeClaimStatus{Phase: phase}}
		}
		pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": "p.io"}}}
		for _, tt := range []struct {
			name     string
			old, now resource.Object
			want     string
		}{
			{"it has come", nil, va(true, nil), ""},
			{"attached", va(false, nil), va(true, nil), "volume_attach kubernetes.io/csi:d.io 7s"},
			{"as before", va(true, nil), va(true, nil), ""},
			{"detached", va(true, &gone), nil, "volume_detach kubernetes.io/csi:d.io 2s"},
			{"detached at once", va(true, nil), nil, "volume_detach kubernetes.io/csi:d.io 0s"},
			{"made for the claim", claim(corev1.ClaimPending, "p.io"), claim(corev1.ClaimBound, "p.io"), "provision p.io 7s"},
			{"made by somebody else", claim(corev1.ClaimPending, "q.io"), claim(corev1.ClaimBound, "q.io"), ""},
			{"was there", claim(corev1.ClaimPending, ""), claim(corev1.ClaimBound, ""), ""},
			{"bound before", claim(corev1.ClaimBound, "p.io"), claim(corev1.ClaimBound, "p.io"), ""},
		} {
			got := ""
			took := Took(func(operation, plugin string, took time.Duration) {
				got = fmt.Sprint(operation, " ", plugin, " ", took)
			})
			for _, hear := range []func(client.Change, resource.Reader, func(string, string)){took.attachment, took.claim} {
				hear(client.Change{Old: tt.old, New: tt.now}, pvs{pv: pv}, nil)
			}
			if got != tt.want {
				t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
			}
		}
	})
}
