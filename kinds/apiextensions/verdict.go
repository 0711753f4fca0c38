package apiextensions

import (
	"crypto/sha256"
	"encoding/json"
	"sync"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// A verdict is what compiling a rule tells of it, without the program, which nobody runs here.
type verdict struct {
	cel.CompilationResult
	hasMessage bool // there is a program for the message
}

// maxVerdicts bounds how many schemas with rules are remembered.
const maxVerdicts = 512

// A court remembers what was said of rules: versions of a definition have most of them in common, and so have the
// definitions of a family. To compile a rule takes half a millisecond.
type court struct {
	mu   sync.Mutex
	said map[[sha256.Size]byte][]verdict
}

var verdicts court

// of compiles the rules of a schema, which see metadata if it is that of an object.
func (c *court) of(s *structural.Structural, object bool) ([]verdict, error) {
	key, known := keyOf(s, object)
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
	results, err := cel.Compile(s, typ, celconfig.PerCallLimit, baseEnvironment(), cel.NewExpressionsEnvLoader())
	if err != nil {
		return nil, err
	}
	list := make([]verdict, len(results))
	for i, r := range results {
		list[i] = verdict{r, r.MessageExpression != nil}
		list[i].Program, list[i].MessageExpression = nil, nil
	}
	if !known {
		return list, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.said == nil || len(c.said) >= maxVerdicts {
		c.said = map[[sha256.Size]byte][]verdict{}
	}
	c.said[key] = list
	return list, nil
}

// keyOf stands for all that compiling a schema's rules follows from.
func keyOf(s *structural.Structural, object bool) (key [sha256.Size]byte, ok bool) {
	text, err := json.Marshal(s.ToKubeOpenAPI())
	if err != nil {
		return key, false
	}
	if object {
		text = append(text, '+')
	}
	return sha256.Sum256(text), true
}
