package apiextensions

import (
	"reflect"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// A fieldLayout says which field of a message is which member of an object, as the tags of the Go type tell.
type fieldLayout struct {
	fields []*messageField // by number; nil: none
	must   int             // how many are always there
}

type messageField struct {
	name        string
	shape       shape
	wire        protowire.Type
	open, close byte             // of lists and maps
	omit        bool             // left out if empty
	must        bool             // always there
	of          *fieldLayout     // of what is a message
	schemaAt    protowire.Number // where the schema is in what may be one or something else
}

// A shape is the wire form of a value.
type shape int

const (
	words shape = iota
	flag
	number
	float
	raw // JSON
	message
	schemaOrFlag
	schemaOrList // of schemas or of names
)

func (l *fieldLayout) field(n protowire.Number) *messageField {
	if int(n) >= len(l.fields) {
		return nil
	}
	return l.fields[n]
}

// validationLayout is that of what holds the schema of a version.
var validationLayout = sync.OnceValue(func() *fieldLayout {
	return layoutOf(reflect.TypeFor[apiextensionsv1.CustomResourceValidation](), map[reflect.Type]*fieldLayout{})
})

// layoutOf reads the protobuf tags of a Go type once. A type is put into known before its fields are looked at, for schemas contain
// themselves.
func layoutOf(t reflect.Type, known map[reflect.Type]*fieldLayout) *fieldLayout {
	if l := known[t]; l != nil {
		return l
	}
	l := &fieldLayout{}
	known[t] = l
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		name, rest, _ := strings.Cut(tag.Get("json"), ",")
		n, _ := strconv.Atoi(strings.Split(tag.Get("protobuf"), ",")[1])
		for len(l.fields) <= n {
			l.fields = append(l.fields, nil)
		}
		f := &messageField{name: name, wire: protowire.BytesType, omit: rest == "omitempty"}
		f.must = !f.omit
		f.fill(t.Field(i).Type, known)
		l.fields[n] = f
		if f.must {
			l.must++
		}
	}
	return l
}

// fill sets what follows from the type.
func (f *messageField) fill(t reflect.Type, known map[reflect.Type]*fieldLayout) {
	switch t.Kind() {
	case reflect.Pointer:
		t, f.omit = t.Elem(), false
	case reflect.Slice:
		t, f.open, f.close, f.omit = t.Elem(), '[', ']', false
	case reflect.Map:
		t, f.open, f.close, f.omit = t.Elem(), '{', '}', false
	}
	schema := reflect.TypeFor[apiextensionsv1.JSONSchemaProps]()
	switch t {
	case reflect.TypeFor[apiextensionsv1.JSON]():
		f.shape = raw
		return
	case reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrBool]():
		f.shape, f.schemaAt, f.of = schemaOrFlag, 2, layoutOf(schema, known)
		return
	case reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrArray](), reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrStringArray]():
		f.shape, f.schemaAt, f.of = schemaOrList, 1, layoutOf(schema, known)
		return
	}
	switch t.Kind() {
	case reflect.Bool:
		f.shape, f.wire = flag, protowire.VarintType
	case reflect.Int64:
		f.shape, f.wire = number, protowire.VarintType
	case reflect.Float64:
		f.shape, f.wire = float, protowire.Fixed64Type
	case reflect.Struct:
		f.shape, f.of = message, layoutOf(t, known)
	}
}
