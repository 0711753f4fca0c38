package podspec_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/podspec"
)

// TestVolumeSources: one volume each.
func TestVolumeSources(t *testing.T) {
	for _, c := range []struct {
		source string
		want   []string
	}{
		{`gcePersistentDisk: {partition: 256}`, []string{"persistentDisk.partition Invalid", "persistentDisk.pdName Required"}},
		{`awsElasticBlockStore: {partition: -1, volumeID: vol}`, []string{"awsElasticBlockStore.partition Invalid"}},
		{`glusterfs: {}`, []string{"glusterfs.endpoints Required", "glusterfs.path Required"}},
		{`rbd: {}`, []string{"rbd.image Required", "rbd.monitors Required"}},
		{`cephfs: {}`, []string{"cephfs.monitors Required"}},
		{`cinder: {secretRef: {}}`, []string{"cinder.secretRef.name Required", "cinder.volumeID Required"}},
		{`flocker: {}`, []string{"flocker Required"}},
		{`flocker: {datasetName: a/b, datasetUUID: u}`, []string{"flocker Invalid", "flocker.datasetName Invalid"}},
		{`flexVolume: {}`, []string{"flexVolume.driver Required"}},
		{`azureFile: {}`, []string{"azureFile.secretName Required", "azureFile.shareName Required"}},
		{`azureDisk: {diskName: dd, diskURI: 'https://x', kind: Managed}`, []string{"azureDisk.diskURI NotSupported"}},
		{`azureDisk: {diskName: dd, diskURI: x, kind: Dedicated}`, []string{"azureDisk.diskURI NotSupported"}},
		{`projected: {sources: [{clusterTrustBundle: {name: 'a.b:c:d', path: a}}, {clusterTrustBundle: {name: 'a.b:c:D', path: b}}]}`,
			[]string{"projected.sources[1].clusterTrustBundle.name Invalid"}},
		{`azureDisk: {diskName: dd, diskURI: 'https://x', cachingMode: Odd}`, []string{"azureDisk.cachingMode NotSupported"}},
		{`vsphereVolume: {}`, []string{"vsphereVolume.volumePath Required"}},
		{`photonPersistentDisk: {}`, []string{"photonPersistentDisk.pdID Required"}},
		{`portworxVolume: {}`, []string{"portworxVolume.volumeID Required"}},
		{`quobyte: {}`, []string{"quobyte.registry Required", "quobyte.volume Required"}},
		{`scaleIO: {}`, []string{"scaleIO.gateway Required", "scaleIO.system Required", "scaleIO.volumeName Required"}},
		{`storageos: {volumeName: A_b}`, []string{"storageos.volumeName Invalid"}},
		{`fc: {}`, []string{"fc.targetWWNs Required"}},
		{`fc: {targetWWNs: [a], wwids: [b]}`, []string{"fc.lun Required", "fc.targetWWNs Invalid"}},
		{`fc: {targetWWNs: [a]}`, []string{"fc.lun Required"}},
		{`fc: {targetWWNs: [a], lun: 300}`, []string{"fc.lun Invalid"}},
		{`gitRepo: {directory: ../x}`, []string{"gitRepo.directory Invalid", "gitRepo.repository Required"}},
		{`persistentVolumeClaim: {claimName: ''}`, []string{"persistentVolumeClaim.claimName Required"}},
		{`projected: {sources: [{}, {secret: {name: s}, configMap: {name: c}}]}`, []string{"projected.sources[1] Forbidden"}},
		{
			`projected: {sources: [{clusterTrustBundle: {path: a}}, {clusterTrustBundle: {name: n1, signerName: s, path: b}}, ` +
				`{clusterTrustBundle: {name: '', labelSelector: {}, path: c}}, {clusterTrustBundle: {signerName: '', path: a}}]}`,
			[]string{"projected Invalid", "projected.sources[0].clusterTrustBundle Required",
				"projected.sources[1].clusterTrustBundle Invalid", "projected.sources[2].clusterTrustBundle.labelSelector Invalid",
				"projected.sources[2].clusterTrustBundle.name Invalid", "projected.sources[2].clusterTrustBundle.name Required",
				"projected.sources[3].clusterTrustBundle.signerName Required", "projected.sources[3].clusterTrustBundle.signerName Required"}},
		{`hostPath: {path: /x}, emptyDir: {}`, []string{"hostPath Forbidden"}},
		{`secret: {secretName: s}, cephfs: {monitors: [m]}, downwardAPI: {}`, []string{"cephFS Forbidden", "downwarAPI Forbidden"}},
		{`quobyte: {registry: 'a:1,b', volume: vol}`, []string{"quobyte.registry Invalid"}},
		{`flexVolume: {driver: x/y, options: {sub.kubernetes.io/a: b, other: c}}`, []string{"flexVolume.options[sub.kubernetes.io/a] Invalid"}},
		{`storageos: {volumeName: vol, volumeNamespace: A_b}`, []string{"storageos.volumeNamespace Invalid"}},
		{`csi: {driver: '', nodePublishSecretRef: {name: A_b}}`, []string{"csi.driver Required", "csi.name Invalid"}},
		{
			`iscsi: {targetPortal: 'portal-of-a-rather-long-name-which-leaves-no-room-at-all-for-it:3260', iqn: 'iqn.2001-04.com.example:a', ` +
				`lun: 0, initiatorName: 'iqn.2001-04.com.example:b'}`, []string{"name Invalid"}},
		{
			`ephemeral: {volumeClaimTemplate: {metadata: {name: nm, labels: {a b: c}}, ` +
				`spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}`,
			[]string{"ephemeral.volumeClaimTemplate.metadata.labels Invalid", "ephemeral.volumeClaimTemplate.metadata.name Forbidden"}},
		{`projected: {sources: [{serviceAccountToken: {path: /abs}}]}`, []string{"projected.path Invalid"}},
		{
			`projected: {sources: [{podCertificate: {signerName: nope, keyType: DSA, maxExpirationSeconds: 5}}, ` +
				`{podCertificate: {signerName: a.example/b, keyType: ED25519, credentialBundlePath: /x}}]}`,
			[]string{"projected.sources[0].podCertificate Required", "projected.sources[0].podCertificate.keyType NotSupported",
				"projected.sources[0].podCertificate.maxExpirationSeconds Invalid",
				"projected.sources[0].podCertificate.signerName Invalid", "projected.sources[1].podCertificate.credentialBundlePath Invalid"}},
	} {
		t.Run(c.source, func(t *testing.T) {
			var want []string
			for _, w := range c.want {
				want = append(want, "spec.volumes[0]."+w)
			}
			got := causes(podspec.ValidatePod(nil, pod(t, "volumes: [{name: v, "+c.source+"}]"), nil))
			if !slices.Equal(got, want) {
				t.Errorf("%s\ngot  %q\nwant %q", c.source, got, want)
			}
		})
	}
}

