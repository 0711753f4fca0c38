package oidc

import (
	"errors"
	"fmt"
	"strings"

	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	authcel "k8s.io/apiserver/pkg/authentication/cel"
)

// newMapping checks and compiles what a configuration says of claims.
func newMapping(spec *apiserverv1.JWTAuthenticator, compiler authcel.Compiler) (*mapping, error) {
	m := &mapping{spec: spec}
	c := spec.ClaimMappings
	var err error
	if c.Username.Claim == "" && c.Username.Expression == "" {
		return nil, errors.New("claimMappings.username: claim or expression is needed")
	}
	for _, f := range []struct {
		name, claim, expression string
		prefix                  *string
		prefixed                bool
		into                    *authcel.ClaimsMapper
	}{
		{"username", c.Username.Claim, c.Username.Expression, c.Username.Prefix, true, &m.username},
		{"groups", c.Groups.Claim, c.Groups.Expression, c.Groups.Prefix, true, &m.groups},
		{"uid", c.UID.Claim, c.UID.Expression, nil, false, &m.uid},
	} {
		at := "claimMappings." + f.name
		switch {
		case f.claim != "" && f.expression != "":
			return nil, fmt.Errorf("%s: give claim or expression, not both", at)
		case f.prefixed && f.claim != "" && f.prefix == nil:
			return nil, fmt.Errorf("%s.prefix: is needed with a claim; it may be empty", at)
		case f.claim == "" && f.prefix != nil:
			return nil, fmt.Errorf("%s.prefix: is for claims only", at)
		case f.expression == "":
			continue
		}
		if *f.into, err = claimsMapper(compiler, at+".expression", &authcel.ClaimMappingExpression{Expression: f.expression}); err != nil {
			return nil, err
		}
	}
	if err := m.compileExtra(compiler); err != nil {
		return nil, err
	}
	if err := m.compileRules(compiler); err != nil {
		return nil, err
	}
	return m, m.checkEmail()
}

func claimsMapper(compiler authcel.Compiler, at string, list ...authcel.ExpressionAccessor) (authcel.ClaimsMapper, error) {
	var all []authcel.CompilationResult
	for _, e := range list {
		r, err := compiler.CompileClaimsExpression(e)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", at, err)
		}
		all = append(all, r)
	}
	return authcel.NewClaimsMapper(all), nil
}

func (m *mapping) compileExtra(compiler authcel.Compiler) (err error) {
	var list []authcel.ExpressionAccessor
	seen := map[string]bool{}
	for i, e := range m.spec.ClaimMappings.Extra {
		at := fmt.Sprintf("claimMappings.extra[%d]", i)
		domain, path, ok := strings.Cut(e.Key, "/")
		switch {
		case !ok || domain == "" || path == "" || strings.ToLower(e.Key) != e.Key:
			return fmt.Errorf("%s.key: %q must be a path with a domain before it, in lower case", at, e.Key)
		case reserved(domain):
			return fmt.Errorf("%s.key: %q: k8s.io and kubernetes.io are reserved", at, e.Key)
		case seen[e.Key]:
			return fmt.Errorf("%s.key: %q is named twice", at, e.Key)
		case e.ValueExpression == "":
			return fmt.Errorf("%s.valueExpression: is needed", at)
		}
		seen[e.Key] = true
		list = append(list, &authcel.ExtraMappingExpression{Key: e.Key, Expression: e.ValueExpression})
	}
	if len(list) > 0 {
		m.extra, err = claimsMapper(compiler, "claimMappings.extra", list...)
	}
	return err
}

func reserved(domain string) bool {
	for _, d := range []string{"k8s.io", "kubernetes.io"} {
		if domain == d || strings.HasSuffix(domain, "."+d) {
			return true
		}
	}
	return false
}

func (m *mapping) compileRules(compiler authcel.Compiler) (err error) {
	var list []authcel.ExpressionAccessor
	seen := map[string]bool{}
	for i, r := range m.spec.ClaimValidationRules {
		at := fmt.Sprintf("claimValidationRules[%d]", i)
		switch {
		case (r.Claim == "") == (r.Expression == ""):
			return fmt.Errorf("%s: give claim or expression", at)
		case r.Claim != "" && r.Message != "":
			return fmt.Errorf("%s.message: is for expressions only", at)
		case r.Expression != "" && r.RequiredValue != "":
			return fmt.Errorf("%s.requiredValue: is for claims only", at)
		case seen[r.Claim+"\x00"+r.Expression]:
			return fmt.Errorf("%s: is there twice", at)
		}
		if seen[r.Claim+"\x00"+r.Expression] = true; r.Expression != "" {
			list = append(list, &authcel.ClaimValidationCondition{Expression: r.Expression, Message: r.Message})
		}
	}
	if len(list) > 0 {
		if m.claims, err = claimsMapper(compiler, "claimValidationRules", list...); err != nil {
			return err
		}
	}
	var users []authcel.CompilationResult
	for i, r := range m.spec.UserValidationRules {
		c, err := compiler.CompileUserExpression(&authcel.UserValidationCondition{Expression: r.Expression, Message: r.Message})
		if err != nil {
			return fmt.Errorf("userValidationRules[%d].expression: %w", i, err)
		}
		users = append(users, c)
	}
	if len(users) > 0 {
		m.users = authcel.NewUserMapper(users)
	}
	return nil
}

// checkEmail demands that a mapping that uses an address in an expression also looks whether it was verified.
func (m *mapping) checkEmail() error {
	const email, verified = "claims.email", "claims.email_verified"
	name := m.spec.ClaimMappings.Username.Expression
	if !strings.Contains(strings.ReplaceAll(name, verified, ""), email) {
		return nil
	}
	looked := strings.Contains(name, verified)
	for _, e := range m.spec.ClaimMappings.Extra {
		looked = looked || strings.Contains(e.ValueExpression, verified)
	}
	for _, r := range m.spec.ClaimValidationRules {
		looked = looked || strings.Contains(r.Expression, verified)
	}
	if !looked {
		return errors.New(
			"claimMappings.username.expression: uses claims.email, so claims.email_verified must be used in it, " +
				"in extra or in a claim validation rule")
	}
	return nil
}
