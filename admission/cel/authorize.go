package cel

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/auth"
)

// maxChecks bounds how many answers one request remembers.
const maxChecks = 1024

// checks asks our authorizer for what expressions ask the library's. Each question is asked once in a request.
type checks struct {
	ctx   context.Context
	ask   auth.Authorizer
	user  *auth.User
	known map[string]answer
}

type answer struct {
	decision authorizer.Decision
	reason   string
	err      error
}

// Authorize implements the library's authorizer.
func (c *checks) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	q := &auth.Attributes{User: c.user, Verb: a.GetVerb(), Group: a.GetAPIGroup(), Version: a.GetAPIVersion(), Resource: a.GetResource(),
		Subresource: a.GetSubresource(), Namespace: a.GetNamespace(), Name: a.GetName(), Path: a.GetPath()}
	if u := a.GetUser(); u != nil && (c.user == nil || u.GetName() != c.user.Name) { // expressions may ask for a service account
		q.User = &auth.User{Name: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: u.GetExtra()}
	}
	if list, err := a.GetLabelSelector(); err == nil && len(list) > 0 {
		q.LabelSelector = labels.NewSelector().Add(list...).String()
	}
	if list, err := a.GetFieldSelector(); err == nil && len(list) > 0 {
		for i, one := range list {
			if i > 0 {
				q.FieldSelector += ","
			}
			q.FieldSelector += one.Field + string(one.Operator) + one.Value
		}
	}
	key := strings.Join([]string{nameOf(q.User), q.Verb, q.Group, q.Resource, q.Subresource, q.Namespace, q.Name, q.Path,
		q.LabelSelector, q.FieldSelector}, "\x00")
	if known, ok := c.known[key]; ok {
		return known.decision, known.reason, known.err
	}
	d, reason, err := c.ask.Authorize(c.ctx, q)
	found := answer{authorizer.DecisionNoOpinion, reason, err}
	switch d {
	case auth.Allow:
		found.decision = authorizer.DecisionAllow
	case auth.Deny:
		found.decision = authorizer.DecisionDeny
	}
	if c.known == nil {
		c.known = map[string]answer{}
	}
	if len(c.known) < maxChecks {
		c.known[key] = found
	}
	return found.decision, found.reason, found.err
}

func nameOf(u *auth.User) string {
	if u == nil {
		return ""
	}
	return u.Name
}

// caller is our user as the library's.
type caller struct{ u *auth.User }

var _ user.Info = caller{}

// GetName implements user.Info.
func (c caller) GetName() string { return nameOf(c.u) }

// GetUID implements user.Info.
func (c caller) GetUID() string {
	if c.u == nil {
		return ""
	}
	return c.u.UID
}

// GetGroups implements user.Info.
func (c caller) GetGroups() []string {
	if c.u == nil {
		return nil
	}
	return c.u.Groups
}

// GetExtra implements user.Info.
func (c caller) GetExtra() map[string][]string {
	if c.u == nil {
		return nil
	}
	return c.u.Extra
}

// asked is the request as the library's question for its own resource.
type asked struct{ r *admission.Request }

// GetName implements library.Resource.
func (a asked) GetName() string { return a.r.Name }

// GetNamespace implements library.Resource.
func (a asked) GetNamespace() string { return a.r.Namespace }

// GetResource implements library.Resource.
func (a asked) GetResource() schema.GroupVersionResource { return a.r.Resource() }

// GetSubresource implements library.Resource.
func (a asked) GetSubresource() string { return a.r.Sub }
