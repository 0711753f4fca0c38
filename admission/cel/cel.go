// Package cel compiles and evaluates the expressions of admission: match conditions of webhooks, and all that
// policies say. The language, its libraries and the costs are upstream's (KEP-3488, KEP-3716); this package holds
// what an expression may name, and counts what it spends.
//
// Compile once: a Program is safe for concurrent use. An Input is one request, for one goroutine; a Run is one
// sequence of evaluations over it within one budget.
package cel

import (
	"fmt"
	"strings"
	"sync"

	celgo "github.com/google/cel-go/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// The types that expressions may be asked to have.
var (
	Bool         = []*celgo.Type{celgo.BoolType}
	String       = []*celgo.Type{celgo.StringType}
	StringOrNull = []*celgo.Type{celgo.StringType, celgo.NullType}
	Anything     = []*celgo.Type{celgo.AnyType}
	Applied      = []*celgo.Type{celgo.ObjectType("Object")}                    // an apply configuration
	Patch        = []*celgo.Type{celgo.ListType(celgo.ObjectType("JSONPatch"))} // a JSON patch
)

// A Program is a compiled expression, or the reason why it is none. Safe for concurrent use.
type Program struct {
	text string
	run  celgo.Program
	out  *celgo.Type
	err  error
}

// Err says why the expression does not compile; nil when it does.
func (p *Program) Err() error { return p.err }

// A Scope lists the variables that expressions of one policy or webhook may name. Expressions compiled in it see the variables
// that were added before. Not safe for concurrent use until the last of them is compiled.
type Scope struct {
	declared Declared
	types    *Types
	env      func() (*celgo.Env, error) // with variables, if there are any
	patches  func() (*celgo.Env, error) // that may also make patches
	vars     *variables                 // nil: there can be none
}

// NewScope returns a scope. Nothing is built before the first expression.
func NewScope(d Declared) *Scope { return newScope(d, nil) }

// NewTypedScope returns a scope whose objects have types, for checks of expressions. Its programs can't be run.
func NewTypedScope(d Declared, t Types) *Scope { return newScope(d, &t) }

func newScope(d Declared, t *Types) *Scope {
	s := &Scope{declared: d, types: t}
	if d.Variables {
		s.vars = newVariables()
	}
	s.env = sync.OnceValues(func() (*celgo.Env, error) { return s.build(false) })
	s.patches = sync.OnceValues(func() (*celgo.Env, error) { return s.build(true) })
	return s
}

// Compile compiles an expression that must have one of the types.
func (s *Scope) Compile(text string, want []*celgo.Type) *Program {
	return s.compile(text, want, s.env)
}

// CompilePatch compiles an expression that makes a patch: Object{}, JSONPatch{} and jsonpatch.escapeKey are known.
func (s *Scope) CompilePatch(text string, want []*celgo.Type) *Program {
	return s.compile(text, want, s.patches)
}

func (s *Scope) compile(text string, want []*celgo.Type, environment func() (*celgo.Env, error)) *Program {
	p := &Program{text: text}
	env, err := environment()
	if err != nil {
		p.err = fault(apiservercel.ErrorTypeInternal, nil, "unexpected error loading CEL environment: %v", err)
		return p
	}
	ast, issues := env.Compile(text)
	if issues != nil && issues.Err() != nil {
		p.err = fault(apiservercel.ErrorTypeInvalid, apiservercel.NewCompilationError(issues), "compilation failed: %s", issues.String())
		return p
	}
	if p.out = ast.OutputType(); !fits(p.out, want) {
		p.err = fault(apiservercel.ErrorTypeInvalid, nil, "%s", misfit(p.out, want))
		return p
	}
	if s.types != nil {
		return p
	}
	if p.run, err = env.Program(ast, celgo.InterruptCheckFrequency(celconfig.CheckFrequency)); err != nil {
		p.err = fault(apiservercel.ErrorTypeInternal, nil, "program instantiation failed: %v", err)
	}
	return p
}

func fits(t *celgo.Type, want []*celgo.Type) bool {
	for _, w := range want {
		if t.IsExactType(w) || celgo.AnyType.IsExactType(w) {
			return true
		}
	}
	return false
}

func misfit(t *celgo.Type, want []*celgo.Type) string {
	if len(want) == 1 {
		return fmt.Sprintf("must evaluate to %v but got %v", want[0], t)
	}
	var names []string
	for _, w := range want {
		names = append(names, w.String())
	}
	return fmt.Sprintf("must evaluate to one of [%s] but got %v", strings.Join(names, " "), t)
}

func fault(t apiservercel.ErrorType, cause error, format string, args ...any) error {
	return &apiservercel.Error{Type: t, Detail: fmt.Sprintf(format, args...), Cause: cause}
}

// Check says what is wrong with an expression of any type; "" when nothing is. broken says that the environment is at
// fault, not the expression.
func (s *Scope) Check(text string) (issues string, broken error) {
	env, err := s.env()
	if err != nil {
		return "", fmt.Errorf("fail to build env: %w", err)
	}
	if _, found := env.Compile(text); found != nil {
		return found.String(), nil
	}
	return "", nil
}
