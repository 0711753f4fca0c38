package auth

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Forbidden is the error that refuses a request for want of permission; reason is the authorizers' and may
// be empty.
func Forbidden(a *Attributes, reason string) error {
	gr := schema.GroupResource{Group: a.Group, Resource: a.Resource}
	if a.Resource == "" {
		return apierrors.NewForbidden(schema.GroupResource{}, "", errors.New(refusal(a, reason)))
	}
	return apierrors.NewForbidden(gr, a.Name, errors.New(refusal(a, reason)))
}

func refusal(a *Attributes, reason string) string {
	who := ""
	if a.User != nil {
		who = a.User.Name
	}
	var text string
	switch {
	case a.Resource == "":
		text = fmt.Sprintf("User %q cannot %s path %q", who, a.Verb, a.Path)
	default:
		what := a.Resource
		if a.Subresource != "" {
			what += "/" + a.Subresource
		}
		where := "at the cluster scope"
		if a.Namespace != "" {
			where = fmt.Sprintf("in the namespace %q", a.Namespace)
		}
		text = fmt.Sprintf("User %q cannot %s resource %q in API group %q %s", who, a.Verb, what, a.Group, where)
	}
	if reason != "" {
		text += ": " + reason
	}
	return text
}

// In tells whether the user is a member of the group. A nil user is in none.
func (u *User) In(group string) bool { return u != nil && slices.Contains(u.Groups, group) }

// The prefix of the user names of service accounts.
const serviceAccountPrefix = "system:serviceaccount:"

// ServiceAccountName is the user name of a service account.
func ServiceAccountName(namespace, name string) string {
	return serviceAccountPrefix + namespace + ":" + name
}

// SplitServiceAccount takes the user name of a service account apart.
func SplitServiceAccount(user string) (namespace, name string, ok bool) {
	rest, ok := strings.CutPrefix(user, serviceAccountPrefix)
	if !ok {
		return "", "", false
	}
	namespace, name, ok = strings.Cut(rest, ":")
	return namespace, name, ok && namespace != "" && name != "" && !strings.Contains(name, ":")
}

// ServiceAccountGroups lists the groups that every service account of a namespace is in.
func ServiceAccountGroups(namespace string) []string {
	return []string{GroupServiceAccount, GroupServiceAccount + ":" + namespace}
}

// NodeName returns the node that the user is the agent of; ok is false for all other users.
func (u *User) NodeName() (node string, ok bool) {
	if u == nil {
		return "", false
	}
	node, ok = strings.CutPrefix(u.Name, "system:node:")
	return node, ok && node != "" && u.In(GroupNodes)
}
