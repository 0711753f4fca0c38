package httpapi_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kloop-dev/kloop/kinds/apiextensions"
	"github.com/kloop-dev/kloop/resource/codec"
)

// TestHeavyBodies has bodies of what no size explains: they are refused before they are decoded. The deep one ended the process, since
// decoding goes down level by level on the stack.
func TestHeavyBodies(t *testing.T) {
	w := newWorld(t)
	if err := w.kinds.Put(apiextensions.CustomResourceDefinitions); err != nil {
		t.Fatal(err)
	}
	const pods, definitions = "/api/v1/namespaces/ns/pods", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	empty := strings.Repeat("{},", 900_000) + "{}"
	for _, tt := range []struct {
		name, path, typ, body string
		code                  int
		says                  string
	}{
		{"elements in JSON", pods, codec.JSON, `{"metadata":{"name":"p"},"spec":{"containers":[` + empty + `]}}`, 413, "so many elements"},
		{"elements in protobuf", pods, codec.Protobuf, enveloped(t, "v1", "Pod", field(2, strings.Repeat("\x12\x00", 1_000_000))), 413,
			"so many elements"},
		{"deep protobuf", definitions, codec.Protobuf, enveloped(t, "apiextensions.k8s.io/v1", "CustomResourceDefinition",
			field(2, field(7, field(4, field(1, nested(28, 400_000)))))), 400, "max depth"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := w.do("POST", tt.path, tt.body, "Content-Type", tt.typ)
			if got.code != tt.code || !strings.Contains(string(got.body), tt.says) {
				t.Errorf("%d %.300s", got.code, got.body)
			}
		})
	}
	w.must("GET", "/api/v1/namespaces/ns/configmaps", "", 200)
}

// field is a field of a protobuf message.
func field(n protowire.Number, content string) string {
	return string(protowire.AppendString(protowire.AppendTag(nil, n, protowire.BytesType), content))
}

// nested is a field in itself, so many times.
func nested(n protowire.Number, depth int) string {
	sizes := make([]int, depth)
	for i := 1; i < depth; i++ {
		sizes[i] = protowire.SizeTag(n) + protowire.SizeBytes(sizes[i-1])
	}
	var b []byte
	for i := depth - 1; i >= 0; i-- {
		b = protowire.AppendVarint(protowire.AppendTag(b, n, protowire.BytesType), uint64(sizes[i]))
	}
	return string(b)
}

// enveloped is a message as it is sent.
func enveloped(t *testing.T, version, kind, message string) string {
	t.Helper()
	raw, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: version, Kind: kind}, Raw: []byte(message)}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return "k8s\x00" + string(raw)
}
