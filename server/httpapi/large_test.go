package httpapi_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/view"
)

// fill makes n config maps of about size bytes each.
func fill(w *world, n, size int) {
	w.t.Helper()
	text := strings.Repeat("0123456789abcdef", size/16)
	for i := range n {
		w.configMap(fmt.Sprintf("c%04d", i), text)
	}
}

// TestLargeLists compares what large lists say with what small ones do.
func TestLargeLists(t *testing.T) {
	w := newWorld(t)
	const n, size = 48, 100 << 10
	fill(w, n, size)
	srv := w.serve()
	read := func(accept string, gzip bool) ([]byte, *http.Response) {
		t.Helper()
		r, err := http.NewRequest("GET", srv.URL+"/api/v1/namespaces/ns/configmaps", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", accept)
		resp, err := (&http.Transport{DisableCompression: !gzip}).RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != 200 {
			t.Fatal(resp.Status, err)
		}
		return body, resp
	}
	check := func(what string, l *corev1.ConfigMapList) {
		t.Helper()
		if len(l.Items) != n || l.ResourceVersion == "" || len(l.Items[n-1].Data["k"]) != size || l.Items[7].Name != "c0007" {
			t.Errorf("%s: %d items", what, len(l.Items))
		}
	}
	body, _ := read("application/json", true)
	var l corev1.ConfigMapList
	if err := json.Unmarshal(body, &l); err != nil {
		t.Fatal(err)
	}
	check("json", &l)
	body, resp := read(codec.Protobuf, false)
	l = corev1.ConfigMapList{}
	if err := codec.UnmarshalProto(body, &l); err != nil || resp.ContentLength != int64(len(body)) {
		t.Fatal(err, resp.ContentLength, len(body))
	}
	check("protobuf", &l)
	var p metav1.PartialObjectMetadataList
	body, _ = read("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", false)
	if err := json.Unmarshal(body, &p); err != nil || len(p.Items) != n || p.Items[n-1].Name != "c0047" {
		t.Errorf("metadata: %d items, %v", len(p.Items), err)
	}
	p = metav1.PartialObjectMetadataList{}
	body, _ = read(codec.Protobuf+";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", false)
	if err := codec.UnmarshalProto(body, &p); err != nil || len(p.Items) != n || p.Items[n-1].Name != "c0047" {
		t.Errorf("metadata as protobuf: %d items, %v", len(p.Items), err)
	}
}

// TestListsKeepMemoryFlat has many clients list much at once and looks how far the heap rises.
func TestListsKeepMemoryFlat(t *testing.T) {
	w := newWorldOf(t, view.Config{Encodings: 1 << 20}) // so that lists do not share encodings
	const n, size, clients = 120, 100 << 10, 16         // 12 MB a list
	fill(w, n, size)
	srv := w.serve()
	defer debug.SetGCPercent(debug.SetGCPercent(20)) // what is garbage must not count
	for _, accept := range []string{"application/json", codec.Protobuf, "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"} {
		read := func() {
			r, _ := http.NewRequest("GET", srv.URL+"/api/v1/namespaces/ns/configmaps", nil)
			r.Header.Set("Accept", accept)
			resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			if _, err := io.Copy(io.Discard, resp.Body); err != nil {
				t.Error(err)
			}
		}
		read() // what the view keeps of encodings is no news
		runtime.GC()
		base, peak := heap(), uint64(0)
		done := make(chan struct{})
		var watch, wait sync.WaitGroup
		watch.Go(func() {
			for tick := time.NewTicker(time.Millisecond); ; {
				select {
				case <-done:
					tick.Stop()
					return
				case <-tick.C:
					peak = max(peak, heap())
				}
			}
		})
		for range clients {
			wait.Go(read)
		}
		wait.Wait()
		close(done)
		watch.Wait()
		rise := int64(peak) - int64(base)
		t.Logf("%s: %d clients, heap from %d to %d MB", accept, clients, base>>20, peak>>20)
		if limit := int64(8 * n * size); rise > limit { // of 16 lists; a collector that gets little time to run is late
			t.Errorf("%s: the heap rose by %d MB, a list has %d", accept, rise>>20, n*size>>20)
		}
	}
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
