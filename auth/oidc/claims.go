package oidc

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	authcel "k8s.io/apiserver/pkg/authentication/cel"

	"github.com/kloop-dev/kloop/auth"
)

// A mapping makes users of claims.
type mapping struct {
	spec     *apiserverv1.JWTAuthenticator
	username authcel.ClaimsMapper // nil: a claim
	groups   authcel.ClaimsMapper
	uid      authcel.ClaimsMapper
	extra    authcel.ClaimsMapper // as many results as the spec has mappings
	claims   authcel.ClaimsMapper // of the rules with expressions; nil: none
	users    authcel.UserMapper
}

func (m *mapping) user(ctx context.Context, c jwt.MapClaims) (*auth.User, error) {
	vals := types.NewStringInterfaceMap(types.DefaultTypeAdapter, c)
	if err := m.checkClaims(ctx, c, vals); err != nil {
		return nil, err
	}
	u := &auth.User{}
	var err error
	if u.Name, err = m.name(ctx, c, vals); err != nil {
		return nil, err
	}
	if u.Groups, err = m.groupsOf(ctx, c, vals); err != nil {
		return nil, err
	}
	if u.UID, err = m.uidOf(ctx, c, vals); err != nil {
		return nil, err
	}
	if u.Extra, err = m.extraOf(ctx, vals); err != nil {
		return nil, err
	}
	return u, m.checkUser(ctx, u)
}

func (m *mapping) checkClaims(ctx context.Context, c jwt.MapClaims, vals traits.Mapper) error {
	for _, r := range m.spec.ClaimValidationRules {
		if r.Claim == "" {
			continue
		}
		switch have, ok := c[r.Claim].(string); {
		case c[r.Claim] == nil:
			return fmt.Errorf("required claim %s not present in ID token", r.Claim)
		case !ok:
			return fmt.Errorf("parse claim %s: it is no string", r.Claim)
		case have != r.RequiredValue:
			return fmt.Errorf("required claim %s value does not match", r.Claim)
		}
	}
	if m.claims == nil {
		return nil
	}
	results, err := m.claims.EvalClaimMappings(ctx, vals)
	if err != nil {
		return fmt.Errorf("evaluate the claim validation rules: %w", err)
	}
	return checked(results)
}

// checked fails with the message of the first rule that does not hold.
func checked(results []authcel.EvaluationResult) error {
	for _, r := range results {
		if r.EvalResult.Value() == true {
			continue
		}
		text := ""
		switch a := r.ExpressionAccessor.(type) {
		case *authcel.ClaimValidationCondition:
			text = a.Message
		case *authcel.UserValidationCondition:
			text = a.Message
		}
		if text == "" {
			text = "expression '" + r.ExpressionAccessor.GetExpression() + "' is not true"
		}
		return fmt.Errorf("validation failed: %s", text)
	}
	return nil
}

func (m *mapping) name(ctx context.Context, c jwt.MapClaims, vals traits.Mapper) (string, error) {
	if m.username != nil {
		text, err := evalText(ctx, m.username, vals, "username")
		if err == nil && text == "" {
			err = errors.New("the username is empty")
		}
		return text, err
	}
	claim := m.spec.ClaimMappings.Username.Claim
	text, ok := c[claim].(string)
	if !ok {
		return "", fmt.Errorf("parse username claim %q: it is missing or no string", claim)
	}
	if verified, said := c["email_verified"]; claim == "email" && said && verified != true {
		return "", errors.New("email not verified")
	}
	if prefix := m.spec.ClaimMappings.Username.Prefix; prefix != nil {
		text = *prefix + text
	}
	return text, nil
}

