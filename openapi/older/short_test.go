package older

import "testing"

func TestShorten(t *testing.T) {
	const doc = `{"description":"must be the one, the \n\n other","allOf":[{"$ref":"#/components/schemas/io.k8s.x"}],"type":"int"}` + "\n\t"
	small := Shorten([]byte(doc))
	if got := string(Lengthen(small)); got != doc || len(small) >= len(doc) {
		t.Errorf("%q became %q", small, got)
	}
}
