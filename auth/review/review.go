// Package review answers the kinds by which callers ask about themselves and others: TokenReview,
// SelfSubjectReview, the SubjectAccessReview family and SelfSubjectRulesReview. Nothing is stored.
package review

import (
	"context"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/auth/authn"
	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds/authorization"
	"github.com/kloop-dev/kloop/resource"
)

// A Desk answers reviews. Safe for concurrent use.
type Desk struct {
	Tokens    authn.Tokens
	Audiences []string // the API server's
	Authorize auth.Authorizer
	// Rules returns the rules that hold for a user in a namespace; see rbac.Authorizer.Rules.
	Rules func(u *auth.User, namespace string) ([]rbacv1.PolicyRule, error)
	// Features are those of the version whose rules reviews keep; nil stands for the newest.
	Features *features.Set
}

// Answer returns a review with its status filled in: a copy of what was asked, but for reviews of the caller himself, which
// repeat nothing of it, as upstream's. namespace is that of the request. ok is
// false for objects that are no reviews. Errors are those of the API.
func (d *Desk) Answer(ctx context.Context, u *auth.User, namespace string, in resource.Object) (out resource.Object, ok bool, err error) {
	switch r := in.(type) {
	case *authenticationv1.TokenReview:
		out, err = d.token(ctx, r.DeepCopy())
	case *authenticationv1.SelfSubjectReview:
		out = self(u, r.TypeMeta)
	case *authorizationv1.SubjectAccessReview:
		out, err = d.subject(ctx, r.DeepCopy())
	case *authorizationv1.LocalSubjectAccessReview:
		out, err = d.local(ctx, namespace, r.DeepCopy())
	case *authorizationv1.SelfSubjectAccessReview:
		out, err = d.selfAccess(ctx, u, r.DeepCopy())
	case *authorizationv1.SelfSubjectRulesReview:
		out, err = d.rules(u, r)
	default:
		return nil, false, nil
	}
	if err != nil {
		return nil, true, err
	}
	return out, true, nil
}

func (d *Desk) token(ctx context.Context, r *authenticationv1.TokenReview) (*authenticationv1.TokenReview, error) {
	if r.Spec.Token == "" {
		return nil, apierrors.NewBadRequest("token is required for TokenReview in authentication")
	}
	wanted := r.Spec.Audiences
	if len(wanted) == 0 {
		wanted = d.Audiences
	}
	u, granted, ok, err := d.Tokens.Token(ctx, r.Spec.Token, wanted)
	r.Status = authenticationv1.TokenReviewStatus{Authenticated: ok && err == nil}
	switch {
	case err != nil:
		r.Status.Error = "[invalid bearer token, " + err.Error() + "]"
	case ok:
		r.Status.User, r.Status.Audiences = infoOf(authn.Authenticated(u)), granted
	default:
		r.Status.Error = "invalid bearer token"
	}
	return r, nil
}

func self(u *auth.User, typ metav1.TypeMeta) *authenticationv1.SelfSubjectReview {
	return &authenticationv1.SelfSubjectReview{TypeMeta: typ, ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Now()},
		Status: authenticationv1.SelfSubjectReviewStatus{UserInfo: infoOf(u)}}
}

func infoOf(u *auth.User) authenticationv1.UserInfo {
	i := authenticationv1.UserInfo{Username: u.Name, UID: u.UID, Groups: u.Groups}
	for k, v := range u.Extra {
		if i.Extra == nil {
			i.Extra = map[string]authenticationv1.ExtraValue{}
		}
		i.Extra[k] = v
	}
	return i
}

func (d *Desk) subject(ctx context.Context, r *authorizationv1.SubjectAccessReview) (*authorizationv1.SubjectAccessReview, error) {
	if err := d.invalid(authorization.SubjectAccessReviews, r); err != nil {
		return nil, err
	}
	r.Status = d.judge(ctx, userOf(&r.Spec), r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes)
	return r, nil
}

func (d *Desk) local(ctx context.Context, ns string,
	r *authorizationv1.LocalSubjectAccessReview) (*authorizationv1.LocalSubjectAccessReview, error) {
	if err := d.invalid(authorization.LocalSubjectAccessReviews, r); err != nil {
		return nil, err
	}
	if ns != r.Namespace {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("namespace on request (%q) does not match the review's (%q)", ns, r.Namespace))
	}
	r.Status = d.judge(ctx, userOf(&r.Spec), r.Spec.ResourceAttributes, nil)
	return r, nil
}

