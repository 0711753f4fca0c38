package rule

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
)

// Internal is a value of an API type as upstream tells it in errors: its internal types have no names for JSON, so those of Go show, and
// what is not set does too.
func Internal(v any) any { return internal{v} }

type internal struct{ v any }

// MarshalJSON implements json.Marshaler.
func (i internal) MarshalJSON() ([]byte, error) {
	v := reflect.ValueOf(i.v)
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if v.Kind() == reflect.Slice && !v.IsNil() && v.Type().Elem().Kind() == reflect.Struct {
		list := make([]internal, v.Len())
		for k := range list {
			list[k].v = v.Index(k).Interface()
		}
		return json.Marshal(list)
	}
	if v.Kind() != reflect.Struct || !strings.HasPrefix(v.Type().PkgPath(), "k8s.io/api/") {
		return json.Marshal(i.v)
	}
	var b bytes.Buffer
	b.WriteByte('{')
	for f := range v.NumField() {
		value, err := json.Marshal(internal{v.Field(f).Interface()})
		if err != nil {
			return nil, err
		}
		if f > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`"` + v.Type().Field(f).Name + `":`)
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}
