package cluster

import (
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/kloop-dev/kloop/kinds/convergence"
)

// aboutGaps holds the texts of `kubectl explain` for the kinds themselves.
var aboutGaps = map[string]string{
	"Gap": "Gap is an object that is not what it should be: what differs, why, whose move it is and what comes next. " +
		"Gaps are computed; they can't be written.",
	"Loop":   "Loop tells how one control loop is doing: its queue, its pace, its errors.",
	"Report": "Report is what a process tells of the loops that run in it. To create one is to tell; nothing is stored.",
	"Fight":  "Fight is a field that two managers, or one against itself, set back and forth.",
}

// gapSchemas returns the OpenAPI schemas of the kinds, made of the Go types and their doc tags.
func gapSchemas() map[schema.GroupVersionKind]*spec.Schema {
	out := map[schema.GroupVersionKind]*spec.Schema{}
	for _, k := range append(convergence.All(), convergence.Reports) {
		gvk := k.Info().GVK
		s := schemaOf(reflect.TypeOf(k.New(gvk)).Elem(), aboutGaps[gvk.Kind])
		out[gvk] = &s
	}
	return out
}

func schemaOf(t reflect.Type, doc string) (s spec.Schema) {
	s.Description = doc
	switch {
	case t == reflect.TypeFor[metav1.Time](), t == reflect.TypeFor[metav1.MicroTime]():
		s.Type, s.Format = spec.StringOrArray{"string"}, "date-time"
	case t.Kind() == reflect.Pointer:
		return schemaOf(t.Elem(), doc)
	case t.Kind() == reflect.Slice:
		item := schemaOf(t.Elem(), "")
		s.Type, s.Items = spec.StringOrArray{"array"}, &spec.SchemaOrArray{Schema: &item}
	case t.Kind() == reflect.String:
		s.Type = spec.StringOrArray{"string"}
	case t.Kind() == reflect.Bool:
		s.Type = spec.StringOrArray{"boolean"}
	case t.Kind() == reflect.Int32, t.Kind() == reflect.Int64:
		s.Type, s.Format = spec.StringOrArray{"integer"}, t.Kind().String()
	default:
		s.Type, s.Properties = spec.StringOrArray{"object"}, map[string]spec.Schema{}
		for i := range t.NumField() {
			f := t.Field(i)
			name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" || name == "metadata" { // the documents add what all kinds have
				continue
			}
			s.Properties[name] = schemaOf(f.Type, f.Tag.Get("doc"))
			if !strings.Contains(opts, "omit") {
				s.Required = append(s.Required, name)
			}
		}
	}
	return s
}
