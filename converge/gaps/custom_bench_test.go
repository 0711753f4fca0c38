package gaps

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/converge/rules"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

// customs are a cache over n objects of a kind that users defined, with 50 conditions and nested parts each; of every step-th one
// condition says that something is wrong. Without a word on the whole they are judged by their parts: the next one of each ten.
func customs(b *testing.B, n, step int, word string) (*Cache, resource.Kind, resource.Object) {
	b.Helper()
	set := kinds.NewSet()
	k := &resource.Def[*unstructured.Unstructured]{GVK: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"},
		Plural: "widgets", Namespaced: true, JSON: true}
	if err := set.Put(k); err != nil {
		b.Fatal(err)
	}
	at := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	var list []resource.Object
	for i := range n {
		var conds, parts []any
		for c := range 50 {
			status := "True"
			if c == 30 && i%step == 0 {
				status = "False"
			}
			conds = append(conds, map[string]any{"type": fmt.Sprintf("Step%dReady", c), "status": status, "reason": "Step",
				"message": "cannot do it yet", "lastTransitionTime": at})
			parts = append(parts, map[string]any{"name": fmt.Sprint(c), "state": map[string]any{"phase": "Running",
				"inner": map[string]any{"ready": true, "uid": fmt.Sprint(c), "at": at}}})
		}
		status := map[string]any{"conditions": conds, "parts": parts, "observedGeneration": int64(1)}
		if word != "" {
			status["phase"] = word
		}
		meta := map[string]any{"name": fmt.Sprint("w", i), "namespace": "default", "uid": fmt.Sprint("w", i), "creationTimestamp": at,
			"generation": int64(1), "resourceVersion": "1"}
		if i%10 > 0 {
			meta["ownerReferences"] = []any{map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "controller": true,
				"name": fmt.Sprint("w", i-1), "uid": fmt.Sprint("w", i-1)}}
		}
		list = append(list, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget",
			"metadata": meta, "spec": map[string]any{"size": int64(i)}, "status": status}})
	}
	v := view.New(set)
	v.Replace(k, 1, list)
	return &Cache{Client: &client.Local{View: v, Set: set}, Store: wall{}, Rules: rules.All(), kick: make(chan struct{}, 1)}, k, list[1]
}

// BenchmarkCustom is the first question about objects of a kind that users defined, and the next after one has changed.
func BenchmarkCustom(b *testing.B) {
	for _, word := range []string{"", "Running"} {
		for _, n := range []int{1000, 10_000} {
			board, k, obj := customs(b, n, 10, word)
			b.Run(fmt.Sprintf("first/%s/%d", word, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					board.asked = time.Time{}
					if err := board.Refresh(b.Context(), convergence.Gaps); err != nil {
						b.Fatal(err)
					}
				}
			})
			batch := client.Batch{Changes: []client.Change{{Kind: k, Rev: 2, Old: obj, New: obj}}}
			b.Run(fmt.Sprintf("next/%s/%d", word, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					board.take(batch)
					if err := board.Refresh(b.Context(), convergence.Gaps); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
