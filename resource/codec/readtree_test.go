package codec

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	kjson "sigs.k8s.io/json"
)

// trees are documents, and whether they are read without the library.
var trees = []struct {
	doc   string
	plain bool
}{
	{`{}`, true}, {" {\n\"a\" :\t1 ,\r\"b\":[ ]} ", true}, {`{"a":{"b":[1,-2,"x",true,false,null,{"c":{}},[[]]]},"é":"ü"}`, true},
	{`{"a":"\n\"\\\u00e9\ud83d\ude00\ud83d"}`, true}, {`{"\u0061":0,"b":999999999999999999}`, true},
	{`{"a":1,"a":2}`, false}, {`{"a":1,"\u0061":2}`, false}, {`{"a":{"b":1,"b":1}}`, false}, {`{"a":1,"A":2}`, true},
	{`{"a":1.5}`, false}, {`{"a":1e3}`, false}, {`{"a":-0}`, false}, {`{"a":9223372036854775807}`, false},
	{`{"a":01}`, false}, {`{"a":+1}`, false}, {`{"a":-}`, false}, {`{"a":1a}`, false}, {`{"a":.5}`, false}, {`{"a":1`, false},
	{``, false}, {`null`, false}, {`[]`, false}, {`{`, false}, {`{"a"`, false}, {`{"a":`, false}, {`{"a":1,}`, false}, {`{,}`, false},
	{`{"a":[1,]}`, false}, {`{"a":[1 2]}`, false}, {`{"a" 1}`, false}, {`{a:1}`, false}, {`{"a":1}x`, false}, {`{"a":1}{}`, false},
	{`{"a":tru}`, false}, {`{"a":nul`, false}, {`{"a":truer}`, false}, {`{"a":"b}`, false}, {`{"a":"\`, false}, {`{"a":"\x"}`, false},
	{"{\"a\":\"\t\"}", false}, {"{\"a\":\"\xff\"}", false}, {"{\"a\":\"\x7f\"}", true}, {"\ufeff{}", false}, {`{"a":"\u00"}`, false},
	{`{"a":` + strings.Repeat(`[`, maxDepth-2) + strings.Repeat(`]`, maxDepth-2) + `}`, true},
	{`{"a":` + strings.Repeat(`[`, 3*maxDepth) + strings.Repeat(`]`, 3*maxDepth) + `}`, false},
}

func TestUnmarshalTree(t *testing.T) {
	for _, c := range trees {
		t.Run(fmt.Sprintf("%.40q", c.doc), func(t *testing.T) {
			if _, ok := ReadTree(c.doc); ok != c.plain {
				t.Errorf("plain %v, want %v", ok, c.plain)
			}
			sameAsLibrary(t, c.doc)
		})
	}
}

func FuzzUnmarshalTree(f *testing.F) {
	for _, c := range trees {
		f.Add(c.doc)
	}
	f.Fuzz(sameAsLibrary)
}

func sameAsLibrary(t *testing.T, doc string) {
	var want map[string]any
	wantTwice, wantErr := kjson.UnmarshalStrict([]byte(doc), &want)
	tree, twice, err := UnmarshalTree([]byte(doc))
	if !reflect.DeepEqual(tree, want) || fmt.Sprint(twice) != fmt.Sprint(wantTwice) || fmt.Sprint(err) != fmt.Sprint(wantErr) {
		t.Errorf("%q: got %v, %v, %v, want %v, %v, %v", doc, tree, twice, err, want, wantTwice, wantErr)
	}
}
