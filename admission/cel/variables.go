package cel

import (
	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/lazy"
)

// variables are the named expressions of a policy. Each has the type of its expression.
type variables struct {
	declared *apiservercel.DeclType
	programs map[string]*Program
}

func newVariables() *variables {
	return &variables{declared: apiservercel.NewObjectType("kubernetes.variables", map[string]*apiservercel.DeclField{}),
		programs: map[string]*Program{}}
}

// Variable adds a named expression to a scope that declares variables. The expressions compiled later may use it as
// variables.NAME. It is evaluated when it is first used, once in a Run.
func (s *Scope) Variable(name, text string) *Program {
	p := s.Compile(text, Anything)
	s.vars.declared.Fields[name] = apiservercel.NewDeclField(name, declType(p.out), true, nil, nil)
	s.vars.programs[name] = p
	return p
}

// value is the variables as the expressions of a run see them.
func (v *variables) value(r *Run) ref.Val {
	m := lazy.NewMapValue(v.declared)
	for name, p := range v.programs {
		m.Append(name, func(*lazy.MapValue) ref.Val { return r.variable(name, p) })
	}
	return m
}

// simple pairs the types of the language with what they are declared as.
var simple = map[*celgo.Type]*apiservercel.DeclType{
	celgo.AnyType: apiservercel.AnyType, celgo.BoolType: apiservercel.BoolType, celgo.BytesType: apiservercel.BytesType,
	celgo.DoubleType: apiservercel.DoubleType, celgo.DurationType: apiservercel.DurationType, celgo.IntType: apiservercel.IntType,
	celgo.NullType: apiservercel.NullType, celgo.StringType: apiservercel.StringType,
	celgo.TimestampType: apiservercel.TimestampType, celgo.UintType: apiservercel.UintType,
}

// declType is the type of an expression as the field of another one. What it can't tell is of any type.
func declType(t *types.Type) *apiservercel.DeclType {
	if t == nil {
		return apiservercel.DynType
	}
	if d, ok := simple[t]; ok {
		return d
	}
	if !t.HasTrait(traits.ContainerType) || !t.HasTrait(traits.IndexerType) {
		return apiservercel.DynType
	}
	switch of := t.Parameters(); len(of) {
	case 1:
		return apiservercel.NewListType(declType(of[0]), -1)
	case 2:
		return apiservercel.NewMapType(declType(of[0]), declType(of[1]), -1)
	}
	return apiservercel.DynType
}
