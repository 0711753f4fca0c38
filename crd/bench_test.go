package crd

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
)

// databases has what operators' definitions have: types, defaults, a list that is a map, rules.
const databases = `
metadata: {name: databases.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: databases, singular: database, kind: Database, listKind: DatabaseList}
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
            required: [engine, replicas]
            x-kubernetes-validations:
            - {rule: self.minReplicas <= self.replicas && self.replicas <= self.maxReplicas,
                messageExpression: "'not so many replicas of ' + self.engine"}
            - {rule: '!has(self.backup) || self.backup.keep > 0'}
            - {rule: 'self.hosts.all(h, h.port != 22)'}
            - {rule: self.engine == oldSelf.engine, message: engine is immutable}
            properties:
              engine: {type: string, enum: [a, b]}
              replicas: {type: integer, minimum: 0, maximum: 100}
              minReplicas: {type: integer, default: 1}
              maxReplicas: {type: integer, default: 10}
              text: {type: string, maxLength: 4096}
              size: {type: string, maxLength: 20, x-kubernetes-validations: [{rule: "quantity(self).isGreaterThan(quantity('0'))"}]}
              backup: {type: object, properties: {keep: {type: integer}, every: {type: string, maxLength: 20}}}
              labels: {type: object, maxProperties: 50, additionalProperties: {type: string, maxLength: 63}}
              hosts:
                type: array
                maxItems: 20
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items:
                  type: object
                  required: [name]
                  x-kubernetes-validations: [{rule: "self.name.matches('^[a-z0-9-]+$')"}]
                  properties: {name: {type: string, maxLength: 63}, address: {type: string, maxLength: 63},
                    port: {type: integer, default: 80}}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
`

// database is about 1 KiB.
const database = `{"apiVersion":"example.com/v1","kind":"Database","metadata":{"name":"database-00001","namespace":"ns",
"uid":"5d1f2c9e-0000-4000-8000-000000000001",
"creationTimestamp":"2026-01-01T00:00:00Z","generation":1,"labels":{"app":"bench","tier":"data"},
  "annotations":{"example.com/owner":"team-1"}},"spec":{"engine":"a","replicas":3,
"size":"10Gi","backup":{"keep":7,"every":"1h"},"labels":{"a":"one","b":"two","c":"three"},
  "hosts":[{"name":"first","address":"10.0.0.1","port":5432},
{"name":"second","address":"10.0.0.2","port":5432},{"name":"third","address":"10.0.0.3"}],
  "text":"0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000
0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000` +
	`000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"}}`

func databaseKind(tb testing.TB) *Kind {
	tb.Helper()
	def := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict([]byte(databases), def); err != nil {
		tb.Fatal(err)
	}
	k, err := NewKind(def)
	if err != nil {
		tb.Fatal(err)
	}
	return k.(*Kind)
}

func newDatabase(tb testing.TB, k *Kind) *Object {
	tb.Helper()
	o := k.New(k.hub.gvk)
	if _, err := codec.UnmarshalJSON([]byte(oneLine(database)), o); err != nil {
		tb.Fatal(err)
	}
	k.SetDefaults(nil, o)
	return o.(*Object)
}

func oneLine(s string) string {
	out := make([]byte, 0, len(s))
	for i := range len(s) {
		if s[i] != '\n' {
			out = append(out, s[i])
		}
	}
	return string(out)
}

// BenchmarkCreate shows what the steps of a creation cost that are this package's.
func BenchmarkCreate(b *testing.B) {
	k := databaseKind(b)
	obj, doc := newDatabase(b, k), []byte(oneLine(database))
	if errs := k.Check(nil, nil, "", obj, nil); len(errs) > 0 {
		b.Fatal(errs)
	}
	for _, step := range []struct {
		name string
		run  func()
	}{
		{"decode", func() { _, _ = codec.UnmarshalJSON(doc, k.New(k.hub.gvk)) }},
		{"defaults", func() { k.SetDefaults(nil, obj) }},
		{"check", func() { k.Check(nil, nil, "", obj, nil) }},
		{"encode", func() { _, _ = codec.Stored(k, obj) }},
		{"clone", func() { resource.Clone(obj) }},
	} {
		b.Run(step.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				step.run()
			}
		})
	}
}
