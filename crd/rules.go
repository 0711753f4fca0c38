package crd

import (
	"context"
	"math"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/common"

	"github.com/kloop-dev/kloop/kinds/expression"
)

// fastRules holds the compiled rules of a schema, as far as there are any. Like a fastSchema it answers one question: do
// all rules hold for sure? A no means that the library is to be asked.
type fastRules struct {
	hard        bool // only the library judges it
	transitions bool // rules here or below compare with the old value
	see         *celSchema
	rules       []celRule
	props       map[string]*fastRules
	rest, items *fastRules
}

type celRule struct {
	cel.CompilationResult
	optionalOld bool
}

// newRuleTree compiles the rules of a schema and of all below it; nil when there are none.
func newRuleTree(s *structural.Structural, root bool, decl *apiservercel.DeclType) *fastRules {
	t := &fastRules{}
	if s.ValueValidation != nil && len(s.ValueValidation.AllOf) > 0 {
		t.hard = true // there may be rules in it
	}
	t.compile(s, root, decl)
	var elem *apiservercel.DeclType
	if decl != nil {
		elem = decl.ElemType
	}
	if s.Items != nil {
		t.items = newRuleTree(s.Items, s.Items.XEmbeddedResource, elem)
	}
	if a := s.AdditionalProperties; a != nil && a.Structural != nil {
		t.rest = newRuleTree(a.Structural, a.Structural.XEmbeddedResource, elem)
	}
	for name, p := range s.Properties {
		if below := newRuleTree(&p, p.XEmbeddedResource, fieldType(decl, name, &p)); below != nil {
			if t.props == nil {
				t.props = map[string]*fastRules{}
			}
			t.props[name] = below
			t.transitions = t.transitions || below.transitions
		}
	}
	for _, below := range []*fastRules{t.items, t.rest} {
		t.transitions = t.transitions || below != nil && below.transitions
	}
	if !t.hard && t.rules == nil && t.props == nil && t.rest == nil && t.items == nil {
		return nil
	}
	return t
}

// fieldType is the type of a field as rules know it.
func fieldType(decl *apiservercel.DeclType, name string, p *structural.Structural) *apiservercel.DeclType {
	escaped, ok := apiservercel.Escape(name)
	if !ok {
		return model.SchemaDeclType(p, p.XEmbeddedResource)
	}
	if decl != nil {
		if f, ok := decl.Fields[escaped]; ok {
			return f.Type
		}
	}
	return nil
}

func (t *fastRules) compile(s *structural.Structural, root bool, decl *apiservercel.DeclType) {
	if len(s.XValidations) == 0 {
		return
	}
	list, err := cel.Compile(s, decl, celconfig.PerCallLimit, expression.Language(), cel.StoredExpressionsEnvLoader())
	if err != nil || len(list) != len(s.XValidations) || decl == nil {
		t.hard = true
		return
	}
	for i, c := range list {
		t.hard = t.hard || c.Error != nil || c.Program == nil
		t.transitions = t.transitions || c.UsesOldSelf
		t.rules = append(t.rules, celRule{c, s.XValidations[i].OptionalOldSelf != nil && *s.XValidations[i].OptionalOldSelf})
	}
	if root {
		s = model.WithTypeAndObjectMeta(s)
	}
	t.see = newLens(s)
}

// holds says that all rules hold. old is nil when there is no old value to compare with; budget is the cost that may be spent.
func (t *fastRules) holds(ctx context.Context, v, old any, budget *int64) bool {
	if t == nil || v == nil {
		return true
	}
	if t.hard || ctx.Err() != nil || !t.hold(ctx, v, old, budget) {
		return false
	}
	switch x := v.(type) {
	case map[string]any:
		was, _ := old.(map[string]any)
		for name, below := range t.props {
			if of, ok := x[name]; ok && !below.holds(ctx, of, was[name], budget) {
				return false
			}
		}
		if t.rest != nil {
			for name, of := range x {
				if !t.rest.holds(ctx, of, was[name], budget) {
					return false
				}
			}
		}
	case []any:
		if t.items == nil {
			return true
		}
		if old != nil && t.items.transitions { // which item was which is the library's to tell
			return false
		}
		for _, of := range x {
			if !t.items.holds(ctx, of, nil, budget) {
				return false
			}
		}
	}
	return true
}

// hold evaluates the rules of the value itself.
func (t *fastRules) hold(ctx context.Context, v, old any, budget *int64) bool {
	if len(t.rules) == 0 {
		return true
	}
	a := &activation{self: common.UnstructuredToVal(v, t.see)}
	if old != nil && t.transitions {
		a.old = common.UnstructuredToVal(old, t.see)
	}
	for i := range t.rules {
		r := &t.rules[i]
		if r.UsesOldSelf && old == nil && !r.optionalOld {
			continue
		}
		with := a
		if r.optionalOld {
			with = a.optional()
		}
		result, details, err := r.Program.ContextEval(ctx, with)
		if err != nil || result != types.True || details == nil {
			return false
		}
		spent := details.ActualCost()
		if spent == nil || *spent > math.MaxInt64 || int64(*spent) > *budget {
			return false
		}
		*budget -= int64(*spent)
	}
	return true
}

// activation names the values of a rule.
type activation struct{ self, old ref.Val }

// optional is for rules that take the old value as an optional one.
func (a *activation) optional() *activation {
	if a.old == nil {
		return &activation{a.self, types.OptionalNone}
	}
	return &activation{a.self, types.OptionalOf(a.old)}
}

// ResolveName implements interpreter.Activation.
func (a *activation) ResolveName(name string) (any, bool) {
	switch name {
	case cel.ScopedVarName:
		return a.self, true
	case cel.OldScopedVarName:
		return a.old, a.old != nil
	}
	return nil, false
}

// Parent implements interpreter.Activation.
func (a *activation) Parent() interpreter.Activation { return nil }

// A celSchema is a schema as rules see values through it. The library's own makes a map of all properties whenever one
// is looked at.
type celSchema struct {
	model.Structural
	props map[string]common.Schema
	items common.Schema
	rest  common.SchemaOrBool
}

func newLens(s *structural.Structural) *celSchema {
	l := &celSchema{Structural: model.Structural{Structural: s}}
	if s.Properties != nil {
		l.props = make(map[string]common.Schema, len(s.Properties))
		for name, p := range s.Properties {
			l.props[name] = newLens(&p)
		}
	}
	if s.Items != nil {
		l.items = newLens(s.Items)
	}
	if a := s.AdditionalProperties; a != nil {
		r := &celRestSchema{allows: a.Bool}
		if a.Structural != nil {
			r.schema = newLens(a.Structural)
		}
		l.rest = r
	}
	return l
}

// Properties implements common.Schema.
func (l *celSchema) Properties() map[string]common.Schema { return l.props }

// Items implements common.Schema.
func (l *celSchema) Items() common.Schema { return l.items }

// AdditionalProperties implements common.Schema.
func (l *celSchema) AdditionalProperties() common.SchemaOrBool { return l.rest }

// celRestSchema is the schema of the other properties.
type celRestSchema struct {
	schema common.Schema
	allows bool
}

// Schema implements common.SchemaOrBool.
func (r *celRestSchema) Schema() common.Schema { return r.schema }

// Allows implements common.SchemaOrBool.
func (r *celRestSchema) Allows() bool { return r.allows }
