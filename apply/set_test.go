package apply

import (
	"bytes"
	"testing"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

const (
	setA = `{"f:a":{},"f:l":{".":{},"k:{\"name\":\"c\"}":{".":{},"f:name":{},"f:v":{}},"k:{\"name\":\"d\",\"port\":80}":{}},` +
		`"f:s":{"v:\"x\"":{},"v:2":{}}}`
	setB = `{"f:a":{"f:b":{}},"f:l":{"k:{\"name\":\"c\"}":{"f:v":{}}},"f:z":{}}`
)

func mustParse(t *testing.T, text string) set {
	t.Helper()
	s, ok := parseSet([]byte(text))
	if !ok {
		t.Fatalf("can't parse %s", text)
	}
	return s
}

func libraryParse(t *testing.T, text string) *fieldpath.Set {
	t.Helper()
	s := &fieldpath.Set{}
	if err := s.FromJSON(bytes.NewReader([]byte(text))); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSetAlgebra(t *testing.T) {
	a := `{"f:a":{},"f:l":{".":{},"k:{\"name\":\"c\"}":{".":{},"f:name":{},"f:v":{}},"k:{\"name\":\"d\",\"port\":80}":{}},"f:s":{"v:2":{},` +
		`"v:\"x\"":{}}}`
	for _, c := range []struct {
		name string
		got  set
		want *fieldpath.Set
	}{
		{"union", mustParse(t, a).union(mustParse(t, setB)), libraryParse(t, a).Union(libraryParse(t, setB))},
		{"minus", first(mustParse(t, a).minus(mustParse(t, setB), member)), libraryParse(t, a).Difference(libraryParse(t, setB))},
		{"minus the other way", first(mustParse(t, setB).minus(mustParse(t, a), member)), libraryParse(t, setB).Difference(libraryParse(t, a))},
		{"minus nothing", first(mustParse(t, a).minus(nil, member)), libraryParse(t, a)},
		{"minus itself", first(mustParse(t, a).minus(mustParse(t, a), member)), fieldpath.NewSet()},
		{"without", mustParse(t, a).without([]string{"f:l", `k:{\"name\":\"c\"}`}),
			libraryParse(t, a).RecursiveDifference(libraryParse(t, `{"f:l":{"k:{\"name\":\"c\"}":{}}}`))},
	} {
		t.Run(c.name, func(t *testing.T) {
			want, err := c.want.ToJSON()
			if got := c.got.appendJSON(nil); err != nil || string(got) != string(want) {
				t.Errorf("%s: got %s, want %s (%v)", c.name, got, want, err)
			}
		})
	}
}

func first(s set, _ bool) set { return s }

func TestParseSetRefuses(t *testing.T) {
	for _, text := range []string{``, `null`, `{`, `[]`, `{"f:a":{}`, `{"f:a":{} }`, `{"f:b":{},"f:a":{}}`, `{"f:a":{},"f:a":{}}`, `{"f:a":1}`,
		`{"f:a":{".":{}}}`, `{"x:a":{}}`, `{"f:a\"b":{}}`, `{"k:{}":{}}`, `{"k:{\"a\":}":{}}`, `{"v:1.5":{}}`, `{"v:01":{}}`,
		`{"i:0":{}}`, `{"v":{}}`,
		`{".":{},"f:a":{}}`, setA} { // numbers come before strings
		if s, ok := parseSet([]byte(text)); ok {
			t.Errorf("%s is taken for %v", text, s)
		}
	}
}

// FuzzParseSet checks that what is accepted means the same to the library and is written as it was.
func FuzzParseSet(f *testing.F) {
	f.Add([]byte(setA))
	f.Add([]byte(setB))
	f.Add([]byte(`{"f:a":{"v:true":{},"v:-3":{}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, ok := parseSet(b)
		if !ok {
			return
		}
		if got := s.appendJSON(nil); string(got) != string(b) {
			t.Fatalf("%s is written as %s", b, got)
		}
		lib := &fieldpath.Set{}
		if err := lib.FromJSON(bytes.NewReader(b)); err != nil {
			t.Skip() // odd characters in names, which no object has
		}
		if want, err := lib.ToJSON(); err == nil && string(want) != string(b) {
			t.Fatalf("%s is %s to the library", b, want)
		}
	})
}
