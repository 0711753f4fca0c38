package definition_test

import (
	"fmt"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/server"
)

const ruled = `
metadata: {name: widgets.a.example}
spec:
  group: a.example
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          spec:
            type: object
            required: [engine]
            x-kubernetes-validations:
            - {rule: self.least <= self.replicas && self.replicas <= self.most}
            - {rule: 'self.hosts.all(h, h.port != 22)'}
            - {rule: self.engine == oldSelf.engine}
            properties:
              engine: {type: string, enum: [a, b]}
              replicas: {type: integer, minimum: 0, maximum: 100}
              least: {type: integer, default: 1}
              most: {type: integer, default: 10}
              text: {type: string, maxLength: 4096}
              hosts:
                type: array
                maxItems: 20
                items: {type: object, required: [name], properties: {name: {type: string, maxLength: 63},
                  address: {type: string, maxLength: 63}, port: {type: integer, default: 80}}}
`

// BenchmarkCreateWithRules is the creation of a custom resource of 1 KiB whose kind has rules, from the body to the store.
func BenchmarkCreateWithRules(b *testing.B) {
	w := begin(b)
	def := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict([]byte(ruled), def); err != nil {
		b.Fatal(err)
	}
	w.define(def)
	k := w.kind("a.example", "v1")
	text := strings.Repeat("0", 500)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		obj := k.New(k.Info().GVK)
		body := fmt.Appendf(nil,
			`{"apiVersion":"a.example/v1","kind":"Widget","metadata":{"name":"w-%d","labels":{"app":"bench"},"annotations":{"a":"b"}},`+
				`"spec":{"engine":"a","replicas":3,"text":%q,"hosts":[{"name":"a","address":"10.0.0.1"},`+
				`{"name":"b","address":"10.0.0.2","port":5432}]}}`, i, text)
		if _, err := codec.UnmarshalJSON(body, obj); err != nil {
			b.Fatal(err)
		}
		r := &server.Request{Kind: k, GVK: k.Info().GVK, Namespace: "ns", Manager: "test", User: w.User}
		if _, err := w.Ops.Create(b.Context(), r, obj); err != nil {
			b.Fatal(err)
		}
	}
}
