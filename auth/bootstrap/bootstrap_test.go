package bootstrap

import (
	"fmt"
	"reflect"
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	upstream "k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"

	"github.com/kloop-dev/kloop/resource"
)

// TestFlowControl compares the tables with what upstream's library declares.
func TestFlowControl(t *testing.T) {
	levels, schemas := map[string]any{}, map[string]any{}
	for _, o := range Objects(Config{}) {
		switch x := o.(type) {
		case *flowcontrolv1.PriorityLevelConfiguration:
			levels[x.Name] = x.Spec
		case *flowcontrolv1.FlowSchema:
			schemas[x.Name] = x.Spec
		}
	}
	n := 0
	for _, p := range append(upstream.MandatoryPriorityLevelConfigurations, upstream.SuggestedPriorityLevelConfigurations...) {
		if n++; !reflect.DeepEqual(levels[p.Name], p.Spec) {
			t.Errorf("level %s: %+v, want %+v", p.Name, levels[p.Name], p.Spec)
		}
	}
	if n != len(levels) {
		t.Errorf("%d levels, want %d", len(levels), n)
	}
	n = 0
	for _, s := range append(upstream.MandatoryFlowSchemas, upstream.SuggestedFlowSchemas...) {
		if n++; !reflect.DeepEqual(schemas[s.Name], s.Spec) {
			t.Errorf("schema %s:\n%+v, want\n%+v", s.Name, schemas[s.Name], s.Spec)
		}
	}
	if n != len(schemas) {
		t.Errorf("%d schemas, want %d", len(schemas), n)
	}
}

func TestObjects(t *testing.T) {
	seen := map[string]bool{}
	for _, o := range Objects(Config{ClientCA: "ca"}) {
		key := fmt.Sprintf("%T/%s/%s", o, o.GetNamespace(), o.GetName())
		if seen[key] {
			t.Errorf("%s is there twice", key)
		}
		seen[key] = true
		if gvk := o.GetObjectKind().GroupVersionKind(); gvk.Kind == "" || gvk.Version == "" {
			t.Errorf("%s does not say its kind", key)
		}
		if next, _ := Reconcile(resource.Clone(o), o); next != nil {
			t.Errorf("%s: written again for nothing", key)
		}
	}
	for _, want := range []string{"*v1.Namespace//kube-node-lease", "*v1.ClusterRole//cluster-admin", "*v1.ServiceCIDR//kubernetes",
		"*v1.ConfigMap/kube-system/extension-apiserver-authentication", "*v1.PriorityClass//system-node-critical"} {
		if !seen[want] {
			t.Errorf("%s is missing", want)
		}
	}
}

func TestReconcileFlow(t *testing.T) {
	want := flowSchemas()[2].(*flowcontrolv1.FlowSchema)
	for _, c := range []struct {
		name, annotation string
		generation       int64
		changes          bool
	}{{"kept up", "true", 7, true}, {"left alone", "false", 1, false}, {"untouched", "", 1, true}, {"touched", "", 2, false}} {
		t.Run(c.name, func(t *testing.T) {
			old := want.DeepCopy()
			old.Spec.MatchingPrecedence, old.Generation = 7, c.generation
			old.Annotations = map[string]string{}
			if c.annotation != "" {
				old.Annotations[autoupdate] = c.annotation
			}
			if next, _ := Reconcile(old, want); (next != nil) != c.changes {
				t.Errorf("%s: %v", c.name, next)
			}
		})
	}
}