func (m *mapping) groupsOf(ctx context.Context, c jwt.MapClaims, vals traits.Mapper) ([]string, error) {
	if m.groups != nil {
		r, err := m.groups.EvalClaimMapping(ctx, vals)
		if err != nil {
			return nil, fmt.Errorf("evaluate the groups expression: %w", err)
		}
		return texts(r.EvalResult, "groups")
	}
	spec := m.spec.ClaimMappings.Groups
	raw, ok := c[spec.Claim]
	if spec.Claim == "" || !ok {
		return nil, nil
	}
	var list []string
	switch v := raw.(type) {
	case string:
		list = []string{v}
	case []any:
		for _, e := range v {
			s, ok := e.(string)
			if !ok {
				return nil, fmt.Errorf("parse groups claim %q: it holds what is no string", spec.Claim)
			}
			list = append(list, s)
		}
	default:
		return nil, fmt.Errorf("parse groups claim %q: it is neither a string nor a list of strings", spec.Claim)
	}
	if spec.Prefix != nil {
		for i := range list {
			list[i] = *spec.Prefix + list[i]
		}
	}
	return list, nil
}

func (m *mapping) uidOf(ctx context.Context, c jwt.MapClaims, vals traits.Mapper) (string, error) {
	if m.uid != nil {
		return evalText(ctx, m.uid, vals, "uid")
	}
	claim := m.spec.ClaimMappings.UID.Claim
	if claim == "" {
		return "", nil
	}
	text, ok := c[claim].(string)
	if !ok {
		return "", fmt.Errorf("parse uid claim %q: it is missing or no string", claim)
	}
	return text, nil
}

func (m *mapping) extraOf(ctx context.Context, vals traits.Mapper) (map[string][]string, error) {
	if m.extra == nil {
		return nil, nil
	}
	results, err := m.extra.EvalClaimMappings(ctx, vals)
	if err != nil {
		return nil, fmt.Errorf("evaluate the extra expressions: %w", err)
	}
	extra := map[string][]string{}
	for _, r := range results {
		key := r.ExpressionAccessor.(*authcel.ExtraMappingExpression).Key
		list, err := texts(r.EvalResult, "extra "+key)
		if err != nil {
			return nil, err
		}
		if len(list) > 0 {
			extra[key] = list
		}
	}
	return extra, nil
}

// checkUser holds the user to the rules, and to what nobody from outside may be.
func (m *mapping) checkUser(ctx context.Context, u *auth.User) error {
	if m.users == nil {
		return nil
	}
	extra := map[string]any{}
	for k, v := range u.Extra {
		extra[k] = v
	}
	groups := u.Groups
	if groups == nil {
		groups = []string{}
	}
	results, err := m.users.EvalUser(ctx, types.NewStringInterfaceMap(types.DefaultTypeAdapter,
		map[string]any{"username": u.Name, "uid": u.UID, "groups": groups, "extra": extra}))
	if err != nil {
		return fmt.Errorf("evaluate the user validation rules: %w", err)
	}
	return checked(results)
}

func evalText(ctx context.Context, m authcel.ClaimsMapper, vals traits.Mapper, what string) (string, error) {
	r, err := m.EvalClaimMapping(ctx, vals)
	if err != nil {
		return "", fmt.Errorf("evaluate the %s expression: %w", what, err)
	}
	text, ok := r.EvalResult.Value().(string)
	if !ok {
		return "", fmt.Errorf("the %s expression must give a string", what)
	}
	return text, nil
}

// texts reads a string, a list of strings, or nothing at all. Empty strings do not count.
func texts(v ref.Val, what string) (list []string, err error) {
	switch t := v.(type) {
	case types.Null:
		return nil, nil
	case types.String:
		list = []string{string(t)}
	case traits.Lister:
		for it := t.Iterator(); it.HasNext() == types.True; {
			s, ok := it.Next().Value().(string)
			if !ok {
				return nil, fmt.Errorf("the %s expression must give strings", what)
			}
			list = append(list, s)
		}
	default:
		return nil, fmt.Errorf("the %s expression must give a string or a list of strings", what)
	}
	out := list[:0]
	for _, s := range list {
		if strings.TrimSpace(s) != "" {
			out = append(out, s)
		}
	}
	return out, nil
}
