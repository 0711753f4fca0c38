package codec

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// A document of what may be stored passes, and one of nothing but empty elements does not.
func TestCheckElements(t *testing.T) {
	many := strings.Repeat("{},", 1_000_000) + "{}"
	for _, tt := range []struct {
		name, doc string
		obj       any
		refused   bool
	}{
		{"empty containers", `{"spec":{"containers":[` + many + `]}}`, &corev1.Pod{}, true},
		{"null", `{"spec":{"volumes":[` + strings.Repeat("null,", 1_000_000) + `null]}}`, &corev1.Pod{}, true},
		{"a long text", `{"data":{"a":"` + strings.Repeat(",", 1<<20) + `"}}`, &corev1.ConfigMap{}, false},
		{"many keys", `{"data":{` + strings.Repeat(`"k":"",`, 200_000) + `"k":""}}`, &corev1.ConfigMap{}, false},
		{"a large definition", `{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"properties":{` +
			strings.Repeat(`"field":{"type":"string"},`, 60_000) + `"z":{}}}}}]}}`, &apiextensionsv1.CustomResourceDefinition{}, false},
		{"a tree", `{"spec":{"a":[` + many + `]}}`, &unstructured.Unstructured{}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := CheckElements([]byte(tt.doc), tt.obj); errors.Is(err, ErrElements) != tt.refused {
				t.Error(err)
			}
		})
	}
}

func TestCheckMessage(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: map[string]string{"a": strings.Repeat("x", 1<<20)}}}
	for range 2000 {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "c", Env: []corev1.EnvVar{{Name: "a"}}})
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	nest := func(n int) []byte {
		var b []byte
		for range n {
			const not = 28
			b = protowire.AppendBytes(protowire.AppendTag(nil, not, protowire.BytesType), b)
		}
		for _, field := range []protowire.Number{1, 4, 7, 2} { // schema, of a version, of the spec
			b = protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), b)
		}
		return append(b, message(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: strings.Repeat("x", shortMessage)}})...)
	}
	empty := strings.Repeat("\x12\x00", 1_000_000) // PodSpec.containers
	for _, tt := range []struct {
		name string
		raw  []byte
		obj  any
		want error
	}{
		{"a large pod", message(t, pod), &corev1.Pod{}, nil},
		{"empty containers", protowire.AppendString(protowire.AppendTag(nil, 2, protowire.BytesType), empty), &corev1.Pod{}, ErrElements},
		{"many finalizers", protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), strings.Repeat("\x72\x00", 1_000_000)),
			&corev1.Pod{}, nil},
		{"a schema as deep as may be", nest(maxDepth - 5), crd, nil},
		{"a schema that is deeper", nest(maxDepth), crd, errDeepMessage},
		{"no message", []byte(strings.Repeat("\xff", 1<<20)), &corev1.Pod{}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := CheckMessage(tt.raw, tt.obj); !errors.Is(err, tt.want) {
				t.Errorf("%v, want %v", err, tt.want)
			}
		})
	}
}

func message(t *testing.T, p Proto) []byte {
	t.Helper()
	raw, err := p.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
