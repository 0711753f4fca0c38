package httpapi_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
)

// An answer whose client goes while it is made is made no further, in any shape. Items are counted, not time.
func TestAbandonedAnswersEnd(t *testing.T) {
	const items, enough, more = 900, 10, 256
	var made atomic.Int32
	leave := func() {}
	from := scalers.Also[0].From
	defer func() { scalers.Also[0].From = from }()
	scalers.Also[0].From = func(h *autoscalingv2.HorizontalPodAutoscaler) resource.Object {
		if made.Add(1) == enough {
			leave()
		}
		return from(h)
	}
	for _, accept := range []string{codec.JSON, codec.YAML, codec.Protobuf, codec.JSON + ";as=Table;g=meta.k8s.io;v=v1"} {
		w := newWorld(t)
		const path = "/namespaces/ns/horizontalpodautoscalers"
		for i := range items {
			w.must("POST", "/apis/autoscaling/v2"+path, fmt.Sprintf(`{"metadata":{"name":"h%d"},"spec":{"maxReplicas":1}}`, i), 201)
		}
		ctx, cancel := context.WithCancel(t.Context())
		leave = cancel
		made.Store(0)
		r := httptest.NewRequestWithContext(ctx, "GET", "/apis/autoscaling/v1"+path, nil)
		r.Header.Set("Accept", accept)
		got := w.send(r, "")
		if n := made.Load(); n < enough || n > enough+more || got.code == 200 {
			t.Errorf("%s: %d, and %d of %d items were made for a client that was gone after %d", accept, got.code, n, items, enough)
		}
		cancel()
	}
}

// TestBareMetadataOfHub: bare metadata is that of the object as it is kept: no fields that another version shows as annotations.
func TestBareMetadataOfHub(t *testing.T) {
	from := scalers.Also[0].From
	defer func() { scalers.Also[0].From = from }()
	scalers.Also[0].From = func(h *autoscalingv2.HorizontalPodAutoscaler) resource.Object {
		obj := from(h)
		obj.SetAnnotations(map[string]string{"autoscaling.alpha.kubernetes.io/behavior": "{}"})
		return obj
	}
	w := newWorld(t)
	const path = "/namespaces/ns/horizontalpodautoscalers"
	w.must("POST", "/apis/autoscaling/v2"+path, `{"metadata":{"name":"h"},"spec":{"maxReplicas":1}}`, 201)
	for _, c := range []struct{ name, accept, at string }{
		{"bare", codec.JSON + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1", "/h"},
		{"bare list", codec.JSON + ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := w.do("GET", "/apis/autoscaling/v1"+path+c.at, "", "Accept", c.accept)
			if got.code != 200 || strings.Contains(string(got.body), "annotations") {
				t.Errorf("%d %s", got.code, got.body)
			}
		})
	}
}
