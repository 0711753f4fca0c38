package httpapi_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kloop-dev/kloop/resource/codec"
)

// sink is a ResponseWriter that keeps nothing.
type sink struct {
	h    http.Header
	n    int
	code int
}

func (s *sink) Header() http.Header         { return s.h }
func (s *sink) WriteHeader(code int)        { s.code = code }
func (s *sink) Write(b []byte) (int, error) { s.n += len(b); return len(b), nil }

func benchmark(b *testing.B, w *world, path, accept string) {
	b.Helper()
	r := httptest.NewRequest("GET", path, nil)
	r.Header.Set("Accept", accept)
	r.Header.Set("User-Agent", "kubelet/v1.37.2")
	b.ReportAllocs()
	for b.Loop() {
		s := &sink{h: http.Header{}}
		w.handler.ServeHTTP(s, r)
		if s.code != 200 {
			b.Fatal(s.code)
		}
		b.SetBytes(int64(s.n))
	}
}

const benchPod = `{"metadata":{"name":%q,"labels":{"app":"web","tier":"front"}},"spec":{"nodeName":"n1","containers":[{"name":"c",
	"image":"registry.example/app/web:1.2.3","ports":[{"containerPort":8080}],"env":[{"name":"A","value":"b"},{"name":"C","value":"d"}],
	"resources":{"requests":{"cpu":"100m","memory":"128Mi"},"limits":{"cpu":"1","memory":"256Mi"}},
	"readinessProbe":{"httpGet":{"path":"/ready","port":8080}}}],"tolerations":[{"key":"a","operator":"Exists"}]}}`

func podsWorld(b *testing.B, n int) *world {
	b.Helper()
	w := newWorld(b)
	for i := range n {
		w.must("POST", "/api/v1/namespaces/ns/pods", fmt.Sprintf(benchPod, fmt.Sprintf("pod-%05d", i)), 201)
	}
	return w
}

func BenchmarkGet(b *testing.B) {
	w := podsWorld(b, 1)
	for _, accept := range []string{codec.JSON, codec.Protobuf} {
		b.Run(strings.TrimPrefix(accept, "application/"), func(b *testing.B) {
			benchmark(b, w, "/api/v1/namespaces/ns/pods/pod-00000", accept)
		})
	}
}

func BenchmarkList10k(b *testing.B) {
	w := podsWorld(b, 10000)
	for _, accept := range []string{codec.JSON, codec.Protobuf, "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"} {
		name, _, _ := strings.Cut(strings.TrimPrefix(accept, "application/"), ";v")
		b.Run(name, func(b *testing.B) { benchmark(b, w, "/api/v1/pods", accept) })
	}
}

func BenchmarkCreate(b *testing.B) {
	w := newWorld(b)
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		w.must("POST", "/api/v1/namespaces/ns/pods", fmt.Sprintf(benchPod, fmt.Sprintf("pod-%d", i)), 201)
		i++
	}
}

// One write, told to many watchers over HTTP.
func BenchmarkWatchers(b *testing.B) {
	const watchers = 200
	w := newWorld(b)
	w.configMap("a", "0")
	srv := w.serve()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	told := make(chan int, 1024)
	for range watchers {
		req, err := http.NewRequestWithContext(ctx, "GET", srv.URL+"/api/v1/namespaces/ns/configmaps?watch=1", nil)
		if err != nil {
			b.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		defer resp.Body.Close()
		go countLines(resp.Body, told)
	}
	for n := 0; n < watchers; n += <-told {
	}
	i := 0
	for b.Loop() {
		i++
		w.must("PUT", "/api/v1/namespaces/ns/configmaps/a", fmt.Sprintf(`{"metadata":{"name":"a"},"data":{"k":"%d"}}`, i), 200)
		for n := 0; n < watchers; n += <-told {
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(i*watchers), "µs/event")
}

func countLines(r io.Reader, told chan<- int) {
	b := make([]byte, 32<<10)
	for {
		n, err := r.Read(b)
		if err != nil {
			return
		}
		if lines := strings.Count(string(b[:n]), "\n"); lines > 0 {
			told <- lines
		}
	}
}