func (d *Desk) selfAccess(ctx context.Context, u *auth.User,
	r *authorizationv1.SelfSubjectAccessReview) (*authorizationv1.SelfSubjectAccessReview, error) {
	if err := d.invalid(authorization.SelfSubjectAccessReviews, r); err != nil {
		return nil, err
	}
	r.Status = d.judge(ctx, u, r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes)
	return r, nil
}

func (d *Desk) judge(ctx context.Context, u *auth.User, res *authorizationv1.ResourceAttributes,
	non *authorizationv1.NonResourceAttributes) authorizationv1.SubjectAccessReviewStatus {
	a := &auth.Attributes{User: u}
	var doubts []string
	if res != nil {
		a.Verb, a.Group, a.Version, a.Resource = res.Verb, res.Group, res.Version, res.Resource
		a.Subresource, a.Namespace, a.Name, a.Unnamed = res.Subresource, res.Namespace, res.Name, res.Resource == ""
		var field, label string
		a.FieldSelector, field = fieldText(res.FieldSelector)
		a.LabelSelector, label = labelText(res.LabelSelector)
		for _, d := range [][2]string{{"fieldSelector", field}, {"labelSelector", label}} {
			if d[1] != "" {
				doubts = append(doubts, "spec.resourceAttributes."+d[0]+" "+d[1])
			}
		}
	} else {
		a.Verb, a.Path = non.Verb, non.Path
	}
	decision, reason, err := d.Authorize.Authorize(ctx, a)
	s := authorizationv1.SubjectAccessReviewStatus{Allowed: decision == auth.Allow, Denied: decision == auth.Deny, Reason: reason}
	if err != nil {
		doubts = append([]string{err.Error()}, doubts...)
	}
	s.EvaluationError = strings.Join(doubts, "; ")
	return s
}

func userOf(spec *authorizationv1.SubjectAccessReviewSpec) *auth.User {
	u := &auth.User{Name: spec.User, UID: spec.UID, Groups: spec.Groups}
	for k, v := range spec.Extra {
		if u.Extra == nil {
			u.Extra = map[string][]string{}
		}
		u.Extra[strings.ToLower(k)] = v
	}
	return u
}

func (d *Desk) rules(u *auth.User, asked *authorizationv1.SelfSubjectRulesReview) (*authorizationv1.SelfSubjectRulesReview, error) {
	if asked.Spec.Namespace == "" {
		return nil, apierrors.NewBadRequest("no namespace on request")
	}
	r := &authorizationv1.SelfSubjectRulesReview{TypeMeta: asked.TypeMeta}
	rules, err := d.Rules(u, asked.Spec.Namespace)
	r.Status = authorizationv1.SubjectRulesReviewStatus{ResourceRules: []authorizationv1.ResourceRule{},
		NonResourceRules: []authorizationv1.NonResourceRule{}}
	if err != nil {
		r.Status.EvaluationError = err.Error()
	}
	if _, node := u.NodeName(); node {
		r.Status.Incomplete = true
		r.Status.EvaluationError = strings.Trim(r.Status.EvaluationError+"; node authorizer does not support user rule resolution", "; ")
	}
	for _, p := range rules {
		if len(p.Resources) > 0 {
			r.Status.ResourceRules = append(r.Status.ResourceRules, authorizationv1.ResourceRule{Verbs: p.Verbs,
				APIGroups: p.APIGroups, Resources: p.Resources, ResourceNames: p.ResourceNames})
		}
		if len(p.NonResourceURLs) > 0 {
			r.Status.NonResourceRules = append(r.Status.NonResourceRules,
				authorizationv1.NonResourceRule{Verbs: p.Verbs, NonResourceURLs: p.NonResourceURLs})
		}
	}
	return r, nil
}

// invalid holds a review to the rules of its kind, none of which a feature changes. Upstream's error has no kind.
func (d *Desk) invalid(k resource.Kind, r resource.Object) error {
	errs := k.Check(d.Features, nil, "", r, nil)
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: authorizationv1.GroupName}, "", errs)
}
