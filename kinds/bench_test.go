package kinds_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// BenchmarkWrite is what a kind adds to a create: defaults, Settle and Check.
func BenchmarkWrite(b *testing.B) {
	for name, text := range map[string]string{
		"Deployment": `{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {selector: {matchLabels: {a: b}}, ` +
			`template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}`,
		"Job": `{apiVersion: batch/v1, kind: Job, metadata: {name: j}, ` +
			`spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}`,
		"Lease": `{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: l}, spec: {holderIdentity: me, leaseDurationSeconds: 15}}`,
		"Policy": `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: p}, ` +
			`spec: {matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], ` +
			`resources: [deployments]}]}, validations: [{expression: 'object.spec.replicas < 5'}]}}`,
	} {
		var meta struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal([]byte(text), &meta); err != nil {
			b.Fatal(err)
		}
		k, _ := kinds.NewSet().Kind(schema.FromAPIVersionAndKind(meta.APIVersion, meta.Kind))
		sent := k.New(k.Info().GVK)
		if err := yaml.Unmarshal([]byte(text), sent); err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				obj := resource.Clone(sent)
				obj.SetUID("u")
				k.SetDefaults(obj)
				k.Settle("", obj, nil)
				if errs := k.Check("", obj, nil); len(errs) > 0 {
					b.Fatal(errs)
				}
			}
		})
	}
}
