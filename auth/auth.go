// Package auth says who a caller is and what it may do. Its subpackages are pki (certificates), token
// (service account tokens), oidc (tokens of other issuers), authn (who sent a request), rbac (roles), node (what node
// agents may touch), webhook (asking another server either), review (the kinds that ask such questions) and bootstrap
// (the objects that the API server starts with).
package auth

import (
	"context"
	"net/http"
	"strings"
)

// The names that rules and code share.
const (
	Anonymous           = "system:anonymous"
	GroupUnauthed       = "system:unauthenticated"
	GroupAuthenticated  = "system:authenticated"
	GroupMasters        = "system:masters"
	GroupNodes          = "system:nodes"
	GroupServiceAccount = "system:serviceaccounts"
)

// A User is an authenticated caller.
type User struct {
	Name   string
	UID    string
	Groups []string
	Extra  map[string][]string

	// Joiner marks a server that has shown a join token: it gets the cluster's keys. The authenticator of these tokens alone
	// sets it. As it is no name, no impersonation, certificate, issuer or static token can stand for it.
	Joiner bool
}

// Attributes describe the request that an authorizer judges.
type Attributes struct {
	User        *User
	Verb        string // get, list, watch, create, update, patch, delete, deletecollection, bind, impersonate…
	Group       string
	Version     string
	Resource    string
	Subresource string
	Namespace   string
	Name        string
	Path        string // for requests of no resource; then Resource is empty
	Unnamed     bool   // a question about a resource that names none: Resource is empty all the same

	LabelSelector string // as sent, for list, watch and deletecollection
	FieldSelector string
}

// OfPath says that no resource is asked for, but a path.
func (a *Attributes) OfPath() bool { return a.Resource == "" && !a.Unnamed }

// Decision is an authorizer's answer.
type Decision int

// The decisions. NoOpinion lets the next authorizer speak; when none allows, the request is refused.
const (
	NoOpinion Decision = iota
	Allow
	Deny
)

// An Authorizer decides whether a request may proceed. Safe for concurrent use.
type Authorizer interface {
	Authorize(ctx context.Context, a *Attributes) (d Decision, reason string, err error)
}

// An Authenticator tells who sent a request. ok is false when the request carries nothing that it knows;
// an error means that credentials were given and are wrong. Safe for concurrent use.
type Authenticator interface {
	Authenticate(r *http.Request) (u *User, ok bool, err error)
}

// Chain asks authorizers in order until one decides.
type Chain []Authorizer

// Authorize implements Authorizer.
func (c Chain) Authorize(ctx context.Context, a *Attributes) (Decision, string, error) {
	var why []string
	var failed error
	for _, z := range c {
		d, reason, err := z.Authorize(ctx, a)
		if d != NoOpinion {
			return d, reason, err
		}
		if reason != "" {
			why = append(why, reason)
		}
		if err != nil {
			failed = err
		}
	}
	return NoOpinion, strings.Join(why, "\n"), failed
}

// Named is an authorizer with a name, which stands before why it has no opinion, as since 1.37.
type Named struct {
	Name string
	Authorizer
}

// Authorize implements Authorizer.
func (n Named) Authorize(ctx context.Context, a *Attributes) (Decision, string, error) {
	d, reason, err := n.Authorizer.Authorize(ctx, a)
	if d == NoOpinion && reason != "" {
		reason = n.Name + ": " + reason
	}
	return d, reason, err
}
