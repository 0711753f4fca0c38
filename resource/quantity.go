package resource

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
)

// maxDigits bounds the digits of a quantity, maxExponent those of its exponent: what is longer takes the parser of the
// library minutes of work and gigabytes, from a text of a dozen characters.
const (
	maxDigits   = 100
	maxExponent = 3
)

// ParseQuantity reads a quantity that others wrote. One that is too dear to read is refused like one that is malformed.
//
// Unlike Kubernetes, quantities of more than 100 digits, or with an exponent of more than three, are refused.
func ParseQuantity(text string) (apiresource.Quantity, error) {
	if DearQuantity(text) {
		return apiresource.Quantity{}, apiresource.ErrFormatWrong
	}
	return apiresource.ParseQuantity(text)
}

// DearQuantity says that a text holds what would be dear to read as a quantity.
func DearQuantity[T string | []byte](text T) bool {
	_, _, found := nextDear(text, 0)
	return found
}

// nextDear finds the next number in text whose digits or exponent are too many. It returns where it starts, without its sign,
// and where it ends.
func nextDear[T string | []byte](text T, from int) (start, end int, found bool) {
	for i := from; i < len(text); i++ {
		if !numeric(text[i]) {
			continue
		}
		start := i
		for i < len(text) && numeric(text[i]) {
			i++
		}
		dear := i-start > maxDigits
		if i < len(text) && text[i]|0x20 == 'e' {
			at := i + 1
			if at < len(text) && (text[at] == '-' || text[at] == '+') {
				at++
			}
			i = at
			for i < len(text) && text[i] >= '0' && text[i] <= '9' {
				i++
			}
			dear = dear || i-at > maxExponent
		}
		if dear {
			return start, i, true
		}
		i--
	}
	return 0, 0, false
}

func numeric(c byte) bool { return c >= '0' && c <= '9' || c == '.' }

// spoiled takes the place of an expensive number where a quantity may be: no quantity, and any other string or value.
const spoiled = "!"

// SpoilQuantities returns a JSON document in whose place doc can be tried: what is too dear to be read as a quantity is
// malformed in it. It returns nil when there is nothing of the kind, which is the rule.
func SpoilQuantities(doc []byte) []byte {
	at, end, found := nextDear(doc, 0)
	if !found {
		return nil
	}
	out := bytes.Clone(doc)
	inside, seen := false, 0 // of a string, up to where it was looked
	for ; found; at, end, found = nextDear(doc, end) {
		for ; seen < at; seen++ {
			switch doc[seen] {
			case '"':
				inside = !inside
			case '\\':
				if inside {
					seen++
				}
			}
		}
		if inside {
			out[at] = spoiled[0]
			continue
		}
		if at > 0 && doc[at-1] == '-' {
			at--
		}
		n := copy(out[at:end], `"`+spoiled+`"`)
		for i := at + n; i < end; i++ {
			out[i] = ' '
		}
	}
	return out
}

// SpoilTree is SpoilQuantities for a document that is decoded already. The tree itself is not changed; nil is for one without
// anything dear.
func SpoilTree(tree map[string]any) map[string]any {
	if !dearTree(tree) {
		return nil
	}
	return spoilTree(tree).(map[string]any)
}

func dearTree(v any) bool {
	switch x := v.(type) {
	case string:
		return DearQuantity(x)
	case json.Number:
		return DearQuantity(string(x))
	case map[string]any:
		for _, of := range x {
			if dearTree(of) {
				return true
			}
		}
	case []any:
		for _, of := range x {
			if dearTree(of) {
				return true
			}
		}
	}
	return false
}

func spoilTree(v any) any {
	switch x := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, of := range x {
			out[k] = spoilTree(of)
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, of := range x {
			out[i] = spoilTree(of)
		}
		return out
	}
	if dearTree(v) {
		return spoiled
	}
	return v
}

var quantityType = reflect.TypeFor[apiresource.Quantity]()

// CheckQuantities refuses a protobuf message of the type that obj points to when a quantity in it is too dear to be read.
// What is no such message is left to its decoder to refuse.
func CheckQuantities(message []byte, obj any) error {
	if t := bare(reflect.TypeOf(obj)); len(quantityFields(t)) > 0 && DearQuantity(message) {
		return checkMessage(message, t)
	}
	return nil
}

// HoldsQuantity says whether what obj points to can hold a quantity.
func HoldsQuantity(obj any) bool { return len(quantityFields(bare(reflect.TypeOf(obj)))) > 0 }

func checkMessage(data []byte, t reflect.Type) error {
	fields := quantityFields(t)
	for len(data) > 0 && len(fields) > 0 {
		n, typ, size := protowire.ConsumeTag(data)
		if size < 0 {
			return nil
		}
		data = data[size:]
		if size = protowire.ConsumeFieldValue(n, typ, data); size < 0 {
			return nil
		}
		if of := fields[n]; typ == protowire.BytesType && of != nil {
			content, _ := protowire.ConsumeBytes(data)
			if err := checkField(content, t, of); err != nil {
				return err
			}
		}
		data = data[size:]
	}
	return nil
}

// checkField checks the content of a field of type of in a message of type t.
func checkField(content []byte, t, of reflect.Type) error {
	if !DearQuantity(content) {
		return nil
	}
	if t == quantityType {
		return apiresource.ErrFormatWrong
	}
	return checkMessage(content, of)
}

// knownFields caches quantityFields: the message types of the API are few.
var knownFields sync.Map // reflect.Type -> map[protowire.Number]reflect.Type

// FieldNumber is the number by which a field of a type of the API goes in protobuf; false: it does not.
func FieldNumber(f reflect.StructField) (protowire.Number, bool) {
	_, rest, _ := strings.Cut(f.Tag.Get("protobuf"), ",")
	text, _, _ := strings.Cut(rest, ",")
	n, err := strconv.Atoi(text)
	return protowire.Number(n), err == nil
}

// quantityFields are the fields of a message that lead to a quantity, by number. Of a quantity itself it is the text; of an entry of a map
// it is key and value.
func quantityFields(t reflect.Type) map[protowire.Number]reflect.Type {
	if known, ok := knownFields.Load(t); ok {
		return known.(map[protowire.Number]reflect.Type)
	}
	all := map[protowire.Number]reflect.Type{}
	switch {
	case t == nil:
	case t == quantityType:
		all[1] = t
	case t.Kind() == reflect.Map:
		all[1], all[2] = bare(t.Key()), bare(t.Elem())
	case t.Kind() == reflect.Struct:
		for i := range t.NumField() {
			if n, ok := FieldNumber(t.Field(i)); ok {
				all[n] = bare(t.Field(i).Type)
			}
		}
	}
	for n, of := range all {
		if !leadsTo(of, quantityType) {
			delete(all, n)
		}
	}
	knownFields.Store(t, all)
	return all
}
