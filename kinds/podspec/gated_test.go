package podspec

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/features"
)

// TestDropDisabled checks that what a feature brings is not stored while it is off, and stays where it is stored already.
func TestDropDisabled(t *testing.T) {
	old, err := features.New(36, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, with, without string }{
		{"group", `schedulingGroup: {podGroupName: g}`, `{}`},
		{"responders", `evictionResponders: [{name: a.b/c, priority: 1}]`, `{}`},
		{"signal", `containers: [{name: c, lifecycle: {stopSignal: SIGUSR1}}]`, `containers: [{name: c}]`},
		{"signal beside a hook", `containers: [{name: c, lifecycle: {stopSignal: SIGUSR1, preStop: {sleep: {seconds: 1}}}}]`,
			`containers: [{name: c, lifecycle: {preStop: {sleep: {seconds: 1}}}}]`},
		{"signal of an ephemeral one", `ephemeralContainers: [{name: c, lifecycle: {stopSignal: SIGUSR1}}]`,
			`ephemeralContainers: [{name: c}]`},
		{"mount", `containers: [{name: c, volumeMounts: [{name: v, mountPath: /v, bindMountOptions: [noexec]}]}]`,
			`containers: [{name: c, volumeMounts: [{name: v, mountPath: /v}]}]`},
		{"probes", `containers: [{name: c, livenessProbe: {httpGet: {port: 1, protocol: H2C}}, startupProbe: {grpc: {port: 1, mode: TLS}}}]`,
			`containers: [{name: c, livenessProbe: {httpGet: {port: 1}}, startupProbe: {grpc: {port: 1}}}]`},
		{"hooks", `containers: [{name: c, lifecycle: {postStart: {httpGet: {port: 1, protocol: H2C}},
			preStop: {httpGet: {port: 1, protocol: H2C}}}}]`,
			`containers: [{name: c, lifecycle: {postStart: {httpGet: {port: 1}}, preStop: {httpGet: {port: 1}}}}]`},
		{"mode", `volumes: [{name: v, emptyDir: {mode: 448}}]`, `volumes: [{name: v, emptyDir: {}}]`},
		{"users", `volumes: [{name: v, secret: {defaultUser: 5, items: [{key: a, path: a, user: 6}]}}, {name: p, projected: {defaultUser: 1,
			sources: [{serviceAccountToken: {path: t, user: 7}}]}}]`,
			`volumes: [{name: v, secret: {items: [{key: a, path: a}]}}, {name: p, projected: {sources: [{serviceAccountToken: {path: t}}]}}]`},
		{"projections", `volumes: [{name: p, projected: {sources: [{clusterTrustBundle: {path: t}}, {podCertificate: {signerName: a.b/c}}]}}]`,
			`volumes: [{name: p, projected: {sources: [{}, {}]}}]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			with, without := spec(t, c.with), spec(t, c.without)
			got := with.DeepCopy()
			if DropDisabled(old, got, with); !reflect.DeepEqual(got, with) {
				t.Errorf("%s: what is stored is gone", c.name)
			}
			if DropDisabled(old, got, nil); !reflect.DeepEqual(got, without) {
				t.Errorf("%s: got %+v, want %+v", c.name, got, without)
			}
		})
	}
}

func spec(t *testing.T, text string) *corev1.PodSpec {
	t.Helper()
	s := &corev1.PodSpec{}
	if err := yaml.UnmarshalStrict([]byte(text), s); err != nil {
		t.Fatal(err)
	}
	return s
}
