package apply

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Long fields come to the library in order, and mean the same.
func TestTidied(t *testing.T) {
	fields := func(n int, one string) string {
		var b strings.Builder
		for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(n) {
			fmt.Fprintf(&b, `,"`+one+`":{}`, i)
		}
		return `{"f:x":{` + b.String()[1:] + `}}`
	}
	for _, tt := range []struct {
		name, raw string
		same, ok  bool
	}{
		{"short", fields(10, "f:k%d"), true, true},
		{"names", fields(9000, "f:k%d"), false, true},
		{"numbers", fields(9000, "v:%d"), false, true},
		{"keys", fields(9000, `k:{\"uid\":\"%d\"}`), false, true},
		{"keys that are numbers", fields(9000, `k:{\"port\":%d}`), false, true},
		{"spaces", strings.ReplaceAll(fields(9000, "f:k%d"), ":{", ": {"), false, true},
		{"in order", string(inOrderJSON([]byte(fields(9000, "f:k%d")))), true, true},
		{"twice", strings.Replace(fields(9000, "f:k%d"), `"f:k17":`, `"f:k18":`, 1), false, false},
		{"no JSON", fields(9000, "f:k%d") + "}", false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			list := []metav1.ManagedFieldsEntry{{FieldsV1: &metav1.FieldsV1{Raw: []byte(tt.raw)}}}
			got := tidied(list)[0].FieldsV1.Raw
			if string(got) == tt.raw != tt.same || string(list[0].FieldsV1.Raw) != tt.raw {
				t.Errorf("changed: %v, the client's list: %v", string(got) != tt.raw, string(list[0].FieldsV1.Raw) != tt.raw)
			}
			var was, is fieldpath.Set
			if err := is.FromJSON(bytes.NewReader(got)); (err == nil) != tt.ok {
				t.Fatalf("read: %v", err)
			}
			if err := was.FromJSON(strings.NewReader(tt.raw)); tt.ok && (err != nil || !was.Equals(&is)) {
				t.Errorf("another set: %v", err)
			}
		})
	}
}
