//go:build reader

package admissionregistration

import "k8s.io/apimachinery/pkg/util/validation/field"

// A program that only reads compiles no expressions.
type (
	compiler struct{}
	anyType  = []struct{}
)

var wantBool, wantMessage, wantStringOrNull, wantObject, wantPatch anyType

func newCompiler(bool, bool) *compiler                                    { return nil }
func (*compiler) expression(string, *field.Path, anyType) field.ErrorList { return nil }

func (*compiler) bare(string, *field.Path, anyType) field.ErrorList    { return nil }
func (*compiler) variable(string, string, *field.Path) field.ErrorList { return nil }
