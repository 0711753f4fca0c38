//go:build e2e

package servers

import (
	"fmt"
	"math"
	"testing"

	"github.com/anishathalye/porcupine"
	"k8s.io/apimachinery/pkg/watch"
)

// The judge of TestKillAndCutOff takes what may happen and nothing else, also where many ends are unknown.
func TestJudge(t *testing.T) {
	var h history
	var events []told
	clock := int64(0)
	op := func(kind, value, from, got string) {
		clock += 10
		o := porcupine.Operation{ClientId: len(h.ops), Input: action{kind: kind, key: "k", value: value, from: from}, Call: clock,
			Output: got, Return: clock + 5}
		if got == unknown {
			o.Return = math.MaxInt64
		}
		h.ops = append(h.ops, o)
	}
	event := func(typ watch.EventType, value string) {
		events = append(events, told{rev: int64(len(events) + 1), typ: typ, name: "k", value: value})
	}
	h.acked = map[string]string{}
	for i := range 30 {
		v := fmt.Sprint("v", i)
		h.acked[v] = v
		op("create", v, "", done)
		op("get", "", "", v)
		op("delete", "", "", unknown) // these are never done
		op("put", v+"!", "", unknown)
		op("put", v+"+", "", unknown) // these are
		op("get", "", "", v+"+")
		op("create", v+"?", "", refused)
		op("delete", "", "", done)
		op("delete", "", "", refused)
		event(watch.Added, v)
		event(watch.Modified, v+"+")
		event(watch.Deleted, v+"+")
	}
	if err := h.check(events); err != nil {
		t.Error(err)
	}
	for what, bad := range map[string]porcupine.Operation{
		"a read of what was deleted long ago": {Input: action{kind: "get", key: "k"}, Call: 2001, Return: 2002, Output: "v1"},
		"a read of what nobody wrote":         {Input: action{kind: "get", key: "k"}, Call: 2001, Return: 2002, Output: "v"},
		"a write that the watches don't tell": {Input: action{kind: "put", key: "k", value: "w"}, Call: 1, Return: 2002, Output: done},
		"a deletion that the watches don't":   {Input: action{kind: "delete", key: "k"}, Call: 1, Return: 2002, Output: done},
		"a refusal of what could be made": {Input: action{kind: "create", key: "k", value: "w"}, Call: clock + 10,
			Return: clock + 11, Output: refused},
		"a swap of another value than expected": {Input: action{kind: "swap", key: "k", value: "v1+", from: "v0"}, Call: 1, Return: 2002,
			Output: done},
	} {
		worse := history{ops: append(h.ops[:len(h.ops):len(h.ops)], bad), acked: h.acked}
		if err := worse.check(events); err == nil {
			t.Errorf("%s is taken", what)
		}
	}
	op("create", "last", "", done)
	op("delete", "", "", unknown) // this one is done
	op("get", "", "", "")
	event(watch.Added, "last")
	event(watch.Deleted, "last")
	if err := h.check(events); err != nil {
		t.Error(err)
	}
}
