package definition_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/kloop-dev/kloop/crd"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/store/memory"
)

// large is a definition of 40 KB: a few rules, and many fields with descriptions.
const large = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"kind%[1]ds.many.example"},
"spec":{"group":"many.example",
"scope":"Namespaced","names":{"plural":"kind%[1]ds","singular":"kind%[1]d","kind":"Kind%[1]d"},
  "versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},
"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object",
  "x-kubernetes-validations":[{"rule":"self.least <= self.most || self.most == %[1]d"}],
"properties":{"least":{"type":"integer","default":1},"most":{"type":"integer","default":10}}},"more":{"type":"object","properties":{%[2]s}},
"status":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}}]}}`

// BenchmarkDefineMany is what a large definition costs from its body to its answer, and until it is served. No two have
// the same rules.
func BenchmarkDefineMany(b *testing.B) {
	w, stop := start(b, memory.New())
	defer stop()
	var fields []string
	for i := range 100 {
		fields = append(fields, fmt.Sprintf(
			`"field%03d":{"type":"object","description":"%0120d","properties":{"name":{"type":"string","description":"the name of a thing"},`+
				`"count":{"type":"integer","format":"int32","minimum":0}}}`, i, i))
	}
	more, n := strings.Join(fields, ","), 0
	b.ReportAllocs()
	before := burnt()
	for b.Loop() {
		obj := kinds.CustomResourceDefinitions.New(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
		if _, err := codec.UnmarshalJSON(fmt.Appendf(nil, large, n, more), obj); err != nil {
			b.Fatal(err)
		}
		n++
		r := &server.Request{Kind: kinds.CustomResourceDefinitions, GVK: obj.GetObjectKind().GroupVersionKind(), Manager: "test", User: w.User}
		e, err := w.Ops.Create(b.Context(), r, obj)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := e.JSON(b.Context(), r.GVK); err != nil {
			b.Fatal(err)
		}
	}
	for feed := w.Feed(); ; {
		served := 0
		for def := range resource.Outlines(w.Read(), kinds.CustomResourceDefinitions) {
			if crd.Is(def, apiextensionsv1.Established) {
				served++
			}
		}
		if served == n {
			break
		}
		if _, err := feed.Next(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((burnt()-before).Microseconds())/1000/float64(n), "cpu-ms/op")
}

// burnt is the CPU time of the process so far.
func burnt() time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		return 0
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}
