//go:build !reader

package admissionregistration

import (
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/util/validation/field"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/kloop-dev/kloop/kinds/expression"
)

// What an expression may evaluate to.
var (
	wantBool         = []*cel.Type{cel.BoolType}
	wantMessage      = []*cel.Type{cel.StringType}
	wantStringOrNull = []*cel.Type{cel.StringType, cel.NullType}
	wantObject       = []*cel.Type{cel.ObjectType("Object")}
	wantPatch        = []*cel.Type{cel.ListType(cel.ObjectType("JSONPatch"))}
	wantAnything     = []*cel.Type{cel.AnyType, cel.DynType}
)

// A compiler checks the expressions of one policy. Building the environment of CEL takes milliseconds, so it
// waits until there is an expression. It is not safe for concurrent use.
type compiler struct {
	params    bool
	variables bool                          // whether expressions know `variables` at all
	cel       plugincel.Compiler            // nil until the first expression
	composed  *plugincel.CompositedCompiler // the same, with variables
}

func newCompiler(params, variables bool) *compiler {
	return &compiler{params: params, variables: variables}
}

// plain compiles expressions that know no variables, for all policies.
var plain = sync.OnceValue(func() plugincel.Compiler { return plugincel.NewCompiler(expression.Language()) })

// A phrase is an expression for the library to compile: a text, the types it may have, and a name if it is a variable.
type phrase struct {
	name, text string
	types      []*cel.Type
}

func (e phrase) GetName() string          { return e.name }
func (e phrase) GetExpression() string    { return e.text }
func (e phrase) ReturnTypes() []*cel.Type { return e.types }

func (c *compiler) start() error {
	switch {
	case c.cel != nil:
		return nil
	case !c.variables:
		c.cel = plain()
		return nil
	}
	made, err := plugincel.NewCompositedCompiler(expression.Language())
	c.cel, c.composed = made, made
	return err
}

func (c *compiler) declared(types []*cel.Type) plugincel.OptionalVariableDeclarations {
	if len(types) == 1 && types[0] == wantMessage[0] { // who may do what must not leak by messages
		return plugincel.OptionalVariableDeclarations{HasParams: c.params}
	}
	patches := len(types) == 1 && (types[0] == wantObject[0] || types[0] == wantPatch[0])
	return plugincel.OptionalVariableDeclarations{HasParams: c.params, HasAuthorizer: true, HasPatchTypes: patches}
}

// expression checks that a text is there, compiles, and has one of the types.
func (c *compiler) expression(text string, path *field.Path, types []*cel.Type) field.ErrorList {
	if strings.TrimSpace(text) == "" {
		return field.ErrorList{field.Required(path, "expression is not specified")}
	}
	if wrong := expression.TooDeep(text); wrong != "" {
		return field.ErrorList{field.Invalid(path, text, wrong)}
	}
	if err := c.start(); err != nil {
		return field.ErrorList{field.InternalError(path, err)}
	}
	r := c.cel.CompileCELExpression(phrase{text: strings.TrimSpace(text), types: types}, c.declared(types), environment.NewExpressions)
	return complaint(r.Error, text, path)
}

// bare is expression where one that is missing is only said to be required.
func (c *compiler) bare(text string, path *field.Path, types []*cel.Type) field.ErrorList {
	if strings.TrimSpace(text) == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return c.expression(text, path, types)
}

// variable checks an expression and makes it known to those that follow.
func (c *compiler) variable(name, text string, path *field.Path) field.ErrorList {
	if strings.TrimSpace(text) == "" {
		return field.ErrorList{field.Required(path, "expression is not specified")}
	}
	if wrong := expression.TooDeep(text); wrong != "" {
		return field.ErrorList{field.Invalid(path, text, wrong)}
	}
	if err := c.start(); err != nil {
		return field.ErrorList{field.InternalError(path, err)}
	}
	r := c.composed.CompileAndStoreVariable(phrase{name: name, text: strings.TrimSpace(text), types: wantAnything},
		c.declared(nil), environment.NewExpressions)
	return complaint(r.Error, text, path)
}

// complaint puts an error of the CEL compiler at the field with the expression. What kind of error it is decides how: an expression that
// is missing is Required, not Invalid.
func complaint(err *apiservercel.Error, text string, path *field.Path) field.ErrorList {
	switch {
	case err == nil:
		return nil
	case err.Type == apiservercel.ErrorTypeRequired:
		return field.ErrorList{field.Required(path, err.Detail)}
	case err.Type == apiservercel.ErrorTypeInternal:
		return field.ErrorList{field.InternalError(path, err)}
	}
	return field.ErrorList{field.Invalid(path, text, err.Detail)}
}
