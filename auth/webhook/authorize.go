// Package webhook asks another server who a token belongs to and what may be done, by TokenReview and
// SubjectAccessReview, as upstream's webhook modes.
//
//	tokens.go     who
//	authorize.go  what
package webhook

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	authzcel "k8s.io/apiserver/pkg/authorization/cel"
	"k8s.io/client-go/rest"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/kinds/expression"
	"github.com/kloop-dev/kloop/webhook"
)

// maxDecisions bounds the number of remembered decisions.
const maxDecisions = 8192

// patience is the number of tries with a server that can't answer, as upstream's.
var patience = webhook.Retries{Tries: 5, Pause: 500 * time.Millisecond}

// Config says whom an Authorizer asks, and when.
type Config struct {
	Name          string       // in messages
	Ways          webhook.Ways // to the server
	Kubeconfig    string       // "": the service account of the pod that this process runs in
	Cluster       *rest.Config // in place of Kubeconfig: an API server, which is asked at the path that all have for it
	Version       string       // of authorization.k8s.io, v1 or v1beta1
	Timeout       time.Duration
	AllowedTTL    time.Duration // how long decisions are remembered; 0: not at all
	RefusedTTL    time.Duration
	DenyOnFailure bool     // refuse what the server can't be asked about; else it has no opinion
	Conditions    []string // CEL expressions that all must hold for the server to be asked
	Now           func() time.Time
}

// An Authorizer asks another server. It implements auth.Authorizer.
type Authorizer struct {
	cfg    Config
	server *webhook.Server
	match  *authzcel.CELMatcher // nil: always

	mu   sync.Mutex
	seen map[[sha256.Size]byte]decision
}

// reviewPath is the path of every API server for such reviews.
const reviewPath = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

type decision struct {
	d      auth.Decision
	reason string
	until  time.Time
}

func open(w webhook.Ways, what, kubeconfig string, of *rest.Config, path string, timeout time.Duration) (*webhook.Server, error) {
	if of != nil {
		return w.To("the cluster", of, path, timeout, patience)
	}
	return w.Open(what, kubeconfig, timeout, patience)
}

