// Package expression is the language of rules: CEL with the functions that Kubernetes adds, where reading a quantity has a bound.
package expression

import (
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apimachinery/pkg/util/version"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/kloop-dev/kloop/resource"
)

// Language is the environment that all others extend. It takes milliseconds to make, once in a process.
var Language = sync.OnceValue(func() *environment.EnvSet {
	base := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	bounded, err := base.Extend(environment.VersionedOptions{IntroducedVersion: version.MajorMinor(1, 0),
		ProgramOptions: []cel.ProgramOption{cel.CustomDecoratorV2(bound)}})
	if err != nil {
		panic(err) // nothing of it depends on input
	}
	*base = *bounded // libraries that take the base themselves share it by its pointer
	return base
})

// Bound makes expressions bounded that a library compiles in an environment of its own. It is to be called before the library's
// compiler is made.
func Bound() { Language() }

// bound puts calls in the place of those that read quantities. A call can't be interrupted, and costs one unit however dear it is.
func bound(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	c, ok := i.(interpreter.InterpretableCall)
	if !ok || len(c.Args()) != 1 {
		return i, nil
	}
	switch c.OverloadID() {
	case "string_to_quantity", "is_quantity_string":
		return &reading{c}, nil
	}
	return i, nil
}

// A reading is a call of quantity or isQuantity.
type reading struct{ interpreter.InterpretableCall }

// Eval implements interpreter.Interpretable.
func (r *reading) Eval(vars interpreter.Activation) ref.Val {
	return r.Exec(interpreter.AsFrame(vars))
}

// Exec implements interpreter.InterpretableV2.
func (r *reading) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	arg := r.Args()[0].Exec(frame)
	if types.IsUnknownOrError(arg) {
		return arg
	}
	text, ok := arg.Value().(string)
	if !ok {
		return types.MaybeNoSuchOverloadErr(arg)
	}
	q, err := resource.ParseQuantity(text)
	switch {
	case r.OverloadID() == "is_quantity_string":
		return types.Bool(err == nil)
	case err != nil:
		return types.LabelErrNode(r.ID(), types.WrapErr(err))
	}
	return apiservercel.Quantity{Quantity: &q}
}
