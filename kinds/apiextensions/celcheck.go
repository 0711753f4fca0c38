//go:build !reader

package apiextensions

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync"

	celgo "github.com/google/cel-go/cel"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/kloop-dev/kloop/kinds/expression"
)

// A celCheck is the result of compiling a rule, without the program, which nobody runs here.
type celCheck struct {
	cel.CompilationResult
	hasMessage bool // there is a program for the message
}

// maxCELChecks bounds how many schemas with rules are remembered.
const maxCELChecks = 512

// A celCache remembers what was said of rules: versions of a definition have most of them in common, and so have the
// definitions of a family. To compile a rule takes half a millisecond.
type celCache struct {
	mu   sync.Mutex
	said map[[sha256.Size]byte][]celCheck
}

var verdicts celCache

// of compiles the rules of a schema, which see metadata if it is that of an object. What is there already may use what
// has gone out of use.
func (c *celCache) of(s *structural.Structural, object bool, l ratcheting) ([]celCheck, error) {
	key, known := keyOf(s, object, l)
	if known {
		c.mu.Lock()
		list, ok := c.said[key]
		c.mu.Unlock()
		if ok {
			return list, nil
		}
	}
	typ := model.SchemaDeclType(s, object)
	if typ == nil {
		return nil, nil
	}
	results, err := cel.Compile(s, typ, celconfig.PerCallLimit, expression.Language(), l)
	if err != nil {
		return nil, err
	}
	list := make([]celCheck, len(results))
	for i, r := range results {
		list[i] = celCheck{r, r.MessageExpression != nil}
		list[i].Program, list[i].MessageExpression = nil, nil
	}
	if !known {
		return list, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.said == nil || len(c.said) >= maxCELChecks {
		c.said = map[[sha256.Size]byte][]celCheck{}
	}
	c.said[key] = list
	return list, nil
}

// keyOf stands for all that compiling a schema's rules follows from.
func keyOf(s *structural.Structural, object bool, l ratcheting) (key [sha256.Size]byte, ok bool) {
	text, err := json.Marshal(s.ToKubeOpenAPI())
	if err != nil {
		return key, false
	}
	text = fmt.Append(text, object)
	for _, r := range s.XValidations {
		text = fmt.Append(text, l.rules[r.Rule], l.messages[r.MessageExpression])
	}
	return sha256.Sum256(text), true
}

// RuleEnv implements the library's loader of environments.
func (l ratcheting) RuleEnv(set *environment.EnvSet, text string) *celgo.Env {
	return envFor(set, l.rules[text])
}

// MessageExpressionEnv implements the library's loader of environments.
func (l ratcheting) MessageExpressionEnv(set *environment.EnvSet, text string) *celgo.Env {
	return envFor(set, l.messages[text])
}

func envFor(set *environment.EnvSet, old bool) *celgo.Env {
	if old {
		return set.StoredExpressionsEnv()
	}
	return set.NewExpressionsEnv()
}
