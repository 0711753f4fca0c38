package codec

import (
	"errors"
	"reflect"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kloop-dev/kloop/resource"
)

// maxElements bounds the bytes that elements of lists and maps take once they are decoded, each as large as its type: an empty container
// has three bytes in a body, and hundreds in memory.
//
// Unlike Kubernetes, which spends gigabytes on three megabytes, bodies with more are refused. Nothing that can be stored comes near.
const maxElements = 192 << 20

// Documents that are short can't have many elements, and short messages not be deep.
const (
	shortDocument = 64 << 10
	shortMessage  = 2 << 10
)

// ErrElements says that a body has too many elements in lists and maps.
var ErrElements = errors.New("its lists and maps have so many elements that they take more than 192 MiB")

var errDeepMessage = errors.New("proto: exceeded max depth")

// CheckElements refuses a JSON document whose lists and maps may have too many elements, to be decoded into what obj points to: with
// ErrElements. As many as there are commas are thought to be of the largest type.
func CheckElements(doc []byte, obj any) error {
	if len(doc) < shortDocument {
		return nil
	}
	size := largest(reflect.TypeOf(obj), map[reflect.Type]bool{})
	n := 0
	for i := 0; i < len(doc); i++ {
		switch doc[i] {
		case '"':
			i = endOfText(doc, i)
		case ',':
			n++
		}
	}
	if int64(n)*int64(size) > maxElements {
		return ErrElements
	}
	return nil
}

// CheckMessage refuses a protobuf message that is nested deeper than documents may be, or has too many elements (ErrElements), before it is
// decoded into what obj points to. What is no message of that kind may pass.
func CheckMessage(message []byte, obj any) error {
	if len(message) < shortMessage {
		return nil
	}
	left := maxElements
	return weighMessage(message, reflect.TypeOf(obj).Elem(), maxDepth, &left)
}

func weighMessage(data []byte, t reflect.Type, depth int, left *int) error {
	if depth == 0 {
		return errDeepMessage
	}
	fields := messageFields(t)
	for len(data) > 0 {
		n, typ, size := protowire.ConsumeTag(data)
		if size < 0 {
			return nil
		}
		data = data[size:]
		if size = protowire.ConsumeFieldValue(n, typ, data); size < 0 {
			return nil
		}
		if f, ok := fields[n]; ok && typ == protowire.BytesType {
			if *left -= f.size; *left < 0 {
				return ErrElements
			}
			if content, _ := protowire.ConsumeBytes(data); f.of != nil {
				if err := weighMessage(content, f.of, depth-1, left); err != nil {
					return err
				}
			}
		}
		data = data[size:]
	}
	return nil
}

// A messageField is a field of a message that holds messages, or elements.
type messageField struct {
	size int          // of one element, or of what a pointer points to; 0: it has its place in the message
	of   reflect.Type // the message in it; nil: it is none
}

// knownMessages caches messageFields: the types of the API are few.
var knownMessages sync.Map

// messageFields are the fields of a struct by their numbers, or those of the entries of a map.
func messageFields(t reflect.Type) map[protowire.Number]messageField {
	if known, ok := knownMessages.Load(t); ok {
		return known.(map[protowire.Number]messageField)
	}
	all := map[protowire.Number]messageField{}
	switch t.Kind() {
	case reflect.Map:
		all[2] = messageFieldOf(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if n, ok := resource.FieldNumber(t.Field(i)); ok {
				all[n] = messageFieldOf(t.Field(i).Type)
			}
		}
	}
	knownMessages.Store(t, all)
	return all
}

func messageFieldOf(t reflect.Type) (f messageField) {
	switch t.Kind() {
	case reflect.Map: // its entries are messages
		return messageField{int(t.Key().Size() + t.Elem().Size()), t}
	case reflect.Slice, reflect.Pointer:
		if f.size, t = int(t.Elem().Size()), t.Elem(); t.Kind() == reflect.Pointer {
			f.size, t = f.size+int(t.Elem().Size()), t.Elem()
		}
	}
	if t.Kind() == reflect.Struct {
		f.of = t
	}
	return f
}

// largest is the size of the largest type of elements that lists and maps of a JSON document may have below a type; 0: they are trees.
func largest(t reflect.Type, seen map[reflect.Type]bool) (size int) {
	switch t.Kind() {
	case reflect.Pointer:
		return largest(t.Elem(), seen)
	case reflect.Slice, reflect.Map:
		e := t.Elem()
		if e.Kind() == reflect.Pointer {
			e = e.Elem()
		}
		return max(int(e.Size()), largest(e, seen))
	case reflect.Struct:
		if seen[t] {
			return 0
		}
		seen[t] = true
		for i := range t.NumField() {
			if f := t.Field(i); f.Tag.Get("json") != "" {
				size = max(size, largest(f.Type, seen))
			}
		}
	}
	return size
}
