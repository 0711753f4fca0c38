package cel

import (
	"sync"

	celgo "github.com/google/cel-go/cel"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/library"
	"k8s.io/apiserver/pkg/cel/mutation"

	"github.com/kloop-dev/kloop/kinds/expression"
)

// Declared says which names there are besides object, oldObject, request and namespaceObject.
type Declared struct {
	Params     bool
	Authorizer bool
	Variables  bool // as policies have, even if there are none
}

// Types are the schemas of what is otherwise of any type; nil leaves a name untyped.
type Types struct {
	Object, Params *apiservercel.DeclType
}

// base is the language as expressions know it that are stored already. Building it takes milliseconds.
var base = sync.OnceValue(func() *celgo.Env {
	return expression.Language().StoredExpressionsEnv()
})

// plain holds the environments of scopes without variables and types, which all such scopes share.
var plain = [2][2]func() (*celgo.Env, error){
	{sharedEnv(Declared{}), sharedEnv(Declared{Authorizer: true})},
	{sharedEnv(Declared{Params: true}), sharedEnv(Declared{Params: true, Authorizer: true})},
}

func sharedEnv(d Declared) func() (*celgo.Env, error) {
	return sync.OnceValues(func() (*celgo.Env, error) { return extend(base(), d, Types{}, nil) })
}

func index(b bool) int {
	if b {
		return 1
	}
	return 0
}

// build makes the environment of the scope as it is now.
func (s *Scope) build(patches bool) (*celgo.Env, error) {
	var env *celgo.Env
	var err error
	switch {
	case patches:
		if env, err = s.env(); err == nil {
			env, err = env.Extend(common.ResolverEnvOption(&mutation.DynamicTypeResolver{}), library.JSONPatch())
		}
	case s.types != nil:
		env, err = extend(base(), s.declared, *s.types, s.vars)
	case s.vars != nil:
		env, err = extend(base(), s.declared, Types{}, s.vars)
	default:
		env, err = plain[index(s.declared.Params)][index(s.declared.Authorizer)]()
	}
	return env, err
}

// extend adds the names of admission to the language.
func extend(env *celgo.Env, d Declared, t Types, vars *variables) (*celgo.Env, error) {
	request, namespace := plugincel.BuildRequestType(), plugincel.BuildNamespaceType()
	declared := []*apiservercel.DeclType{namespace, request}
	opts := []celgo.EnvOption{celgo.Variable("namespaceObject", namespace.CelType()), celgo.Variable("request", request.CelType())}
	name := func(t *apiservercel.DeclType, names ...string) {
		of := celgo.DynType
		if t != nil {
			declared, of = append(declared, t), t.CelType()
		}
		for _, n := range names {
			opts = append(opts, celgo.Variable(n, of))
		}
	}
	name(t.Object, "object", "oldObject")
	if d.Params {
		name(t.Params, "params")
	}
	if d.Authorizer {
		opts = append(opts, celgo.Variable("authorizer", library.AuthorizerType),
			celgo.Variable("authorizer.requestResource", library.ResourceCheckType))
	}
	if vars != nil {
		name(vars.declared, "variables")
	}
	types := apiservercel.NewDeclTypeProvider(declared...)
	types.SetRecognizeKeywordAsFieldName(true)
	more, err := types.EnvOptions(env.CELTypeProvider())
	if err != nil {
		return nil, err
	}
	return env.Extend(celgo.Lib(options{append(opts, more...)}))
}

// options are a library without functions: a program made in the environment counts the costs of upstream's libraries.
type options struct{ compile []celgo.EnvOption }

// CompileOptions implements celgo.Library.
func (o options) CompileOptions() []celgo.EnvOption { return o.compile }

// ProgramOptions implements celgo.Library.
func (o options) ProgramOptions() []celgo.ProgramOption {
	return []celgo.ProgramOption{celgo.CostTracking(&library.CostEstimator{})}
}
