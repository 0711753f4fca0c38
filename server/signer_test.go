package server_test

import (
	"context"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/internal/testcluster"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

var podRequests = &resource.Def[*certificatesv1.PodCertificateRequest]{
	GVK:    certificatesv1.SchemeGroupVersion.WithKind("PodCertificateRequest"),
	Plural: "podcertificaterequests", Namespaced: true, Status: true}

// signerOf may sign for the named signer.
type signerOf string

func (s signerOf) Authorize(_ context.Context, a *auth.Attributes) (auth.Decision, string, error) {
	if a.Verb == "sign" && a.Resource == "signers" && a.Name == string(s) {
		return auth.Allow, "", nil
	}
	return auth.NoOpinion, "", nil
}

// TestWhoSignsForPods: the status of a pod's request is for its signer.
func TestWhoSignsForPods(t *testing.T) {
	for who, want := range map[signerOf]string{"a.b/c": "", "a.b/*": "", "a.b/d": "Invalid FieldValueForbidden spec.signerName"} {
		w := start(t, func(c *testcluster.Config) {
			c.Kinds = resource.NewSet(append(c.Kinds.All(), podRequests)...)
			c.View = view.NewWith(c.Kinds, view.Config{})
			c.Authorize = who
		})
		p := resource.Clone(create(w, podRequests, &certificatesv1.PodCertificateRequest{ObjectMeta: metav1.ObjectMeta{Name: "x"},
			Spec: certificatesv1.PodCertificateRequestSpec{SignerName: "a.b/c"}}))
		ask := sub(w.ask(podRequests, "x"), "status")
		ask.User = &auth.User{Name: "u"}
		if _, _, err := w.Update(t.Context(), ask, p); err != nil {
			t.Errorf("%s: nothing changed: %v", who, err)
		}
		p.Status.CertificateChain = "chain"
		if _, _, err := w.Update(t.Context(), ask, p); reason(err) != want {
			t.Errorf("%s: %q, want %q", who, reason(err), want)
		}
	}
}
