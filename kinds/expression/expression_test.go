package expression

import (
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// A quantity in an expression has a bound, wherever its text comes from, in every environment that is made of the base.
func TestQuantitiesAreBounded(t *testing.T) {
	Bound()
	for _, base := range []*environment.EnvSet{Language(), environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())} {
		for _, typ := range []environment.Type{environment.NewExpressions, environment.StoredExpressions} {
			env, err := base.Env(typ)
			if err != nil {
				t.Fatal(err)
			}
			if env, err = env.Extend(cel.Variable("x", cel.StringType), cel.Variable("y", cel.DynType)); err != nil {
				t.Fatal(err)
			}
			judge(t, env)
		}
	}
}

func judge(t *testing.T, env *cel.Env) {
	t.Helper()
	for _, c := range []struct{ rule, want string }{
		{`quantity(x).isGreaterThan(quantity("1"))`, "quantities must match"},
		{`quantity("1e" + "-999999999").isGreaterThan(quantity("1"))`, "quantities must match"},
		{`sign(quantity(y)) == 1`, "quantities must match"},
		{`isQuantity(x)`, "false"},
		{`[x].all(q, isQuantity(q))`, "false"},
		{`isQuantity("1e3") && quantity("1e3").asInteger() == 1000 && quantity("50Mi").isLessThan(quantity("1Gi"))`, "true"},
		{`sign(quantity("zz")) == 1`, "quantities must match"},
		{`quantity("1").add(quantity("2")).compareTo(quantity("3")) == 0`, "true"},
	} {
		ast, issues := env.Compile(c.rule)
		if issues.Err() != nil {
			t.Fatal(issues.Err())
		}
		prog, err := env.Program(ast)
		if err != nil {
			t.Fatal(err)
		}
		got, details, err := prog.Eval(map[string]any{"x": "1e999999999", "y": "1e-999999999"})
		text := ""
		if err != nil {
			text = err.Error()
		} else if got.Value() == true {
			text = "true"
		} else {
			text = "false"
		}
		if !strings.HasPrefix(text, c.want) {
			t.Errorf("%s: %q, want %q", c.rule, text, c.want)
		}
		if err == nil && (details.ActualCost() == nil || *details.ActualCost() == 0) {
			t.Errorf("%s costs nothing", c.rule)
		}
	}
}
