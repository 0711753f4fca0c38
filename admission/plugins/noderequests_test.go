package plugins

import (
	"context"
	"errors"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/auth/authtest"
	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds/certificates"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// rights allows one verb on one thing of one name, and fails if it has none.
type rights [3]string

func (r rights) Authorize(_ context.Context, a *auth.Attributes) (auth.Decision, string, error) {
	switch {
	case r == rights{}:
		return auth.NoOpinion, "", errors.New("nobody knows")
	case r == rights{a.Verb, a.Resource, a.Name}:
		return auth.Allow, "", nil
	}
	return auth.NoOpinion, "", nil
}

// TestNodesAskForPods: an agent gets certificates and tokens that its pods mount, or that it has a right to.
func TestNodesAskForPods(t *testing.T) {
	older, err := features.New(36, nil)
	if err != nil {
		t.Fatal(err)
	}
	pod := simplePod()
	pod.Spec.NodeName, pod.UID, pod.Spec.ServiceAccountName = "n", "1", "sa"
	pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{{PodCertificate: &corev1.PodCertificateProjection{SignerName: "a.example/x"}}}}}}}
	read := authtest.Of(core.Pods, pod)
	certificate := func(signer string) *certificatesv1.PodCertificateRequest {
		return &certificatesv1.PodCertificateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: "r"},
			Spec: certificatesv1.PodCertificateRequestSpec{NodeName: "n", PodName: pod.Name, PodUID: "1", ServiceAccountName: "sa",
				SignerName: signer}}
	}
	token := &authenticationv1.TokenRequest{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace},
		Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"x"},
			BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: types.UID("1")}}}
	ask := admission.Request{Op: admission.Create, Kind: certificates.PodCertificateRequests, Namespace: pod.Namespace}
	tokens := admission.Request{Op: admission.Create, Kind: core.ServiceAccounts, Namespace: pod.Namespace, Sub: "token", Name: "sa"}
	other := rights{"", "", "x"}
	for _, x := range []struct {
		name   string
		on     *features.Set
		r      admission.Request
		obj    resource.Object
		rights rights
		text   string
	}{
		{"mounted", nil, ask, certificate("a.example/x"), other, ""},
		{"not mounted", nil, ask, certificate("b.example/y"), other,
			`pod "ns/p" does not mount a podCertificate projected volume for signer "b.example/y"`},
		{"allowed", nil, ask, certificate("b.example/y"),
			rights{"request-serviceaccounts-podcertificate-signer", "b.example:y", "sa"}, ""},
		{"nobody knows", nil, ask, certificate("b.example/y"), rights{},
			`error authorizing system:node:n to request podcertificaterequests for signer "b.example/y": nobody knows`},
		{"not mounted in 1.36", older, ask, certificate("b.example/y"), other, ""},
		{"token", nil, tokens, token, other, `system:node:n is not authorized to request tokens for audience "x"`},
		{"token, allowed", nil, tokens, token, rights{"request-serviceaccounts-token-audience", "x", "sa"}, ""},
		{"token, nobody knows", nil, tokens, token, rights{},
			`error authorizing system:node:n to request tokens for audience "x": nobody knows`},
		{"token in 1.36", older, tokens, token, other,
			`audience "x" not found in pod spec volume, system:node:n is not authorized to request tokens for this audience`},
		{"token in 1.36, nobody knows", older, tokens, token, rights{},
			`audience "x" not found in pod spec volume, error authorizing system:node:n to request tokens for this audience: nobody knows`},
	} {
		t.Run(x.name, func(t *testing.T) {
			r := x.r
			r.Read, r.User, r.Features = read, &auth.User{Name: "system:node:n", Groups: []string{auth.GroupNodes}}, x.on
			_, err := admit(admission.Chain{{Name: "NodeRestriction", Mutate: nodeRestriction{x.rights}.admit}}, &r, x.obj)
			if x.text == "" && err != nil {
				t.Error(err)
			} else if x.text != "" {
				refused(t, err, metav1.StatusReasonForbidden, x.text)
			}
		})
	}
}
