package crd

import (
	"encoding/json"
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Setting owners of fields is the same as in the library's tree.
func TestSetManagedFields(t *testing.T) {
	now := metav1.Unix(1767225600, 0)
	for _, list := range [][]metav1.ManagedFieldsEntry{
		nil, {}, {{}},
		{{Manager: "m", Operation: "Update", APIVersion: "v1", FieldsType: "FieldsV1", Subresource: "status", Time: &now,
			FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:a":{".":{},"k:{\"n\":1}":{}}}`)}}, {Manager: "n", FieldsV1: &metav1.FieldsV1{}}},
	} {
		ours := &Object{}
		ours.Object = map[string]any{"metadata": map[string]any{"name": "a"}}
		theirs := ours.DeepCopy()
		ours.SetManagedFields(list)
		theirs.SetManagedFields(list)
		if !reflect.DeepEqual(ours.Object, theirs.Object) {
			t.Errorf("got %v, want %v", ours.Object, theirs.Object)
		}
	}
}

// Owners of fields are read as the library reads its tree, whatever is in it; and so are they from the text of a stored object.
func TestGetManagedFields(t *testing.T) {
	k := databaseKind(t)
	for _, list := range []string{
		`null`, `{}`, `[]`, `[{}]`, `[1]`, `[{"manager":1}]`, `[{"manager":""}]`, `[{"time":null,"fieldsV1":null}]`,
		`[{"manager":"m","operation":"Update","apiVersion":"v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","subresource":"status",` +
			`"fieldsV1":{"f:spec":{".":{},"k:{\"n\":1}":{".":{},"f:a":{}}}}},{"manager":"n\"\\","operation":"Apply","fieldsV1":{}}]`,
		`[{"manager":"m","time":"2026-01-01T00:00:00+01:00"}]`, `[{"manager":"m","time":"2026-01-01T00:00:00.5Z"}]`, `[{"fieldsV1":{"f:a":1}}]`,
	} {
		t.Run(list, func(t *testing.T) {
			o := &Object{}
			doc := `{"apiVersion":"example.com/v1","kind":"Database","metadata":{"managedFields":` + list + `}}`
			if err := json.Unmarshal([]byte(doc), &o.Object); err != nil {
				t.Fatal(err)
			}
			want := o.Unstructured.GetManagedFields()
			if got := o.GetManagedFields(); !reflect.DeepEqual(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
			if err := coerced(k, o); err != nil {
				return // nobody stores it
			}
			want = o.Unstructured.GetManagedFields()
			s := k.Pack(o, nil, 1).(*Stored)
			if got := s.GetManagedFields(); !reflect.DeepEqual(got, want) {
				t.Errorf("stored: got %v, want %v", got, want)
			}
		})
	}
}

// coerced has the types and fields that its schema wants.
func coerced(k *Kind, o *Object) error {
	_, err := k.hub.coerce(o.Object, false, false)
	return err
}
