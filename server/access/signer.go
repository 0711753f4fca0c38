package access

import (
	"context"
	"fmt"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
)

// signs refuses answers to a pod's request for a certificate of those who may not sign for whom it is addressed to. It is asked
// when nothing else is wrong.
func (s extension) signs(ctx context.Context, r *server.Request, obj, old resource.Object, errs field.ErrorList) field.ErrorList {
	req, ok := obj.(*certificatesv1.PodCertificateRequest)
	if len(errs) > 0 || old == nil || !ok || r.Sub != "status" || s.Authorize == nil || r.Internal() {
		return errs
	}
	was := old.(*certificatesv1.PodCertificateRequest)
	if equality.Semantic.DeepEqual(req.Status, was.Status) || s.maySign(ctx, r.User, was.Spec.SignerName) {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec", "signerName"),
		fmt.Sprintf("User %q is not permitted to \"sign\" for signer %q", r.User.Name, was.Spec.SignerName))}
}

// maySign asks for the signer itself, then for all of its domain.
func (s extension) maySign(ctx context.Context, u *auth.User, signer string) bool {
	domain, _, _ := strings.Cut(signer, "/")
	for _, name := range []string{signer, domain + "/*"} {
		d, _, err := s.Authorize.Authorize(ctx, &auth.Attributes{User: u, Verb: "sign", Group: certificatesv1.GroupName, Version: "*",
			Resource: "signers", Name: name})
		if err == nil && d == auth.Allow {
			return true
		}
	}
	return false
}