// What a projected volume asks of signers is refused in upstream's words, by which its specs know the rule.
func TestProjectedSignersSay(t *testing.T) {
	for _, c := range []struct{ source, want string }{
		{`podCertificate: {signerName: a.example/b, keyType: ED25519, maxExpirationSeconds: 3599, keyPath: k}`,
			"if provided, maxExpirationSeconds must be >= 3600"},
		{`podCertificate: {signerName: a.example/b, keyType: ED25519, maxExpirationSeconds: 7862401, keyPath: k}`,
			"if provided, maxExpirationSeconds must be <= 7862400"},
		{`podCertificate: {signerName: kubernetes.io/b, keyType: ED25519, maxExpirationSeconds: 86401, keyPath: k}`,
			"if provided, maxExpirationSeconds must be <= 86400"},
		{`podCertificate: {signerName: a.example/b, keyType: ED25519, userAnnotations: {a: b}, keyPath: k}`,
			"userAnnotations: Invalid value: \"a\": must be a domain-prefixed key"},
		{`podCertificate: {signerName: nope, keyType: ED25519, keyPath: k}`,
			"must be a fully qualified domain and path of the form 'example.com/signer-name'"},
		{`clusterTrustBundle: {signerName: nope, path: p}`, "must be a fully qualified domain and path of the form 'example.com/signer-name'"},
		{`clusterTrustBundle: {name: 'a.example:b:C_', path: p}`,
			"name: Invalid value: \"a.example:b:C_\": not a valid clustertrustbundlename: a lowercase RFC 1123 subdomain"},
	} {
		t.Run(c.source, func(t *testing.T) {
			errs := podspec.ValidatePod(nil, pod(t, "volumes: [{name: v, projected: {sources: [{"+c.source+"}]}}]"), nil)
			if len(errs) != 1 || !strings.Contains(errs[0].Error(), c.want) {
				t.Errorf("%v\nwant %q alone", errs, c.want)
			}
		})
	}
}

