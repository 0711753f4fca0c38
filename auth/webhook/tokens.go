package webhook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/webhook"
)

// tokenTimeout bounds one question about a token.
const tokenTimeout = 30 * time.Second

// Tokens asks who tokens belong to. It implements authn.Tokens.
type Tokens struct {
	server  *webhook.Server
	version string
}

// NewTokens reads the kubeconfig of the server that is asked; version is of authentication.k8s.io, v1 or v1beta1.
func NewTokens(w webhook.Ways, kubeconfig, version string) (*Tokens, error) {
	if version != "v1" && version != "v1beta1" {
		return nil, fmt.Errorf("the version %q of TokenReview: use v1 or v1beta1", version)
	}
	c, err := w.Open("the authentication webhook", kubeconfig, tokenTimeout, patience)
	return &Tokens{c, version}, err
}

// TokensOf asks an API server, by the review that all have.
func TokensOf(w webhook.Ways, cluster *rest.Config) (*Tokens, error) {
	c, err := open(w, "", "", cluster, "/apis/authentication.k8s.io/v1/tokenreviews", tokenTimeout)
	return &Tokens{c, "v1"}, err
}

// Token implements authn.Tokens.
func (t *Tokens) Token(ctx context.Context, text string, wanted []string) (*auth.User, []string, bool, error) {
	ask := &authenticationv1.TokenReview{TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/" + t.version, Kind: "TokenReview"},
		Spec: authenticationv1.TokenReviewSpec{Token: text, Audiences: wanted}}
	var got authenticationv1.TokenReview
	if err := t.server.Ask(ctx, ask, &got); err != nil {
		return nil, nil, false, err
	}
	s := got.Status
	if !s.Authenticated {
		if s.Error != "" {
			return nil, nil, false, errors.New(s.Error)
		}
		return nil, nil, false, nil
	}
	granted := wanted
	if len(s.Audiences) > 0 { // a server that tells none knows nothing of audiences
		granted = slices.DeleteFunc(slices.Clone(wanted), func(a string) bool { return !slices.Contains(s.Audiences, a) })
		if len(wanted) > 0 && len(granted) == 0 {
			return nil, nil, false, nil
		}
	}
	u := &auth.User{Name: s.User.Username, UID: s.User.UID, Groups: s.User.Groups}
	for k, v := range s.User.Extra {
		if u.Extra == nil {
			u.Extra = map[string][]string{}
		}
		u.Extra[k] = v
	}
	return u, granted, true, nil
}
