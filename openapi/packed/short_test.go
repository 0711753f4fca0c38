package packed

import (
	"strings"
	"testing"
)

func TestLengthen(t *testing.T) {
	const doc = `{"description":"must be the one, the \n\n other","allOf":[{"$ref":"#/components/schemas/io.k8s.x"}],"type":"int"}` + "\n\t"
	small := doc
	for i, text := range Short {
		if text != "" {
			small = strings.ReplaceAll(small, text, string(rune(i)))
		}
	}
	if got := string(lengthen([]byte(small))); got != doc || len(small) >= len(doc) {
		t.Errorf("%q became %q", small, got)
	}
}
