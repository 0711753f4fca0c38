package authn

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kloop-dev/kloop/auth"
)

const (
	asUser  = "Impersonate-User"
	asUID   = "Impersonate-Uid"
	asGroup = "Impersonate-Group"
	asExtra = "Impersonate-Extra-"
)

// Impersonate returns the user that the request, which is made by a.User, is to be made as: that user itself, unless the
// headers name another whom it may impersonate. The ways of KEP-5284 are tried first: they need a permission for what is
// to be done as that user beside one for each attribute of the user, and constraint is then the verb of the latter. The
// plain way, for which every attribute needs a permission, is tried last. The headers are removed once they are obeyed.
// Errors are those of the API.
func Impersonate(ctx context.Context, a *auth.Attributes, h http.Header, z auth.Authorizer) (u *auth.User, constraint string, err error) {
	as, err := asked(h)
	if as == nil || err != nil {
		return a.User, "", err
	}
	var first error
	for _, w := range ways() {
		if !w.fits(a.User, as) {
			continue
		}
		if err := w.allowed(ctx, a, as, z); err != nil {
			first = cmp.Or(first, err)
			continue
		}
		for key := range h {
			if strings.HasPrefix(key, "Impersonate-") {
				delete(h, key)
			}
		}
		return w.settle(as), w.constraint(), nil
	}
	return nil, "", first
}

// asked reads the headers; nil when there are none.
func asked(h http.Header) (*auth.User, error) {
	as := &auth.User{Name: h.Get(asUser), UID: h.Get(asUID), Groups: slices.Clone(h.Values(asGroup))}
	for key, values := range h {
		if name, ok := strings.CutPrefix(key, asExtra); ok {
			if as.Extra == nil {
				as.Extra = map[string][]string{}
			}
			name = unescape(name)
			as.Extra[name] = append(as.Extra[name], values...)
		}
	}
	if as.Name != "" {
		return as, nil
	}
	if as.UID != "" || len(as.Groups) > 0 || len(as.Extra) > 0 {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("requested uid %q, groups %q, extra %q without impersonating a user",
			as.UID, as.Groups, as.Extra))
	}
	return nil, nil
}

// settle adds the groups that the user would be in if it came by itself.
func (w way) settle(as *auth.User) *auth.User {
	if ns, _, ok := auth.SplitServiceAccount(as.Name); ok && len(as.Groups) == 0 {
		as.Groups = auth.ServiceAccountGroups(ns)
	}
	if _, ok := nodeName(as.Name); ok && w.mode != "" {
		as.Groups = []string{auth.GroupNodes}
	}
	if as.Name == auth.Anonymous {
		if !as.In(auth.GroupUnauthed) {
			as.Groups = append(as.Groups, auth.GroupUnauthed)
		}
		return as
	}
	return Authenticated(as)
}
