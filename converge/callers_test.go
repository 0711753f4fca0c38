package converge

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/internal/states"
)

var noon = states.Noon

// A refusal is found again by whose it is, goes when a write goes well, and old ones make room.
func TestCallers(t *testing.T) {
	now := noon
	c := &Callers{Now: func() time.Time { return now }}
	gr := schema.GroupResource{Group: "x.io", Resource: "widgets"}
	done := c.Watching(gr, "widget-operator/v1")
	c.Watching(gr, "kubectl/v1.37")
	if n := c.watchers(gr); n != 1 {
		t.Errorf("%d watch, want the operator alone", n)
	}
	c.Refused(Refusal{User: "u", Agent: "widget-operator/v1", Verb: "create", Message: "no"}, schema.GroupResource{Resource: "pods"}, "a",
		"")
	if r, ok := c.refusalFor(gr, "a", "w"); !ok || r.Message != "no" || r.Resource != "pods" {
		t.Errorf("refusal %+v, %v", r, ok)
	}
	c.Took("u", schema.GroupResource{Resource: "pods"}, "a", "")
	if _, ok := c.refusalFor(gr, "a", "w"); ok {
		t.Error("a refusal outlived a write that went well")
	}
	for i := range maxRefusals + 10 {
		now = now.Add(time.Second)
		c.Refused(Refusal{User: "u", Agent: "a"}, gr, "a", string(rune('a'+i%26))+time.Duration(i).String())
	}
	if len(c.refused) != maxRefusals {
		t.Errorf("%d refusals are kept", len(c.refused))
	}
	done()
	done()
	if n := c.watchers(gr); n != 0 {
		t.Errorf("%d watch after the end", n)
	}
}
