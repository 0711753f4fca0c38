package apply

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// many is a list of n elements, the number of each where the text says %d.
func many(n int, text string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, text, i)
		b.WriteByte(',')
	}
	return "[" + strings.TrimSuffix(b.String(), ",") + "]"
}

// Patches whose size does not explain what they cost are refused, and no others.
func TestPatchBounds(t *testing.T) {
	pod := func(containers string) string {
		return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":` + containers + `}}`
	}
	few, lots := many(10, `{"name":"c%d"}`), many(3500, `{"name":"c%d"}`)
	deep := strings.Repeat(`{"a":`, 200) + `"` + strings.Repeat("x", 1<<20) + `"` + strings.Repeat("}", 200)
	ops := func(first string, n int, rest string) string {
		return "[" + first + strings.Repeat(","+rest, n) + "]"
	}
	list := func(n int) string { return `{"op":"add","path":"/x","value":` + many(n, "%d") + `}` }
	for _, tt := range []struct {
		name, doc, patch string
		refused          bool
	}{
		{"containers, few in an object of many", pod(lots), `{"spec":{"containers":` + few + `}}`, false},
		{"containers, many in an object of few", pod(few), `{"spec":{"containers":` + lots + `}}`, false},
		{"containers, many in an object of many", pod(lots), `{"spec":{"containers":` + lots + `}}`, true},
		{"containers in their order", pod(few), `{"spec":{"$setElementOrder/containers":` + lots + `,"containers":` + lots + `}}`, true},
		{"an order alone", pod(lots), `{"spec":{"$setElementOrder/containers":` + lots + `}}`, true},
		{"an order of nothing", pod(few), `{"spec":{"$setElementOrder/initContainers":` + lots + `}}`, false},
		{"a long order, one container", pod(lots), `{"spec":{"$setElementOrder/containers":` + lots + `,"containers":[{"name":"c1"}]}}`, true},
		{"finalizers", pod(few), `{"metadata":{"finalizers":` + many(4100, `"a.b/%d"`) + `}}`, true},
		{"one finalizer more", `{"metadata":{"finalizers":` + many(4100, `"a.b/%d"`) + `}}`, `{"metadata":{"finalizers":["a.b/c"]}}`, true},
		{"a list inside a list that is long", pod(`[{"name":"c1","env":` + many(4100, `{"name":"e%d"}`) + `}]`),
			`{"spec":{"containers":[{"name":"c1","env":[{"name":"x"}]}]}}`, true},
		{"beside a long list", pod(`[{"name":"c1","command":` + many(9000, `"%d"`) + `}]`),
			`{"metadata":{"finalizers":["a.b/c"]},"spec":{"containers":[{"name":"c1","image":"x"}]}}`, false},
		{"a list inside a list", pod(few), `{"spec":{"containers":[{"name":"c1","env":` + many(4100, `{"name":"e%d"}`) + `}]}}`, true},
		{"a list that is replaced", pod(few), `{"spec":{"containers":[{"name":"c1","command":` + many(9000, `"%d"`) + `}]}}`, false},
		{"elements put in front", "{}", ops(list(1000), 9000, `{"op":"add","path":"/x/0","value":1}`), false},
		{"elements put in front of many", "{}", ops(list(20_000), 9000, `{"op":"add","path":"/x/0","value":1}`), true},
		{"elements taken from many", "{}", ops(list(20_000), 9000, `{"op":"remove","path":"/x/0"}`), true},
		{"elements put behind many", "{}", ops(list(20_000), 9000, `{"op":"add","path":"/x/-","value":1}`), false},
		{"a deep path", "{}", ops(`{"op":"add","path":"/x","value":{}}`, 1, `{"op":"add","path":"/x/a","value":1}`), false},
		{"a deep path in much", "{}", ops(`{"op":"add","path":"/x","value":`+deep+`}`, 1,
			`{"op":"add","path":"/x`+strings.Repeat("/a", 150)+`","value":1}`), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var err error
			if strings.HasPrefix(tt.patch, "[") {
				_, err = JSONPatch([]byte(tt.doc), []byte(tt.patch))
			} else {
				_, err = Strategic([]byte(tt.doc), []byte(tt.patch), &corev1.Pod{})
			}
			if refused := apierrors.ReasonForError(err) == "RequestEntityTooLarge"; refused != tt.refused || err != nil && !refused {
				t.Errorf("got %v", err)
			}
			if s, ok := err.(apierrors.APIStatus); ok && s.Status().Code != http.StatusRequestEntityTooLarge {
				t.Errorf("code %d", s.Status().Code)
			}
		})
	}
}
