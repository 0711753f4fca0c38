package apiextensions

import (
	"fmt"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/kloop-dev/kloop/resource/codec"
)

// largeDefinition is one of 40 KB.
func largeDefinition(tb testing.TB) crd {
	tb.Helper()
	var fields []string
	for i := range 100 {
		fields = append(fields, fmt.Sprintf(
			`"field%03d":{"type":"object","description":"%0120d","properties":{"name":{"type":"string","description":"the name of a thing"},`+
				`"count":{"type":"integer","format":"int32","minimum":0}}}`, i, i))
	}
	c := &apiextensionsv1.CustomResourceDefinition{}
	if _, err := codec.UnmarshalJSON(fmt.Appendf(nil,
		`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"ds.d.example"},"spec":{"group":"d.example",
"scope":"Namespaced","names":{"plural":"ds","singular":"d","kind":"D","listKind":"DList"},
  "versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},
"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object",
  "x-kubernetes-validations":[{"rule":"self.least <= self.most"}],
"properties":{"least":{"type":"integer","default":1},"most":{"type":"integer","default":10}}},
  "more":{"type":"object","properties":{%s}}}}}}]}}`,
		strings.Join(fields, ",")), c); err != nil {
		tb.Fatal(err)
	}
	defaultDefinition(c)
	prepareDefinition(c, nil)
	return c
}

// BenchmarkDefinition shows what the steps of making a large definition cost that are this package's.
func BenchmarkDefinition(b *testing.B) {
	c := largeDefinition(b)
	in, err := internal(c)
	if errs := validateDefinition(c, nil); err != nil || len(errs) > 0 {
		b.Fatal(err, errs)
	}
	sealed := seal(c, nil, 1).(*Sealed)
	for _, step := range []struct {
		name string
		run  func()
	}{
		{"validate", func() { validateDefinition(c, nil) }},
		{"internal", func() { _, _ = internal(c) }},
		{"structured", func() { _, _, _ = structured(in.Spec.Validation.OpenAPIV3Schema, strict(), nil) }},
		{"spec", func() { specRules(&in.Spec, strict()) }},
		{"warn", func() { warnDefinition(nil, c, nil) }},
		{"proto", func() { _, _ = codec.MarshalProto(c) }},
		{"open", func() { sealed.open() }},
		{"json", func() { _, _ = codec.MarshalJSON(c) }},
		{"json of stored", func() { _, _ = sealed.MakeJSON() }},
		{"clone", func() { c.DeepCopy() }},
	} {
		b.Run(step.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				step.run()
			}
		})
	}
}
