// Package access has what identities and rights need of the front door: tokens of service accounts (TokenRequest), reviews, the
// escalation check of roles and bindings, and the right to sign certificates of pods.
package access

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
)

// Config says who knows about identities and rights.
type Config struct {
	// Tokens issues tokens of service accounts, Reviews answers TokenReview and the access reviews; without
	// them these calls fail with 503.
	Tokens  Tokens
	Reviews Reviews
	// Grants refuses roles and bindings that would give more than their writer holds; nil refuses none.
	Grants Grants
}

// Grants guards the writes of roles and bindings; auth/rbac has one.
type Grants interface {
	// CheckWrite judges a write; old is nil for a create. name is that of the URL. all is asked for the verbs escalate and bind.
	CheckWrite(ctx context.Context, all auth.Authorizer, u *auth.User, name string, obj, old resource.Object) error
}

// Extensions are for service accounts, reviews, roles and bindings, and requests for certificates of pods.
func Extensions(s *server.Server, c Config) []server.Extension {
	x := extension{s, c}
	list := []server.Extension{
		{Resource: schema.GroupResource{Resource: "serviceaccounts"}, Calls: map[string]server.Call{"token": x.token}},
		{Resource: schema.GroupResource{Group: "certificates.k8s.io", Resource: "podcertificaterequests"}, Validate: x.signs},
	}
	for _, gr := range reviews {
		list = append(list, server.Extension{Resource: gr, Calls: map[string]server.Call{"": x.review}})
	}
	if c.Grants == nil {
		return list
	}
	for _, plural := range []string{"roles", "clusterroles", "rolebindings", "clusterrolebindings"} {
		list = append(list, server.Extension{Resource: schema.GroupResource{Group: "rbac.authorization.k8s.io", Resource: plural},
			Admit: x.grants})
	}
	return list
}

// reviews are the virtual kinds that ask who somebody is or what they may do.
var reviews = []schema.GroupResource{{Group: "authentication.k8s.io", Resource: "tokenreviews"},
	{Group: "authentication.k8s.io", Resource: "selfsubjectreviews"}, {Group: "authorization.k8s.io", Resource: "subjectaccessreviews"},
	{Group: "authorization.k8s.io", Resource: "localsubjectaccessreviews"}, {Group: "authorization.k8s.io",
		Resource: "selfsubjectaccessreviews"},
	{Group: "authorization.k8s.io", Resource: "selfsubjectrulesreviews"}}

type extension struct {
	*server.Server
	cfg Config
}

// grants refuses to give more than the writer holds.
func (s extension) grants(ctx context.Context, r *server.Request, obj, old resource.Object) error {
	return s.cfg.Grants.CheckWrite(ctx, s.Authorize, r.User, r.Name, obj, old)
}
