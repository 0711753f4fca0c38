package pattern

import "testing"

func TestPattern(t *testing.T) {
	p := New(`a(b+)`)
	if p.re != nil {
		t.Error("it is compiled before anybody asks")
	}
	if !p.MatchString("xabb") || p.FindStringSubmatch("xabb")[1] != "bb" {
		t.Error("it finds something else")
	}
}
