package authn

import (
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

// Impersonate returns the user that the request is to be made as: u itself, unless the headers name another
// whom u may impersonate. Every attribute needs its own permission. The headers are removed once they are
// obeyed. Errors are those of the API.
func Impersonate(ctx context.Context, u *auth.User, h http.Header, z auth.Authorizer) (*auth.User, error) {
	as, err := asked(h)
	if as == nil || err != nil {
		return u, err
	}
	for _, a := range needs(u, as) {
		d, reason, err := z.Authorize(ctx, &a)
		if d == auth.Allow {
			continue
		}
		if err != nil && reason == "" {
			reason = err.Error()
		}
		return nil, auth.Forbidden(&a, reason)
	}
	for key := range h {
		if strings.HasPrefix(key, "Impersonate-") {
			delete(h, key)
		}
	}
	return settle(as), nil
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

// needs lists the permissions that u must have.
func needs(u, as *auth.User) (list []auth.Attributes) {
	add := func(group, kind, sub, ns, name string) {
		version := ""
		if group == "" || group == "authentication.k8s.io" {
			version = "v1"
		}
		list = append(list, auth.Attributes{User: u, Verb: "impersonate", Group: group, Version: version,
			Resource: kind, Subresource: sub, Namespace: ns, Name: name})
	}
	if ns, name, ok := auth.SplitServiceAccount(as.Name); ok {
		add("", "serviceaccounts", "", ns, name)
	} else {
		add("", "users", "", "", as.Name)
	}
	for _, g := range as.Groups {
		add("", "groups", "", "", g)
	}
	for key, values := range as.Extra {
		for _, v := range values {
			add("authentication.k8s.io", "userextras", key, "", v)
		}
	}
	if as.UID != "" {
		add("authentication.k8s.io", "uids", "", "", as.UID)
	}
	return list
}

// settle adds the groups that the user would be in if it came by itself.
func settle(as *auth.User) *auth.User {
	if ns, _, ok := auth.SplitServiceAccount(as.Name); ok && len(as.Groups) == 0 {
		as.Groups = auth.ServiceAccountGroups(ns)
	}
	if as.Name == auth.Anonymous {
		if !as.In(auth.GroupUnauthed) {
			as.Groups = append(as.Groups, auth.GroupUnauthed)
		}
		return as
	}
	return Authenticated(as)
}
