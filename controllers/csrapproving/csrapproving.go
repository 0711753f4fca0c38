// Package csrapproving approves the certificate requests of kubelets that are allowed to have them.
//
//	reads   CertificateSigningRequest; by a SubjectAccessReview, what its user may do, once more when a
//	        ClusterRole or ClusterRoleBinding changes
//	writes  CertificateSigningRequest: approval
//	rule    a kubelet's request for a client certificate is approved when its user may ask for one
package csrapproving

import (
	"context"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/kloop-dev/kloop/controllers/internal/csr"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// Controller is the loop: wake on a request that nobody has decided.
var Controller = &loop.Controller[*certificatesv1.CertificateSigningRequest]{
	Name:      "csr-approving",
	For:       kinds.CertificateSigningRequests,
	Writes:    []resource.Kind{kinds.CertificateSigningRequests},
	Wake:      []loop.Wake{loop.Each(kinds.ClusterRoles, undecided), loop.Each(kinds.ClusterRoleBindings, undecided)},
	Skip:      skip,
	Reconcile: reconcile,
}

func skip(r *certificatesv1.CertificateSigningRequest) bool {
	return r.Spec.SignerName != certificatesv1.KubeAPIServerClientKubeletSignerName || csr.Decided(r)
}

// undecided wakes the requests that wait for somebody who may: a role may come after them.
func undecided(_ resource.Object, read resource.Reader, wake func(ns, name string)) {
	for obj := range read.Each(kinds.CertificateSigningRequests, "") {
		if r := obj.(*certificatesv1.CertificateSigningRequest); !skip(r) {
			wake("", r.Name)
		}
	}
}

func reconcile(ctx context.Context, c *loop.Ctx, r *certificatesv1.CertificateSigningRequest) (time.Duration, error) {
	req, err := csr.Parse(r)
	if err != nil || csr.CheckClient(req, r.Spec.Usages) != nil {
		return 0, nil // not a kubelet's: people decide
	}
	// A kubelet that has a certificate asks for its own next one; one that has only a token asks for any.
	type way struct{ permission, message string }
	ways := []way{{"nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview."}}
	if r.Spec.Username == req.Subject.CommonName {
		ways = append([]way{{"selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview."}}, ways...)
	}
	for _, w := range ways {
		ok, err := allowed(ctx, c, r, w.permission)
		if err != nil {
			return 0, err
		}
		if ok {
			return 0, csr.Approve(ctx, c, r, w.message)
		}
	}
	c.Waiting("%s may not create %s for kubelets", r.Spec.Username, "certificatesigningrequests/nodeclient")
	return 0, nil
}

func allowed(ctx context.Context, c *loop.Ctx, r *certificatesv1.CertificateSigningRequest, permission string) (bool, error) {
	extra := map[string]authorizationv1.ExtraValue{}
	for k, v := range r.Spec.Extra {
		extra[k] = authorizationv1.ExtraValue(v)
	}
	out, err := c.Client().Create(ctx, kinds.SubjectAccessReviews,
		&authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: r.Spec.Username, UID: r.Spec.UID, Groups: r.Spec.Groups, Extra: extra,
			ResourceAttributes: &authorizationv1.ResourceAttributes{Group: "certificates.k8s.io", Resource: "certificatesigningrequests",
				Verb: "create", Subresource: permission, Version: "*"}}})
	if err != nil {
		return false, err
	}
	return out.(*authorizationv1.SubjectAccessReview).Status.Allowed, nil
}
