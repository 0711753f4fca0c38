package httpapi

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kloop-dev/kloop/auth"
)

const extraPrefix = "Impersonate-Extra-"

// impersonate replaces the user by the one that the Impersonate headers name, if the caller may act as every
// part of it. The headers are removed, so that nothing behind takes them for its own.
func (s *surface) impersonate(w http.ResponseWriter, r *http.Request, user *auth.User) (*auth.User, bool) {
	as, asked := wanted(r.Header)
	if !asked {
		return user, true
	}
	if as.Name == "" {
		s.fail(w, r, apierrors.NewBadRequest("requested impersonation of groups, uid or extra without impersonating a user"))
		return nil, false
	}
	for _, a := range impersonations(user, as) {
		d, reason, _ := s.cfg.Authz.Authorize(r.Context(), a)
		if d != auth.Allow {
			s.fail(w, r, forbidden(a, reason))
			return nil, false
		}
	}
	for name := range r.Header {
		if strings.HasPrefix(name, "Impersonate-") {
			r.Header.Del(name)
		}
	}
	return complete(as), true
}

// wanted reads the headers; asked is false when there are none.
func wanted(h http.Header) (as *auth.User, asked bool) {
	as = &auth.User{Name: h.Get("Impersonate-User"), UID: h.Get("Impersonate-Uid"), Groups: h.Values("Impersonate-Group")}
	for name, values := range h {
		if key, ok := strings.CutPrefix(name, extraPrefix); ok {
			if plain, err := url.PathUnescape(strings.ToLower(key)); err == nil {
				key = plain
			}
			if as.Extra == nil {
				as.Extra = map[string][]string{}
			}
			as.Extra[key] = append(as.Extra[key], values...)
		}
	}
	return as, as.Name != "" || as.UID != "" || len(as.Groups) > 0 || as.Extra != nil
}

// impersonations are the permissions needed to act as the user.
func impersonations(by, as *auth.User) (list []*auth.Attributes) {
	need := func(group, res, sub, ns, name string) {
		version := ""
		if group != "" {
			version = "v1"
		}
		list = append(list, &auth.Attributes{User: by, Verb: "impersonate", Group: group, Version: version,
			Resource: res, Subresource: sub, Namespace: ns, Name: name})
	}
	if ns, name, ok := serviceAccount(as.Name); ok {
		need("", "serviceaccounts", "", ns, name)
	} else {
		need("", "users", "", "", as.Name)
	}
	for _, g := range as.Groups {
		need("", "groups", "", "", g)
	}
	for key, values := range as.Extra {
		for _, v := range values {
			need("authentication.k8s.io", "userextras", key, "", v)
		}
	}
	if as.UID != "" {
		need("authentication.k8s.io", "uids", "", "", as.UID)
	}
	return list
}

// complete adds the groups that everybody of the user's sort belongs to.
func complete(as *auth.User) *auth.User {
	add := func(g string) {
		if !slices.Contains(as.Groups, g) {
			as.Groups = append(as.Groups, g)
		}
	}
	as.Groups = slices.Clone(as.Groups)
	if ns, _, ok := serviceAccount(as.Name); ok && len(as.Groups) == 0 {
		add(auth.GroupServiceAccount)
		add(auth.GroupServiceAccount + ":" + ns)
	}
	if as.Name == auth.Anonymous {
		add(auth.GroupUnauthed)
	} else if !slices.Contains(as.Groups, auth.GroupUnauthed) {
		add(auth.GroupAuthenticated)
	}
	return as
}

func serviceAccount(user string) (ns, name string, ok bool) {
	rest, ok := strings.CutPrefix(user, "system:serviceaccount:")
	if !ok {
		return "", "", false
	}
	ns, name, ok = strings.Cut(rest, ":")
	return ns, name, ok && ns != "" && name != ""
}
