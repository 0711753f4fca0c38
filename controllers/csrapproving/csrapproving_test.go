package csrapproving

import (
	"slices"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

// A kubelet's request is looked at again when somebody may become one who may ask.
func TestUndecided(t *testing.T) {
	request := func(name, signer string, conditions ...certificatesv1.CertificateSigningRequestCondition) resource.Object {
		return &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:   certificatesv1.CertificateSigningRequestSpec{SignerName: signer},
			Status: certificatesv1.CertificateSigningRequestStatus{Conditions: conditions}}
	}
	kubelet := certificatesv1.KubeAPIServerClientKubeletSignerName
	v := view.New(kinds.NewSet())
	v.Replace(kinds.CertificateSigningRequests, 1, []resource.Object{request("waits", kubelet), request("other", "example.com/x"),
		request("denied", kubelet, certificatesv1.CertificateSigningRequestCondition{Type: certificatesv1.CertificateDenied})})
	var woken []string
	undecided(nil, v.Snapshot(), func(_, name string) { woken = append(woken, name) })
	if !slices.Equal(woken, []string{"waits"}) {
		t.Errorf("%v are looked at", woken)
	}
}
