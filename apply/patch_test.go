package apply

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPatches(t *testing.T) {
	json := func(doc, patch string) ([]byte, error) { return JSONPatch([]byte(doc), []byte(patch)) }
	merge := func(doc, patch string) ([]byte, error) { return MergePatch([]byte(doc), []byte(patch), true) }
	strategic := func(doc, patch string) ([]byte, error) {
		return Strategic([]byte(doc), []byte(patch), &appsv1.Deployment{})
	}
	containers := `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"i"},{"name":"d","image":"j"}]}}}}`
	inside := func(s string) string { return `{"spec":{"template":{"spec":{"containers":[` + s + `]}}}}` }
	for _, c := range []struct {
		name       string
		f          func(doc, patch string) ([]byte, error)
		doc, patch string
		want       string // the result, or the code and reason of the error
	}{
		{"add", json, `{"data":{}}`, `[{"op":"add","path":"/data/x","value":"1"}]`, `{"data":{"x":"1"}}`},
		{"no parent", json, `{}`, `[{"op":"add","path":"/nope/x","value":"1"}]`, "422 Invalid"},
		{"list for a key", strategic, containers, inside(`{"name":["c"],"image":"x"}`), "400 BadRequest"},
		{"missing", json, `{"data":{}}`, `[{"op":"remove","path":"/data/zz"}]`, "422 Invalid"},
		{"test fails", json, `{"k":"v"}`, `[{"op":"test","path":"/k","value":"w"}]`, "422 Invalid"},
		{"unknown op", json, `{"k":"v"}`, `[{"op":"frob","path":"/k"}]`, "422 Invalid"},
		{"not a list", json, `{}`, `{"op":"add"}`, "400 BadRequest"},
		{"too many", json, `{}`, `[` + strings.Repeat(`{"op":"test","path":""},`, 10000) + `{"op":"test","path":""}]`,
			"413 RequestEntityTooLarge"},
		{"null deletes", merge, `{"a":{"b":1,"c":2}}`, `{"a":{"b":null}}`, `{"a":{"c":2}}`},
		{"list replaced", merge, `{"a":[1,2]}`, `{"a":[3]}`, `{"a":[3]}`},
		{"array body", merge, `{}`, `[]`, "400 BadRequest"},
		{"string body", merge, `{}`, `"x"`, "400 BadRequest"},
		{"malformed", merge, `{}`, `{"a":`, "400 BadRequest"},
		{"by name", strategic, containers, inside(`{"name":"c","image":"k"}`), inside(`{"image":"k","name":"c"},{"image":"j","name":"d"}`)},
		{"delete", strategic, containers, inside(`{"name":"c","$patch":"delete"}`), inside(`{"image":"j","name":"d"}`)},
		{"no merge key", strategic, containers, inside(`{"image":"k"}`), "500 "},
		{"no object", strategic, containers, `"x"`, "400 BadRequest"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := c.f(c.doc, c.patch)
			got := string(out)
			if err != nil {
				st := err.(apierrors.APIStatus).Status()
				got = fmt.Sprintf("%d %s", st.Code, st.Reason)
			}
			if got != c.want {
				t.Errorf("got %s (%v), want %s", got, err, c.want)
			}
		})
	}
}

func TestDuplicates(t *testing.T) {
	if got := Duplicates([]byte(`{"data":{"x":"1","x":"2"}}`)); len(got) != 1 || !strings.Contains(got[0].Error(), `"data.x"`) {
		t.Errorf("got %v", got)
	}
}

// A patch that copies its way to more than 3 MiB is refused.
func TestCopiesAreBounded(t *testing.T) {
	BoundCopies()
	doc := []byte(`{"a":"` + strings.Repeat("x", 100<<10) + `"}`)
	patch := func(copies int) []byte {
		ops := make([]string, copies)
		for i := range ops {
			ops[i] = fmt.Sprintf(`{"op":"copy","from":"/a","path":"/c%d"}`, i)
		}
		return []byte("[" + strings.Join(ops, ",") + "]")
	}
	if out, err := JSONPatch(doc, patch(20)); err != nil || len(out) < 20*100<<10 {
		t.Errorf("20 copies: %d bytes, %v", len(out), err)
	}
	if _, err := JSONPatch(doc, patch(40)); apierrors.ReasonForError(err) != metav1.StatusReasonInvalid {
		t.Errorf("40 copies: %v", err)
	}
}

// What can't be read or does not fit is told in the words that upstream's libraries have for it.
func TestPatchErrors(t *testing.T) {
	ops := func(patch string) error { _, err := CheckOperations([]byte(patch)); return err }
	read := func(patch string) error { _, err := Read([]byte(patch)); return err }
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"not a list of operations",
			ops(`{}`), "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"},
		{"an operation that is no word",
			ops(`[{"op":1}]`), "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string"},
		{"a list for an object", read(`[]`),
			"error decoding patch: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go value of type " +
				"map[string]interface {}"},
		{"no YAML", read(`a: [`), "error decoding patch: error converting YAML to JSON: yaml: line 1: did not find expected node content"},
		{"a word for a boolean",
			UnfitStrategic([]byte(`{"spec":{"paused":"x"}}`), []byte(`{"spec":{"paused":"x"}}`), &appsv1.Deployment{}, errors.New("")),
			` "" is invalid: patch: Invalid value: "map[spec:map[paused:x]]": unrecognized type: bool`},
		{"a fault without a type",
			UnfitStrategic([]byte(`{"a":1}`), nil, nil, errors.New("odd")), ` "" is invalid: patch: Invalid value: "map[a:1]": odd`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.err == nil || c.err.Error() != c.want {
				t.Errorf("got\n%v, want\n%v", c.err, c.want)
			}
		})
	}
	strict, err := CheckOperations([]byte(`[{"op":"add","op":"add","path":"/a","value":1,"more":2}]`))
	if got := fmt.Sprint(strict, err); got != `[json patch duplicate field "[0].op" json patch unknown field "[0].more"] <nil>` {
		t.Error(got)
	}
}
