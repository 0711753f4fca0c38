package general

import (
	"strings"
	"testing"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/internal/states"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// The log of a controller is that of the workload that seems to run it: by its project's name, or by the table; a word that many have in
// their names tells nothing.
func TestProgramOf(t *testing.T) {
	for _, tt := range []struct{ group, kind, has, want string }{
		{"helm.toolkit.fluxcd.io/v2", "HelmRelease", "helm-controller", "helm-controller"},
		{"kafka.strimzi.io/v1beta2", "Kafka", "strimzi-cluster-operator", "strimzi-cluster-operator"},
		{"cluster.x-k8s.io/v1beta1", "Machine", "cluster-autoscaler-controller", ""},
		{"argoproj.io/v1alpha1", "Rollout", "argo-rollouts", "argo-rollouts"},
		{"argoproj.io/v1alpha1", "Rollout", "workflow-controller", ""},
		{"velero.io/v1", "Backup", "velero", "velero"}, {"velero.io/v1", "Backup", "velero-ui", ""},
	} {
		t.Run(tt.kind+" "+tt.has, func(t *testing.T) {
			set, read, err := states.World("apiVersion: " + tt.group + "\nkind: " + tt.kind + "\nmetadata: {name: x}\n---\n" +
				"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: " + tt.has + ", namespace: ops}\n")
			if err != nil {
				t.Fatal(err)
			}
			w := &converge.World{Read: read, Kinds: set, Now: states.Noon, Rules: Rules()}
			got := ""
			for _, k := range set.All() {
				if k.Info().GVK.Kind == tt.kind && k.Info().Custom {
					if of, obj := programAt(w, k, "the controller of "+k.Info().Plural); obj != nil &&
						of == resource.Kind(kinds.Deployments) {
						got = obj.GetName()
						x := read.Lookup(k, states.Namespace, "x")
						advice := LogOf(&converge.Look{World: w, Kind: k, Obj: x}, "it")
						if want := "kubectl logs deployment/" + got + " -n ops"; !strings.Contains(advice, want) {
							t.Errorf("the advice %q lacks %q", advice, want)
						}
					}
				}
			}
			if got != tt.want {
				t.Errorf("it runs in %q, want %q", got, tt.want)
			}
		})
	}
}
