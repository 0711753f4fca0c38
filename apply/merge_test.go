package apply

import (
	"encoding/json"
	"reflect"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

// FuzzMerge compares merge patches by splicing with those of the library.
func FuzzMerge(f *testing.F) {
	for _, c := range [][2]string{
		{`{"a":{"b":1,"c":[1,{"d":null}]},"e":"x\"y"}`, `{"a":{"b":null,"f":{"g":1}},"h":[1,2]}`},
		{`{"metadata":{"annotations":{"a":"1"}},"spec":{}}`, `{"metadata":{"annotations":{"b":"2","a":null},"labels":{"x":"y"}}}`},
		{`{}`, `{"a":{"b":{}}}`}, {`{"a":1}`, `{"a":{"b":2}}`}, {`{"a":{"b":2}}`, `{"a":[]}`}, {`{"a":null}`, `{"a":{"b":1}}`},
		{` { "a" : 1.5e3 , "b" : true } `, `{ "b" : false }`}, {podJSON,
			`{"spec":{"containers":null,"hostNetwork":true},"status":{"phase":"x"}}`},
		{`{"a":{}}`, `{"a":{}}`}, {`{"a":"{"}`, `{"b":"}"}`}, {`{"a":"\\"}`, `{"a":{"x":1}}`},
	} {
		f.Add([]byte(c[0]), []byte(c[1]))
	}
	f.Fuzz(func(t *testing.T, doc, patch []byte) {
		var d map[string]any
		if !json.Valid(doc) || json.Unmarshal(doc, &d) != nil || d == nil || !json.Valid(patch) ||
			len(Duplicates(doc))+len(Duplicates(patch)) > 0 {
			t.Skip() // documents are our own, and each name stands in them once
		}
		got, ok := spliceMerge(doc, patch)
		if !ok {
			return
		}
		want, err := jsonpatch.MergePatch(doc, patch)
		if err != nil {
			t.Fatalf("the library refuses %s on %s: %v", patch, doc, err)
		}
		var a, b any
		if err := json.Unmarshal(got, &a); err != nil {
			t.Fatalf("%s on %s is %s: %v", patch, doc, got, err)
		}
		if json.Unmarshal(want, &b) != nil || !reflect.DeepEqual(a, b) {
			t.Fatalf("%s on %s is %s, want %s", patch, doc, got, want)
		}
	})
}
