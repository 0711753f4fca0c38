package serve

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
)

// access asks the API server who callers with tokens are, and what callers that it does not know by name may do. It
// remembers answers for a while, as the kubelet does.
type access struct {
	client client.Client
	node   string

	mu    sync.Mutex
	known map[[sha256.Size]byte]verdict
}

// A verdict is a remembered answer: a user, or whether something is allowed.
type verdict struct {
	user  *authenticationv1.UserInfo
	ok    bool
	until time.Time
}

// How long answers are remembered, and how many.
const (
	rememberUser = 2 * time.Minute
	rememberYes  = 5 * time.Minute
	rememberNo   = 30 * time.Second
	mostVerdicts = 512
)

func (x *access) recall(key string) (v verdict, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	v, ok = x.known[sha256.Sum256([]byte(key))]
	return v, ok && time.Now().Before(v.until)
}

func (x *access) remember(key string, v verdict) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.known) >= mostVerdicts {
		clear(x.known) // they are asked again: dear, but rare
	}
	x.known[sha256.Sum256([]byte(key))] = v
}

// user owns the token; nil: nobody.
func (x *access) user(ctx context.Context, token string) (*authenticationv1.UserInfo, error) {
	if v, ok := x.recall("token " + token); ok {
		return v.user, nil
	}
	out, err := x.client.Create(ctx, kinds.TokenReviews, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}})
	if err != nil {
		return nil, fmt.Errorf("review the caller's token: %w", err)
	}
	tr, ok := out.(*authenticationv1.TokenReview)
	if !ok {
		return nil, fmt.Errorf("review the caller's token: the answer is a %T", out)
	}
	v := verdict{until: time.Now().Add(rememberUser)}
	if tr.Status.Authenticated {
		v.user = &tr.Status.User
	}
	x.remember("token "+token, v)
	return v.user, nil
}

// allowed says whether the user may make the request.
func (x *access) allowed(ctx context.Context, u *authenticationv1.UserInfo, r *http.Request) (bool, error) {
	for _, sub := range subresources(r.URL.Path) {
		ok, err := x.ask(ctx, u, verb(r.Method), sub)
		if ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

func (x *access) ask(ctx context.Context, u *authenticationv1.UserInfo, verb, sub string) (bool, error) {
	key := fmt.Sprintf("may %q %q %q %s %s", u.Username, u.UID, u.Groups, verb, sub)
	if v, ok := x.recall(key); ok && len(u.Extra) == 0 {
		return v.ok, nil
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: u.Username, UID: u.UID,
		Groups:             u.Groups,
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Version: "v1", Resource: "nodes", Subresource: sub, Name: x.node}}}
	for k, list := range u.Extra {
		if review.Spec.Extra == nil {
			review.Spec.Extra = map[string]authorizationv1.ExtraValue{}
		}
		review.Spec.Extra[k] = authorizationv1.ExtraValue(list)
	}
	out, err := x.client.Create(ctx, kinds.SubjectAccessReviews, review)
	if err != nil {
		return false, fmt.Errorf("review the caller's access: %w", err)
	}
	answer, ok := out.(*authorizationv1.SubjectAccessReview)
	if !ok {
		return false, fmt.Errorf("review the caller's access: the answer is a %T", out)
	}
	v := verdict{ok: answer.Status.Allowed && !answer.Status.Denied, until: time.Now().Add(rememberNo)}
	if v.ok {
		v.until = time.Now().Add(rememberYes)
	}
	if len(u.Extra) == 0 {
		x.remember(key, v)
	}
	return v.ok, nil
}

// verb is the request's verb in the words of the API.
func verb(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead:
		return "get"
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		return "delete"
	}
	return strings.ToLower(method)
}

// subresources are the subresources of nodes that stand for a path; the right to any of them is enough.
func subresources(path string) []string {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch first {
	case "stats", "metrics", "checkpoint":
		return []string{first}
	case "logs":
		return []string{"log"}
	case "pods", "healthz", "configz":
		return []string{first, "proxy"}
	}
	return []string{"proxy"}
}

var errNobody = errors.New("no credentials that are known")

// bearer is the token that the caller sends.
func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}
