package apply

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 300) + "1" + strings.Repeat("}", 300)
	for patch, want := range map[string]string{
		` {"a":{"b":1},"c":1.5}`:                `{"a":{"b":1},"c":1.5} [] <nil>`,
		"a: {b: 1}\nc: x\n":                     `{"a":{"b":1},"c":"x"} [] <nil>`,
		`{a: {b: 1}}`:                           `{"a":{"b":1}} [] <nil>`,
		"":                                      `{} [] <nil>`,
		"null":                                  `{} [] <nil>`,
		deep:                                    `error decoding patch: exceeded max depth`,
		strings.ReplaceAll(deep, `"a":`, "a: "): `error decoding patch: exceeded max depth`,
		`{"a":1`: "error decoding patch: error converting YAML to JSON: yaml: line 1: " +
			"did not find expected ',' or '}'",
		`{"a":{"b":1,"b":2}}`: `{"a":{"b":2}} [yaml: unmarshal errors:` + "\n" +
			`  line 1: key "b" already set in map] <nil>`,
		"a:\n  b: 1\n  b: 2\n": `{"a":{"b":2}} [yaml: unmarshal errors:` + "\n" +
			`  line 3: key "b" already set in map] <nil>`,
	} {
		t.Run(patch, func(t *testing.T) {
			c, err := Read([]byte(patch))
			got := fmt.Sprint(err)
			if err == nil {
				doc, _ := json.Marshal(c.doc)
				got = fmt.Sprint(string(doc), " ", c.Twice, " ", err)
			}
			if got != want {
				t.Errorf("%.40q:\ngot  %s\nwant %s", patch, got, want)
			}
		})
	}
}
