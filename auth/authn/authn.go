// Package authn tells who sent a request: by client certificate, bearer token (service accounts, bootstrap
// tokens, static ones), the word of the front proxy, or nobody at all.
//
// As upstream: credentials that are given and wrong are refused (401), whatever the path; only a request
// without any is anonymous.
package authn

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/kloop-dev/kloop/auth"
)

// A Union asks authenticators in order; the first that knows the caller decides. An error is remembered and
// returned only when none of the others knows the caller.
type Union []auth.Authenticator

// Authenticate implements auth.Authenticator.
func (u Union) Authenticate(r *http.Request) (*auth.User, bool, error) {
	var errs []error
	for _, a := range u {
		user, ok, err := a.Authenticate(r)
		if ok && err == nil {
			return user, true, nil
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return nil, false, errors.Join(errs...)
}

// A Front authenticates for the server: a union whose users are all members of system:authenticated, with the
// anonymous user behind it.
type Front struct {
	Known     auth.Authenticator
	Anonymous func(path string) bool // may a request without credentials proceed as anonymous; nil: always
}

// Authenticate implements auth.Authenticator. ok false or an error mean 401: see Unauthorized.
func (f *Front) Authenticate(r *http.Request) (*auth.User, bool, error) {
	u, ok, err := f.Known.Authenticate(r)
	switch {
	case err != nil && !ok:
		return nil, false, err
	case ok:
		return Authenticated(u), true, nil
	case f.Anonymous != nil && !f.Anonymous(r.URL.Path):
		return nil, false, nil
	}
	return &auth.User{Name: auth.Anonymous, Groups: []string{auth.GroupUnauthed}}, true, nil
}

// Authenticated returns the user with the group of all who are known; u itself is not changed.
func Authenticated(u *auth.User) *auth.User {
	if u.Name == auth.Anonymous || u.In(auth.GroupAuthenticated) || u.In(auth.GroupUnauthed) {
		return u
	}
	with := *u
	with.Groups = slices.Concat(u.Groups, []string{auth.GroupAuthenticated})
	return &with
}

// A Tokens knows the senders of bearer tokens. ok is false when the token is of no kind it knows; granted are
// the audiences, of those wanted, that the token is for.
type Tokens interface {
	Token(ctx context.Context, token string, wanted []string) (u *auth.User, granted []string, ok bool, err error)
}

// TokenUnion asks in order, as Union does.
type TokenUnion []Tokens

// Token implements Tokens.
func (t TokenUnion) Token(ctx context.Context, token string, wanted []string) (*auth.User, []string, bool, error) {
	var errs []error
	for _, a := range t {
		u, granted, ok, err := a.Token(ctx, token, wanted)
		if ok && err == nil {
			return u, granted, true, nil
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return nil, nil, false, errors.Join(errs...)
}
