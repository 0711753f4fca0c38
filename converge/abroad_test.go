package converge_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/gaps"
	"github.com/kloop-dev/kloop/internal/states"
	"github.com/kloop-dev/kloop/resource"
)

const widgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec: {group: example.com, names: {plural: widgets, kind: Widget}, versions: [{name: v1, subresources: {status: {}}}]}
status: {conditions: [{type: Established, status: "True"}]}
---
apiVersion: example.com/v1
kind: Widget
metadata: {name: one}
---
apiVersion: example.com/v1
kind: Widget
metadata: {name: two}
status: {phase: Ready}
`

// TestUntold asks about an object whose status nobody wrote: from outside it is not said to be what it should be. Who sees the callers
// knows better, and of a kind without a status there is nothing to say.
func TestUntold(t *testing.T) {
	for _, tt := range []struct {
		name, text, ask string
		callers         *converge.Callers
		says            string
	}{
		{"no status", widgets, "one", nil,
			"has a status that nobody has written yet, though 1 of 2 widgets have one, so whether it is what it should be is not known"},
		{"a status", widgets, "two", nil, ""},
		{"asked of the server itself", widgets, "one", &converge.Callers{}, ""},
		{"a kind without a status", strings.Replace(widgets, "status: {}", "", 1), "one", nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := worldOf(t, tt.text)
			w.Callers = tt.callers
			k, obj := customOf(t, w, tt.ask)
			g := w.Rest(k, obj)
			switch {
			case g == nil && tt.says != "":
				t.Error("nothing is said")
			case g != nil && (tt.says == "" || !strings.Contains(g.Verdict, tt.says) || g.State != converge.Resting):
				t.Errorf("%s: %s", g.State, g.Verdict)
			}
			if list, _ := gaps.List(w, ""); tt.callers == nil && len(list) > 0 {
				t.Errorf("it is listed: %v", list[0].Verdict)
			}
		})
	}
}

// TestUntoldElsewhere: a controller that is told to keep to other namespaces is the likely reason that nobody writes a status.
func TestUntoldElsewhere(t *testing.T) {
	const elsewhere = "is told to watch other namespaces"
	for told, says := range map[string]string{
		`env: [{name: WATCH_NAMESPACE, value: "b,c"}]`:  "deployment/widgetry-operator in namespace ops " + elsewhere + " (WATCH_NAMESPACE=b,c)",
		`env: [{name: WATCH_NAMESPACE, value: "b, a"}]`: "", `env: [{name: WATCH_NAMESPACE}]`: "", `args: ["--watch-namespaces=*"]`: "",
		`args: ["--watch-namespace=b"]`: elsewhere + " (--watch-namespace=b)", `args: ["--watch-namespaces=b,a"]`: "",
	} {
		t.Run(told, func(t *testing.T) {
			w := worldOf(t, strings.ReplaceAll(widgets, "example.com", "widgetry.dev")+`---
apiVersion: apps/v1
kind: Deployment
metadata: {name: widgetry-operator, namespace: ops}
spec:
  selector: {matchLabels: {app: o}}
  template: {metadata: {labels: {app: o}}, spec: {containers: [{name: o, image: o, `+told+`}]}}
`)
			k, obj := customOf(t, w, "one")
			g := w.Rest(k, obj)
			if says == "" && strings.Contains(g.Verdict, elsewhere) || !strings.Contains(g.Verdict, says) {
				t.Error(g.Verdict)
			}
			if a := g.Advice[len(g.Advice)-1]; !strings.Contains(a, "kubectl logs deployment/widgetry-operator -n ops") {
				t.Error(a)
			}
		})
	}
}

func customOf(t *testing.T, w *converge.World, name string) (resource.Kind, resource.Object) {
	t.Helper()
	for _, k := range w.Kinds.All() {
		if k.Info().Plural == "widgets" {
			if obj := w.Read.Lookup(k, "a", name); obj != nil {
				return k, obj
			}
		}
	}
	t.Fatal("no such object")
	return nil, nil
}

const kafkaUser = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: kafkausers.kafka.strimzi.io}
spec: {group: kafka.strimzi.io, names: {plural: kafkausers, kind: KafkaUser}, versions: [{name: v1, subresources: {status: {}}}]}
status: {conditions: [{type: Established, status: "True"}]}
---
apiVersion: kafka.strimzi.io/v1
kind: KafkaUser
metadata: {name: one, labels: {strimzi.io/cluster: k}}
---
apiVersion: kafka.strimzi.io/v1
kind: Kafka
metadata: {name: k}
spec: {entityOperator: {topicOperator: {}}}
status: {conditions: [{type: Ready, status: "True"}]}
`

// TestUnkept: where it is known who looks after an object, it is told why nobody does.
func TestUnkept(t *testing.T) {
	for _, tt := range []struct{ name, from, to, says, advice string }{
		{"no such operator", "", "", "it is for kafka/k, which has no entityOperator.userOperator",
			"kubectl edit kafkas.kafka.strimzi.io k -n a"},
		{"no label", "labels: {strimzi.io/cluster: k}", "", "it has no label strimzi.io/cluster, by which it is taken up",
			"kubectl label kafkausers.kafka.strimzi.io one -n a strimzi.io/cluster=NAME"},
		{"in another namespace", "metadata: {name: k}", "metadata: {name: k, namespace: b}", "it is for kafka/k, which is not in namespace a",
			"kubectl get kafkas.kafka.strimzi.io -A"},
		{"looked after", "topicOperator", "userOperator", "has a status that nobody has written yet, so", "kubectl get pods -A"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := worldOf(t, strings.Replace(kafkaUser, tt.from, tt.to, 1))
			k, _ := w.Kinds.GR(schema.GroupResource{Group: "kafka.strimzi.io", Resource: "kafkausers"})
			g := w.Rest(k, w.Read.Lookup(k, states.Namespace, "one"))
			if !strings.Contains(g.Verdict, tt.says) || !strings.Contains(strings.Join(g.Advice, "\n"), tt.advice) {
				t.Errorf("%s: %q", g.Verdict, g.Advice)
			}
		})
	}
}