// NewAuthorizer reads the kubeconfig and compiles the conditions.
func NewAuthorizer(c Config) (*Authorizer, error) {
	if c.Version != "v1" && c.Version != "v1beta1" {
		return nil, fmt.Errorf("the version %q of SubjectAccessReview: use v1 or v1beta1", c.Version)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	server, err := open(c.Ways, "the authorization webhook", c.Kubeconfig, c.Cluster, reviewPath, c.Timeout)
	if err != nil {
		return nil, err
	}
	a := &Authorizer{cfg: c, server: server, seen: map[[sha256.Size]byte]decision{}}
	if len(c.Conditions) > 0 {
		a.match, err = compile(c.Conditions)
	}
	return a, err
}

func compile(conditions []string) (*authzcel.CELMatcher, error) {
	expression.Bound()
	compiler := authzcel.NewDefaultCompiler()
	m := &authzcel.CELMatcher{}
	for i, text := range conditions {
		r, err := compiler.CompileCELExpression(&authzcel.SubjectAccessReviewMatchCondition{Expression: text})
		if err != nil {
			return nil, fmt.Errorf("matchConditions[%d]: %w", i, err)
		}
		m.CompilationResults = append(m.CompilationResults, r)
		m.UsesFieldSelector = m.UsesFieldSelector || r.UsesFieldSelector
		m.UsesLabelSelector = m.UsesLabelSelector || r.UsesLabelSelector
	}
	return m, nil
}

// Authorize implements auth.Authorizer.
func (a *Authorizer) Authorize(ctx context.Context, at *auth.Attributes) (auth.Decision, string, error) {
	ask := a.review(at)
	if a.match != nil {
		ok, err := a.match.Eval(ctx, ask)
		if err != nil {
			return a.failed(err)
		}
		if !ok {
			return auth.NoOpinion, "", nil
		}
	}
	body, err := json.Marshal(ask.Spec)
	if err != nil {
		return a.failed(err)
	}
	key := sha256.Sum256(body)
	if d, ok := a.known(key); ok {
		return d.d, d.reason, nil
	}
	var got authorizationv1.SubjectAccessReview
	if err := a.server.Ask(ctx, a.spoken(ask), &got); err != nil {
		slog.Warn("ask the authorization webhook", "webhook", a.cfg.Name, "err", err)
		return a.failed(err)
	}
	d := decision{reason: got.Status.Reason}
	switch s := got.Status; {
	case s.Denied && s.Allowed:
		return a.failed(errors.New("the webhook's answer both allows and denies"))
	case s.Denied:
		d.d = auth.Deny
	case s.Allowed:
		d.d = auth.Allow
	}
	a.remember(key, d)
	return d.d, d.reason, nil
}

func (a *Authorizer) failed(err error) (auth.Decision, string, error) {
	if a.cfg.DenyOnFailure {
		return auth.Deny, "", fmt.Errorf("authorization webhook %s: %w", a.cfg.Name, err)
	}
	return auth.NoOpinion, "", fmt.Errorf("authorization webhook %s: %w", a.cfg.Name, err)
}

func (a *Authorizer) known(key [sha256.Size]byte) (decision, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	d, ok := a.seen[key]
	return d, ok && a.cfg.Now().Before(d.until)
}

func (a *Authorizer) remember(key [sha256.Size]byte, d decision) {
	ttl := a.cfg.RefusedTTL
	if d.d == auth.Allow {
		ttl = a.cfg.AllowedTTL
	}
	if ttl <= 0 {
		return
	}
	d.until = a.cfg.Now().Add(ttl)
	a.mu.Lock()
	defer a.mu.Unlock()
	for old := range a.seen {
		if len(a.seen) < maxDecisions {
			break
		}
		delete(a.seen, old)
	}
	a.seen[key] = d
}

// review puts the question.
func (a *Authorizer) review(at *auth.Attributes) *authorizationv1.SubjectAccessReview {
	r := &authorizationv1.SubjectAccessReview{TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"}}
	if u := at.User; u != nil {
		r.Spec.User, r.Spec.UID, r.Spec.Groups = u.Name, u.UID, u.Groups
		for k, v := range u.Extra {
			if r.Spec.Extra == nil {
				r.Spec.Extra = map[string]authorizationv1.ExtraValue{}
			}
			r.Spec.Extra[k] = v
		}
	}
	if at.OfPath() {
		r.Spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: at.Path, Verb: at.Verb}
		return r
	}
	r.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{Namespace: at.Namespace, Verb: at.Verb, Group: at.Group,
		Version:  at.Version,
		Resource: at.Resource, Subresource: at.Subresource, Name: at.Name, LabelSelector: labelsOf(at.LabelSelector),
		FieldSelector: fieldsOf(at.FieldSelector)}
	return r
}

// labelsOf takes a selector apart; one that can't be is left out, as the request fails anyway.
func labelsOf(text string) *authorizationv1.LabelSelectorAttributes {
	sel, err := labels.Parse(text)
	if text == "" || err != nil {
		return nil
	}
	out := &authorizationv1.LabelSelectorAttributes{}
	list, _ := sel.Requirements()
	ops := map[selection.Operator]metav1.LabelSelectorOperator{selection.Equals: metav1.LabelSelectorOpIn,
		selection.DoubleEquals: metav1.LabelSelectorOpIn,
		selection.In:           metav1.LabelSelectorOpIn, selection.NotEquals: metav1.LabelSelectorOpNotIn,
		selection.NotIn:  metav1.LabelSelectorOpNotIn,
		selection.Exists: metav1.LabelSelectorOpExists, selection.DoesNotExist: metav1.LabelSelectorOpDoesNotExist}
	for _, q := range list {
		if op, ok := ops[q.Operator()]; ok { // greater and less are not told
			r := metav1.LabelSelectorRequirement{Key: q.Key(), Operator: op}
			if op == metav1.LabelSelectorOpIn || op == metav1.LabelSelectorOpNotIn {
				r.Values = slices.Sorted(slices.Values(q.ValuesUnsorted()))
			}
			out.Requirements = append(out.Requirements, r)
		}
	}
	if len(out.Requirements) == 0 {
		return nil
	}
	return out
}

func fieldsOf(text string) *authorizationv1.FieldSelectorAttributes {
	sel, err := fields.ParseSelector(text)
	if text == "" || err != nil {
		return nil
	}
	out := &authorizationv1.FieldSelectorAttributes{}
	for _, q := range sel.Requirements() {
		op := metav1.FieldSelectorOpIn
		if q.Operator == selection.NotEquals {
			op = metav1.FieldSelectorOpNotIn
		}
		out.Requirements = append(out.Requirements, metav1.FieldSelectorRequirement{Key: q.Field, Operator: op, Values: []string{q.Value}})
	}
	if len(out.Requirements) == 0 {
		return nil
	}
	return out
}

// spoken is the review in the version that the server speaks. v1beta1 says group where v1 says groups.
func (a *Authorizer) spoken(r *authorizationv1.SubjectAccessReview) any {
	if a.cfg.Version == "v1" {
		return r
	}
	old := *r
	old.APIVersion = "authorization.k8s.io/v1beta1"
	old.Spec.Groups = nil
	return struct {
		metav1.TypeMeta `json:",inline"`
		Spec            struct {
			authorizationv1.SubjectAccessReviewSpec `json:",inline"`
			Group                                   []string `json:"group,omitempty"`
		} `json:"spec"`
	}{old.TypeMeta, struct {
		authorizationv1.SubjectAccessReviewSpec `json:",inline"`
		Group                                   []string `json:"group,omitempty"`
	}{old.Spec, r.Spec.Groups}}
}
