//go:build !reader

package dra

import (
	"fmt"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/dynamic-resource-allocation/cel"

	"github.com/kloop-dev/kloop/kinds/expression"
)

func compiles(text string, path *field.Path) field.ErrorList {
	if len(text) > resourcev1.CELSelectorExpressionMaxLength {
		return field.ErrorList{field.TooLong(path, "", resourcev1.CELSelectorExpressionMaxLength)}
	}
	if wrong := expression.TooDeep(text); wrong != "" {
		return field.ErrorList{field.Invalid(path, text, wrong)}
	}
	expression.Bound()
	envType := environment.NewExpressions
	r := cel.GetCompiler(cel.Features{EnableConsumableCapacity: true}).CompileCELExpression(text, cel.Options{EnvType: &envType})
	switch {
	case r.Error != nil:
		return field.ErrorList{field.Invalid(path, text, r.Error.Detail)}
	case r.MaxCost > resourcev1.CELSelectorExpressionMaxCost:
		return field.ErrorList{field.Forbidden(path, fmt.Sprintf("too complex, exceeds cost limit: %d of %d", r.MaxCost,
			uint64(resourcev1.CELSelectorExpressionMaxCost)))}
	}
	return nil
}
