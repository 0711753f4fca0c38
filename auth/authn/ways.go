package authn

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/auth/token"
)

// A way is one mode of impersonation.
type way struct {
	mode string // "": the plain one
	// fits tells whether the mode is for such users at all.
	fits func(by, as *auth.User) bool
}

// ways are all modes in the order in which they are tried.
func ways() []way {
	return []way{
		{"associated-node", func(by, as *auth.User) bool {
			node, ok := nodeName(as.Name)
			_, _, account := auth.SplitServiceAccount(by.Name)
			at := by.Extra[token.ExtraNodeName]
			return ok && bare(as) && account && len(at) == 1 && at[0] == node
		}},
		{"arbitrary-node", func(_, as *auth.User) bool {
			_, ok := nodeName(as.Name)
			return ok && bare(as)
		}},
		{"serviceaccount", func(_, as *auth.User) bool {
			_, _, ok := auth.SplitServiceAccount(as.Name)
			return ok && bare(as)
		}},
		{"user-info", func(_, as *auth.User) bool {
			_, node := nodeName(as.Name)
			_, _, account := auth.SplitServiceAccount(as.Name)
			return !node && !account
		}},
		{"", func(_, _ *auth.User) bool { return true }},
	}
}

func bare(u *auth.User) bool { return u.UID == "" && len(u.Groups) == 0 && len(u.Extra) == 0 }

func nodeName(user string) (string, bool) {
	name, ok := strings.CutPrefix(user, "system:node:")
	return name, ok && len(validation.NameIsDNSSubdomain(name, false)) == 0
}

// constraint is the verb by which attributes of users may be taken on; "" for the plain way.
func (w way) constraint() string {
	if w.mode == "" {
		return ""
	}
	return "impersonate:" + w.mode
}

// associated hides from authorizers which node it is: the permission is for the node that the caller runs on, whichever.
func (w way) associated(a auth.Attributes) auth.Attributes {
	if w.mode != "associated-node" {
		return a
	}
	by := *a.User
	by.Extra = map[string][]string{"authentication.kubernetes.io/associated-node-keys": slices.Sorted(maps.Keys(a.User.Extra))}
	if a.User = &by; a.Verb == w.constraint() {
		a.Name = "*"
	}
	return a
}

// allowed asks for all permissions that are needed.
func (w way) allowed(ctx context.Context, a *auth.Attributes, as *auth.User, z auth.Authorizer) error {
	check := func(a auth.Attributes) error { return may(ctx, w.associated(a), z) }
	if w.mode != "" {
		on := *a
		on.Verb = "impersonate-on:" + w.mode + ":" + a.Verb
		if err := check(on); err != nil {
			return err
		}
	}
	if err := check(w.username(a.User, as.Name)); err != nil {
		return err
	}
	if as.UID != "" {
		if err := check(w.attribute(a.User, "uids", as.UID)); err != nil {
			return err
		}
	}
	if err := w.groups(a.User, as, check); err != nil {
		return err
	}
	return w.extra(a.User, as, check)
}

func may(ctx context.Context, a auth.Attributes, z auth.Authorizer) error {
	d, reason, err := z.Authorize(ctx, &a)
	if d == auth.Allow {
		return nil
	}
	if err != nil && reason == "" {
		reason = err.Error()
	}
	return auth.Forbidden(&a, reason)
}

func (w way) username(by *auth.User, name string) auth.Attributes {
	a := w.attribute(by, "users", name)
	if node, ok := nodeName(name); ok && w.mode != "" {
		a.Resource, a.Name = "nodes", node
	}
	if ns, account, ok := auth.SplitServiceAccount(name); ok {
		a.Resource, a.Namespace, a.Name = "serviceaccounts", ns, account
	}
	return a
}

// attribute is the permission to take on one attribute. The plain way knows users and groups in the core group.
func (w way) attribute(by *auth.User, resource, name string) auth.Attributes {
	a := auth.Attributes{User: by, Verb: "impersonate", Version: "v1", Resource: resource, Name: name}
	if w.mode != "" {
		a.Verb = w.constraint()
	}
	if w.mode != "" || resource == "uids" || resource == "userextras" {
		a.Group = "authentication.k8s.io"
	}
	return a
}

// many is from how many questions on the permission for all is asked for first.
const many = 4

func (w way) groups(by, as *auth.User, check func(auth.Attributes) error) error {
	a := w.attribute(by, "groups", "")
	if w.mode != "" {
		for _, g := range []string{"", auth.GroupMasters} {
			if slices.Contains(as.Groups, g) {
				a.Name = g
				return auth.Forbidden(&a, "impersonating the group \""+g+"\" is not allowed")
			}
		}
		if a.Name = "*"; len(as.Groups) >= many && check(a) == nil {
			return nil
		}
	}
	for _, g := range as.Groups {
		a.Name = g
		if err := check(a); err != nil {
			return err
		}
	}
	return nil
}

func (w way) extra(by, as *auth.User, check func(auth.Attributes) error) error {
	a := w.attribute(by, "userextras", "")
	if w.mode != "" {
		if err := saneExtra(as.Extra); err != nil {
			return auth.Forbidden(&a, err.Error())
		}
		n := 0
		for _, values := range as.Extra {
			n += len(values)
		}
		if a.Subresource, a.Name = "*", "*"; n >= many && check(a) == nil {
			return nil
		}
	}
	for _, key := range slices.Sorted(maps.Keys(as.Extra)) {
		for _, v := range as.Extra[key] {
			a.Subresource, a.Name = key, v
			if err := check(a); err != nil {
				return err
			}
		}
	}
	return nil
}

func saneExtra(extra map[string][]string) error {
	for key, values := range extra {
		switch {
		case len(utilvalidation.IsDomainPrefixedPath(field.NewPath("extra"), key)) > 0 || key != strings.ToLower(key):
			return errors.New("impersonating the key \"" + key +
				"\" in extra is not allowed: it must be a path with a domain before it, in lower case")
		case len(values) == 0 || slices.Contains(values, ""):
			return errors.New("impersonating empty values in extra is not allowed")
		}
	}
	return nil
}
