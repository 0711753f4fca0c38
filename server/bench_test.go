package server_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/internal/testcluster"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/server"
)

func BenchmarkCreate(b *testing.B) {
	w := start(b)
	var n atomic.Int64
	b.SetParallelism(32)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			c := configMap(fmt.Sprint("c", n.Add(1)), "k", "v", "l", "some longer value for the second key")
			if _, err := w.Create(b.Context(), w.ask(configMaps, ""), c); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkGet(b *testing.B) {
	w := start(b)
	create(w, configMaps, configMap("a"))
	r := w.ask(configMaps, "a")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := w.Get(b.Context(), r, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkList10k(b *testing.B) {
	w := start(b)
	for i := range 10_000 {
		create(w, configMaps, configMap(fmt.Sprint("c", i)))
	}
	b.ReportAllocs()
	for b.Loop() {
		if l, err := w.List(b.Context(), w.ask(configMaps, ""), &metav1.ListOptions{}); err != nil || len(l.Entries) != 10_000 {
			b.Fatal(err)
		}
	}
}

func BenchmarkPatch(b *testing.B) {
	w := start(b)
	create(w, configMaps, configMap("a"))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := w.merge(configMaps, "a", fmt.Sprintf(`{"data":{"n":"%d"}}`, i)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkApply applies a Deployment that is there already as it is applied.
func BenchmarkApply(b *testing.B) {
	c := testcluster.Start(b)
	r := func() *server.Request {
		return &server.Request{Kind: kinds.Deployments, GVK: kinds.Deployments.Info().GVK, Namespace: "default", Name: "web", Manager: "bench"}
	}
	doc := []byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","labels":{"app":"web"}},"spec":{"replicas":0,` +
		`"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"main",` +
		`"image":"registry.example/app:v1","ports":[{"containerPort":80}],"env":[{"name":"A","value":"1"},{"name":"B","value":"2"}],` +
		`"resources":{"requests":{"cpu":"10m","memory":"16Mi"}}}]}}}}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := c.Server.Patch(b.Context(), r(), types.ApplyYAMLPatchType, doc, false); err != nil {
			b.Fatal(err)
		}
	}
}
