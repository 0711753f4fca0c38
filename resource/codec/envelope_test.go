package codec

import (
	"bytes"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestEnvelope compares all ways to an envelope with how the library writes it, at sizes whose lengths take one byte and more.
func TestEnvelope(t *testing.T) {
	for _, size := range []int{0, 1, 100, 127, 128, 20_000} {
		obj := &corev1.ConfigMap{Data: map[string]string{"a": strings.Repeat("x", size)}}
		obj.APIVersion, obj.Kind = "v1", "ConfigMap"
		gvk := obj.GroupVersionKind()
		raw, err := RawProto(obj)
		if err != nil {
			t.Fatal(err)
		}
		want, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, Raw: raw}).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		want = append(bytes.Clone(magic), want...)
		before, after := Around(gvk, len(raw))
		whole, err := appendEnvelope([]byte("before"), gvk, obj)
		if err != nil {
			t.Fatal(err)
		}
		for how, got := range map[string][]byte{
			"Envelope": Envelope(gvk, raw),
			"Around":   bytes.Join([][]byte{before, raw, after}, nil),
			"append":   bytes.TrimPrefix(whole, []byte("before")),
		} {
			if !bytes.Equal(got, want) {
				t.Errorf("%s of %d bytes: got %q, want %q", how, len(raw), got, want)
			}
		}
	}
}
