package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/openapi"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/kloop-dev/kloop/admission/cel"
	"github.com/kloop-dev/kloop/internal/coldsort"
)

// maxChecked is the number of types that a policy's expressions are checked against.
const maxChecked = 10

// A Checker finds expressions of validating policies that can't fit the types that the policies are about. It only
// warns: policies are evaluated without types.
type Checker struct {
	// Kind names the kind of a resource in one version; ok is false when it is not served.
	Kind func(gvr schema.GroupVersionResource) (gvk schema.GroupVersionKind, ok bool)
	// Schema returns the schema of a kind with everything in it that it refers to; nil when nothing is known of it.
	Schema func(gvk schema.GroupVersionKind) (*spec.Schema, error)
}

// Check returns the warnings for a policy: one for each expression that does not fit some type. The error tells of
// types that could not be looked up; the others were.
func (c *Checker) Check(p *admissionregistrationv1.ValidatingAdmissionPolicy) (warnings []admissionregistrationv1.ExpressionWarning,
	failed error) {
	var types []typed
	for _, gvk := range c.about(p) {
		t, err := c.declare(gvk)
		switch {
		case err != nil:
			failed = err
		case t != nil:
			types = append(types, typed{gvk, t})
		}
	}
	var params *apiservercel.DeclType
	if k := p.Spec.ParamKind; k != nil {
		gvk := schema.FromAPIVersionAndKind(k.APIVersion, k.Kind)
		var err error
		if params, err = c.declare(gvk); err != nil {
			failed = err
		}
	}
	check := func(text string, at *field.Path) {
		if says := fits(p, types, params, text); says != "" {
			warnings = append(warnings, admissionregistrationv1.ExpressionWarning{FieldRef: at.String(), Warning: says})
		}
	}
	for i, v := range p.Spec.Validations {
		at := field.NewPath("spec", "validations").Index(i)
		check(v.Expression, at.Child("expression"))
		if v.MessageExpression != "" {
			check(v.MessageExpression, at.Child("messageExpression"))
		}
	}
	return warnings, failed
}

// typed is a kind that a policy is about, and its type.
type typed struct {
	gvk  schema.GroupVersionKind
	decl *apiservercel.DeclType
}

// fits says why an expression of a policy does not fit some of the types; "" when it fits all.
func fits(p *admissionregistrationv1.ValidatingAdmissionPolicy, types []typed, params *apiservercel.DeclType, text string) string {
	var list []string
	for _, t := range types {
		s := cel.NewTypedScope(cel.Declared{Params: p.Spec.ParamKind != nil, Authorizer: true, Variables: true},
			cel.Types{Object: t.decl, Params: params})
		for _, v := range p.Spec.Variables {
			s.Variable(v.Name, v.Expression)
		}
		issues, err := s.Check(text)
		switch {
		case err != nil:
			list = append(list, fmt.Sprintf("%v: type checking error: %v\n", t.gvk, err))
		case issues != "":
			list = append(list, fmt.Sprintf("%v: %s\n", t.gvk, issues))
		}
	}
	return strings.Join(list, "\n")
}

// declare makes the type of a kind; nil when there is no schema.
func (c *Checker) declare(gvk schema.GroupVersionKind) (*apiservercel.DeclType, error) {
	s, err := c.Schema(gvk)
	if s == nil || err != nil {
		return nil, err
	}
	t := common.SchemaDeclType(&openapi.Schema{Schema: s}, true)
	if t == nil {
		return nil, nil
	}
	return t.MaybeAssignTypeName(strings.Join([]string{gvk.Group, gvk.Version, gvk.Kind}, ".")), nil
}

// about lists the kinds that the rules of a policy name, without wildcards: what may be anything can't be checked.
func (c *Checker) about(p *admissionregistrationv1.ValidatingAdmissionPolicy) (list []schema.GroupVersionKind) {
	if p.Spec.MatchConstraints == nil {
		return nil
	}
rules:
	for _, r := range p.Spec.MatchConstraints.ResourceRules {
		if open(r.APIGroups) || open(r.APIVersions) {
			continue
		}
		for gvr := range named(r.Rule) {
			gvk, ok := c.Kind(gvr)
			if ok && !slices.Contains(list, gvk) {
				list = append(list, gvk)
			}
			if len(list) == maxChecked {
				break rules
			}
		}
	}
	coldsort.Func(list, func(a, b schema.GroupVersionKind) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Kind, b.Kind))
	})
	return list
}

func open(list []string) bool {
	return slices.ContainsFunc(list, func(s string) bool { return strings.Contains(s, "*") })
}

// named yields the resources that a rule names.
func named(r admissionregistrationv1.Rule) func(func(schema.GroupVersionResource) bool) {
	sorted := func(list []string) []string { return slices.Sorted(slices.Values(list)) }
	return func(yield func(schema.GroupVersionResource) bool) {
		for _, group := range sorted(r.APIGroups) {
			for _, version := range sorted(r.APIVersions) {
				for _, resource := range sorted(r.Resources) {
					if !strings.ContainsAny(resource, "*/") && !yield(schema.GroupVersionResource{Group: group, Version: version, Resource: resource}) {
						return
					}
				}
			}
		}
	}
}
