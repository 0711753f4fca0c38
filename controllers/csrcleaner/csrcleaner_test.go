package csrcleaner

import (
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestUntil(t *testing.T) {
	made := time.Unix(1000000, 0)
	said := func(list ...certificatesv1.RequestConditionType) (all []certificatesv1.CertificateSigningRequestCondition) {
		for _, one := range list {
			all = append(all, certificatesv1.CertificateSigningRequestCondition{Type: one, LastUpdateTime: metav1.NewTime(made.Add(time.Minute))})
		}
		return all
	}
	for _, tt := range []struct {
		name       string
		conditions []certificatesv1.CertificateSigningRequestCondition
		cert       string
		want       time.Duration // after it was made; 0: never
	}{
		{"nobody said anything", nil, "", 24 * time.Hour},
		{"somebody said something", said("Mine"), "", 0},
		{"approved, not signed", said("Approved"), "", 24*time.Hour + time.Minute},
		{"signed", said("Approved"), "x", time.Hour + time.Minute},
		{"denied", said("Denied"), "", time.Hour + time.Minute},
		{"failed", said("Approved", "Failed"), "", time.Hour + time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(made)},
				Status: certificatesv1.CertificateSigningRequestStatus{Conditions: tt.conditions, Certificate: []byte(tt.cert)}}
			got := until(r)
			if got.IsZero() != (tt.want == 0) || !got.IsZero() && !got.Equal(made.Add(tt.want)) {
				t.Errorf("%s: until %v, want %v after %v", tt.name, got, tt.want, made)
			}
		})
	}
}
