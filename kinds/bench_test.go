package kinds_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// BenchmarkWrite is what a kind adds to a create: defaults, PrepareForWrite, Check and Warnings.
func BenchmarkWrite(b *testing.B) {
	for name, text := range map[string]string{
		"Pod": `{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: n, labels: {app: a, pod: p}}, spec: {serviceAccountName: default, ` +
			`containers: [{name: main, image: "registry.example/app:v1", ports: [{containerPort: 80}], ` +
			`env: [{name: A, value: "1"}, {name: B, value: "2"}], ` +
			`resources: {requests: {cpu: 10m, memory: 16Mi}, limits: {memory: 64Mi}}, ` +
			`volumeMounts: [{name: token, readOnly: true, mountPath: /var/run/secrets/kubernetes.io/serviceaccount}]}], ` +
			`tolerations: [{key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 300}, ` +
			`{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 300}], ` +
			`volumes: [{name: token, projected: {sources: [{serviceAccountToken: {path: token, expirationSeconds: 3607}}, ` +
			`{configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}}, ` +
			`{downwardAPI: {items: [{path: namespace, fieldRef: {apiVersion: v1, fieldPath: metadata.namespace}}]}}]}}]}}`,
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
		set := kinds.NewSet()
		on := set.Features()
		k, _ := set.Kind(schema.FromAPIVersionAndKind(meta.APIVersion, meta.Kind))
		sent := k.New(k.Info().GVK)
		if err := yaml.Unmarshal([]byte(text), sent); err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				obj := resource.Clone(sent)
				obj.SetUID("u")
				k.SetDefaults(nil, obj)
				k.PrepareForWrite(on, "", obj, nil)
				if errs := k.Check(nil, nil, "", obj, nil); len(errs) > 0 {
					b.Fatal(errs)
				}
				if says := k.Warnings(nil, obj, nil); len(says) > 0 {
					b.Fatal(says)
				}
			}
		})
	}
}