func TestClaimSpec(t *testing.T) {
	group, space, class := "", "A_b", "A_b"
	s := &corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		DataSource:                &corev1.TypedLocalObjectReference{APIGroup: &group, Kind: "Pod"},
		DataSourceRef:             &corev1.TypedObjectReference{Kind: "PersistentVolumeClaim", Name: "x"},
		VolumeAttributesClassName: &class}
	want := []string{"spec Invalid", "spec.dataSource Invalid", "spec.dataSource.name Required", "spec.resources[storage] Required",
		"spec.volumeAttributesClassName Invalid"}
	if got := causes(podspec.ValidateClaimSpec(s, field.NewPath("spec"))); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	s.DataSourceRef.Namespace = &space
	want = []string{"spec Invalid", "spec.dataSource Invalid", "spec.dataSource.name Required", "spec.dataSourceRef.namespace Invalid",
		"spec.resources[storage] Required", "spec.volumeAttributesClassName Invalid"}
	if got := causes(podspec.ValidateClaimSpec(s, field.NewPath("spec"))); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestNodeFields(t *testing.T) {
	s := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
		{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"A_b"}},
		{Key: "metadata.name", Operator: corev1.NodeSelectorOpExists},
		{Key: "metadata.name", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"a", "b"}},
		{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}}}}}
	want := []string{"x.nodeSelectorTerms[0].matchFields[0].values[0] Invalid",
		"x.nodeSelectorTerms[0].matchFields[1].operator Invalid", "x.nodeSelectorTerms[0].matchFields[2].values Required"}
	if got := causes(podspec.ValidateNodeSelector(s, field.NewPath("x"))); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if got := causes(podspec.ValidateNodeSelector(&corev1.NodeSelector{}, field.NewPath("x"))); !slices.Equal(got,
		[]string{"x.nodeSelectorTerms Required"}) {
		t.Errorf("got %q", got)
	}
}

func TestWindowsUser(t *testing.T) {
	for user, ok := range map[string]bool{"Administrator": true, `dom\user`: true, "": false, `a\b\c`: false, `\b`: false, `a\`: false,
		"..": false, "a:b": false, "a\x01": false} {
		t.Run(user, func(t *testing.T) {
			p := pod(t, "")
			p.Spec.SecurityContext.WindowsOptions = &corev1.WindowsSecurityContextOptions{RunAsUserName: &user}
			if got := len(podspec.ValidatePod(nil, p, nil)) == 0; got != ok {
				t.Errorf("%q: %v", user, got)
			}
		})
	}
}

func TestStopSignal(t *testing.T) {
	for _, c := range []struct {
		name   string
		os     corev1.OSName
		signal corev1.Signal
		ok     bool
	}{
		{"user's signal",
			corev1.Linux, "SIGUSR1", true},
		{"last real-time signal",
			corev1.Linux, "SIGRTMIN+15", true},
		{"beyond the real-time signals",
			corev1.Linux, "SIGRTMIN+16", false},
		{"without SIG",
			corev1.Linux,
			"TERM", false},
		{"SIGTERM on Windows", corev1.Windows, "SIGTERM", true},
		{"another on Windows", corev1.Windows, "SIGUSR1", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := pod(t, "")
			p.Spec.OS, p.Spec.SecurityContext = &corev1.PodOS{Name: c.os}, nil
			p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{StopSignal: &c.signal}
			if got := len(podspec.ValidatePod(nil, p, nil)) == 0; got != c.ok {
				t.Errorf("%s on %s: %v", c.signal, c.os, podspec.ValidatePod(nil, p, nil))
			}
		})
	}
}

func TestFileKey(t *testing.T) {
	p := pod(t,
		inContainer(`env: [{name: A, valueFrom: {fileKeyRef: {key: k, path: ../x, volumeName: A_b}}}, {name: B, valueFrom: {fileKeyRef: {}}}]`))
	got := causes(podspec.ValidatePod(nil, p, nil))
	want := []string{c0("env[0].valueFrom.fileKeyRef.path Invalid"), c0("env[0].valueFrom.fileKeyRef.volumeName Invalid"),
		c0("env[0].valueFrom.fileKeyRef.volumeName NotFound"),
		c0("env[1].valueFrom.fileKeyRef.key Required"), c0("env[1].valueFrom.fileKeyRef.path Required"),
		c0("env[1].valueFrom.fileKeyRef.volumeName NotFound"), c0("env[1].valueFrom.fileKeyRef.volumeName Required")}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestTemplateWarnings(t *testing.T) {
	old := &corev1.PodTemplateSpec{Spec: *spec(t, "imagePullSecrets: [{}]")}
	for _, c := range []struct {
		name   string
		t, old *corev1.PodTemplateSpec
		want   int
	}{
		{"none", nil, nil, 0},
		{"new", old, nil, 1},
		{"unchanged", old, old.DeepCopy(), 0},
		{"changed", old, &corev1.PodTemplateSpec{}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := podspec.TemplateWarnings(c.t, c.old, field.NewPath("template")); len(got) != c.want {
				t.Errorf("got %q, want %d", got, c.want)
			}
		})
	}
}
