package apply

import (
	"encoding/base64"
	"reflect"
	"time"

	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// same compares a decoded value with a live one, down to the bottom.
func same(v any, live reflect.Value) bool {
	live = deref(live)
	if v == nil || isNull(live) {
		return v == nil && isNull(live)
	}
	if _, ok := scalarTypes[live.Type()]; ok {
		return sameSpecial(v, live)
	}
	entry := value.TypeReflectEntryOf(live.Type())
	if entry.CanConvertToUnstructured() {
		return false
	}
	switch v := v.(type) {
	case string:
		if live.Kind() == reflect.Slice && live.Type().Elem().Kind() == reflect.Uint8 {
			return v == base64.StdEncoding.EncodeToString(live.Bytes())
		}
		return live.Kind() == reflect.String && live.String() == v
	case bool:
		return live.Kind() == reflect.Bool && live.Bool() == v
	case int64:
		return live.CanInt() && live.Int() == v
	case []any:
		return live.Kind() == reflect.Slice && live.Len() == len(v) && sameItems(v, live)
	case map[string]any:
		return sameEntries(v, live, entry)
	}
	return false
}

func sameItems(l []any, live reflect.Value) bool {
	for i, v := range l {
		if !same(v, live.Index(i)) {
			return false
		}
	}
	return true
}

func sameEntries(m map[string]any, live reflect.Value, e *value.TypeReflectCacheEntry) bool {
	switch live.Kind() {
	case reflect.Map:
		if live.Len() != len(m) {
			return false
		}
		for name, v := range m {
			if x := entry(live, name); !x.IsValid() || !same(v, x) {
				return false
			}
		}
		return true
	case reflect.Struct:
		met := 0
		for _, f := range e.OrderedFields() {
			x := f.GetFrom(live)
			if f.CanOmit(x) {
				continue
			}
			if v, ok := m[f.JsonName]; !ok || !same(v, x) {
				return false
			}
			met++
		}
		return met == len(m)
	}
	return false
}

// sameSpecial compares types that write themselves.
func sameSpecial(v any, live reflect.Value) bool {
	switch x := live.Interface().(type) {
	case apiresource.Quantity:
		return v == x.String()
	case intstr.IntOrString:
		if x.Type == intstr.Int {
			return v == int64(x.IntVal)
		}
		return v == x.StrVal
	case metav1.Time:
		return v == x.UTC().Format(time.RFC3339)
	case metav1.MicroTime:
		return v == x.UTC().Format(metav1.RFC3339Micro)
	}
	return false
}
