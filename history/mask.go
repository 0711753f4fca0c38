package history

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/resource"
)

// standIn begins what stands for a value of a Secret. The rest tells values apart, and nothing else of them.
const standIn = "kept-out:" // nine bytes: in base64 too it is the beginning of all that begins with it

// StandIn says that a value of a Secret is not its value.
func StandIn(value []byte) bool { return strings.HasPrefix(string(value), standIn) }

// Masked returns a Secret without its values, and without annotations, which may repeat them. Other objects it returns as they are.
func (l *Log) Masked(obj resource.Object) resource.Object {
	s, ok := obj.(*corev1.Secret)
	if !ok {
		return obj
	}
	out := *s
	out.ManagedFields, out.StringData = nil, nil
	out.Annotations = maps.Clone(s.Annotations)
	for _, key := range slices.Collect(maps.Keys(out.Annotations)) {
		if !strings.HasPrefix(key, "kubernetes.io/") {
			delete(out.Annotations, key)
		}
	}
	out.Data = make(map[string][]byte, len(s.Data))
	for key, value := range s.Data {
		if !StandIn(value) {
			sum := hmac.New(sha256.New, l.cfg.Secret)
			sum.Write([]byte(s.Namespace + "/" + s.Name + "/" + key + "\x00"))
			sum.Write(value)
			value = []byte(standIn + hex.EncodeToString(sum.Sum(nil)[:8]))
		}
		out.Data[key] = value
	}
	return &out
}

// plain is the object without who owns its fields, which is a third of it. Typed objects share the rest; of those that lie packed,
// it stays: unpacking them costs more. What it returns is good until the next call. It needs mu.
func (l *Log) plain(obj resource.Object) resource.Object {
	from := reflect.ValueOf(obj)
	if from.Kind() != reflect.Pointer || from.Elem().Kind() != reflect.Struct {
		return obj
	}
	meta := from.Elem().FieldByName("ObjectMeta")
	if !meta.IsValid() || meta.Type() != reflect.TypeFor[metav1.ObjectMeta]() {
		return obj
	}
	to, ok := l.bare[from.Type()]
	if !ok {
		if l.bare == nil {
			l.bare = map[reflect.Type]reflect.Value{}
		}
		to = reflect.New(from.Elem().Type())
		l.bare[from.Type()] = to
	}
	to.Elem().Set(from.Elem())
	out := to.Interface().(resource.Object)
	out.SetManagedFields(nil)
	out.SetResourceVersion("") // else the codec copies all of it to take it away
	return out
}

// HasStandIn says that something in a document, as JSON has it, stands for a value of a Secret.
func HasStandIn(doc []byte) bool {
	return bytes.Contains(doc, []byte(`"`+base64.StdEncoding.EncodeToString([]byte(standIn))))
}
