package access

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
)

// Tokens issues tokens of service accounts; auth/token has one.
type Tokens interface {
	// Complete fills in what a request leaves out, and validates it.
	Complete(tr *authenticationv1.TokenRequest) error
	// Request answers a request for a token of the account with a copy that carries it.
	Request(read resource.Reader, sa *corev1.ServiceAccount, tr *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error)
}

// defaultLife is for how many seconds a token is good when nobody says.
const defaultLife = 3600

// requests is the kind of a request's body, by which its fields are tracked.
var requests = &resource.Def[*authenticationv1.TokenRequest]{Namespaced: true,
	GVK: authenticationv1.SchemeGroupVersion.WithKind("TokenRequest")}

// tokenRequests is the kind that errors name; upstream puts the kind in the place of the resource.
var tokenRequests = authenticationv1.SchemeGroupVersion.WithKind("TokenRequest").GroupKind()

// token issues a token of the service account of the request.
func (s extension) token(ctx context.Context, r *server.Request, in resource.Object) (resource.Object, error) {
	tr, ok := in.(*authenticationv1.TokenRequest)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a TokenRequest object: %T", in))
	}
	if s.cfg.Tokens == nil {
		return nil, apierrors.NewServiceUnavailable("this server issues no tokens")
	}
	if err := s.MutateCall(ctx, r, tr); err != nil {
		return nil, err
	}
	if tr.Name != "" && tr.Name != r.Name {
		return nil, apierrors.NewInvalid(tokenRequests, r.Name,
			field.ErrorList{field.Invalid(field.NewPath("metadata", "name"), tr.Name, "must match the service account name if specified")})
	}
	snap, err := s.Fresh(ctx)
	if err != nil {
		return nil, err
	}
	sa, ok := snap.Lookup(r.Kind, r.Namespace, r.Name).(*corev1.ServiceAccount)
	if !ok {
		return nil, server.NotFound(r)
	}
	if tr.UID != "" && tr.UID != sa.UID {
		return nil, apierrors.NewConflict(schema.GroupResource{Group: tokenRequests.Group, Resource: tokenRequests.Kind}, r.Name,
			fmt.Errorf("the UID in the token request (%s) does not match the UID of the service account (%s)", tr.UID, sa.UID))
	}
	rule.Fill(&tr.Spec.ExpirationSeconds, defaultLife)
	if err := server.OwnBody(s.Server, r, requests, tr); err != nil {
		return nil, err
	}
	tr.Name, tr.Namespace, tr.UID = sa.Name, sa.Namespace, sa.UID
	tr.CreationTimestamp = s.Stamp()
	if err := s.cfg.Tokens.Complete(tr); err != nil {
		return nil, err
	}
	if err := s.ValidateCall(ctx, r, tr); err != nil {
		return nil, err
	}
	out, err := s.cfg.Tokens.Request(snap, sa, tr)
	if err == nil && r.Annotate != nil {
		r.Annotate("authentication.kubernetes.io/issued-credential-id", "JTI="+idOf(out.Status.Token))
	}
	return answered(out, err)
}

// idOf is the id that a token bears, by which the audit of what it is used for names it.
func idOf(token string) string {
	var claims struct {
		ID string `json:"jti"`
	}
	if parts := strings.Split(token, "."); len(parts) == 3 {
		if text, err := base64.RawURLEncoding.DecodeString(parts[1]); err == nil {
			_ = json.Unmarshal(text, &claims) // it is the server's own
		}
	}
	return claims.ID
}

// answered keeps a typed nil from passing for an answer.
func answered[T resource.Object](out T, err error) (resource.Object, error) {
	if err != nil {
		return nil, err
	}
	return out, nil
}
