package crd

import (
	"encoding/json"
	"fmt"
	"testing"
)

// What a conversion webhook may say of the metadata, in upstream's words. Objects that are applied may have none.
func TestRestoreMeta(t *testing.T) {
	for _, c := range []struct{ name, from, to, want, err string }{
		{"labels and annotations are the webhook's", `{"metadata":{"name":"a","uid":"u","labels":{"x":"1"}}}`,
			`{"metadata":{"name":"b","labels":{"y":"2"},"annotations":{"z":"3"}}}`,
			`{"annotations":{"z":"3"},"labels":{"y":"2"},"name":"a","uid":"u"}`, ""},
		{"it takes them away", `{"metadata":{"name":"a","labels":{"x":"1"}}}`, `{"metadata":{"labels":null}}`, `{"name":"a"}`, ""},
		{"the original has none", `{}`, `{"metadata":{"annotations":{"z":"3"}}}`, `{"annotations":{"z":"3"}}`, ""},
		{"there is none", `{"metadata":{"name":"a"}}`, `{}`, "", "missing metadata in converted object"},
		{"it is a list", `{"metadata":{"name":"a"}}`, `{"metadata":[]}`, "", "invalid metadata of type []interface {} in converted object"},
		{"labels are a list", `{"metadata":{}}`, `{"metadata":{"labels":[]}}`, "",
			"invalid metadata.labels of type []interface {} in converted object"},
		{"a label is a number", `{"metadata":{}}`, `{"metadata":{"labels":{"x":1}}}`, "",
			"metadata.labels[x] must be a string, but is float64 in converted object"},
		{"a label is bad", `{"metadata":{}}`, `{"metadata":{"labels":{"-":""}}}`, "", `metadata.labels: Invalid value: "-": name part must ` +
			`consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or ` +
			`'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`},
		{"a bad one stays", `{"metadata":{"labels":{"-":""}}}`, `{"metadata":{"labels":{"-":""}}}`, `{"labels":{"-":""}}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var from, to map[string]any
			if json.Unmarshal([]byte(c.from), &from) != nil || json.Unmarshal([]byte(c.to), &to) != nil {
				t.Fatal("the row is no JSON")
			}
			err := restoreMeta(from, to)
			if (err != nil || c.err != "") && fmt.Sprint(err) != c.err {
				t.Fatal(err)
			}
			if got, _ := json.Marshal(to["metadata"]); err == nil && string(got) != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}
