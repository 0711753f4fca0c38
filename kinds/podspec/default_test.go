package podspec_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds/podspec"
)

// same compares an object with YAML, by their JSON.
func same(t *testing.T, got any, want string) {
	t.Helper()
	js, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	var is, should any
	if err := json.Unmarshal(js, &is); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(want), &should); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(is, should) {
		t.Errorf("got  %s\nwant %s", js, want)
	}
}

const given = `
serviceAccount: robot
hostNetwork: true
initContainers: [{name: i, image: 'b:1', resources: {limits: {cpu: 1}}}]
containers:
- name: c
  image: nginx
  ports: [{containerPort: 80}]
  env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
  livenessProbe: {httpGet: {port: 80}}
  startupProbe: {grpc: {port: 80}, periodSeconds: 3}
  lifecycle: {preStop: {httpGet: {port: 1}}}
  resources: {requests: {memory: 0.5Gi, cpu: 1u}}
volumes:
- {name: a}
- {name: b, secret: {secretName: s}}
- {name: c, projected: {sources: [{serviceAccountToken: {path: t}},
    {downwardAPI: {items: [{path: p, fieldRef: {fieldPath: metadata.name}}]}}]}}
- {name: d, hostPath: {path: /}}
- {name: e, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce]}}}}
- {name: f, iscsi: {targetPortal: p, iqn: q, lun: 0}}
- {name: g, azureDisk: {diskName: dn, diskURI: u}}
`

const common = `
restartPolicy: Always
dnsPolicy: ClusterFirst
schedulerName: default-scheduler
terminationGracePeriodSeconds: 30
securityContext: {}
serviceAccount: robot
serviceAccountName: robot
hostNetwork: true
volumes:
- {name: a, emptyDir: {}}
- {name: b, secret: {secretName: s, defaultMode: 420}}
- {name: c, projected: {defaultMode: 420, sources: [{serviceAccountToken: {path: t, expirationSeconds: 3600}},
    {downwardAPI: {items: [{path: p, fieldRef: {apiVersion: v1, fieldPath: metadata.name}}]}}]}}
- {name: d, hostPath: {path: /, type: ''}}
- {name: e, ephemeral: {volumeClaimTemplate: {metadata: {}, spec: {accessModes: [ReadWriteOnce], resources: {}, volumeMode: Filesystem}}}}
- {name: f, iscsi: {targetPortal: p, iqn: q, lun: 0, iscsiInterface: default}}
- {name: g, azureDisk: {diskName: dn, diskURI: u, cachingMode: ReadWrite, fsType: ext4, readOnly: false, kind: Shared}}
`

const container = `
  name: c
  image: nginx
  imagePullPolicy: Always
  terminationMessagePath: /dev/termination-log
  terminationMessagePolicy: File
  env: [{name: A, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: metadata.name}}}]
  livenessProbe: {httpGet: {port: 80, path: /, scheme: HTTP}, timeoutSeconds: 1, periodSeconds: 10, successThreshold: 1,
    failureThreshold: 3}
  startupProbe: {grpc: {port: 80, service: ''}, timeoutSeconds: 1, periodSeconds: 3, successThreshold: 1, failureThreshold: 3}
  lifecycle: {preStop: {httpGet: {port: 1, path: /, scheme: HTTP}}}
  resources: {requests: {memory: 512Mi, cpu: 1m}}
`

func spec(t *testing.T, text string) *corev1.PodSpec {
	t.Helper()
	s := &corev1.PodSpec{}
	if err := yaml.UnmarshalStrict([]byte(text), s); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestDefault(t *testing.T) {
	init := "{name: i, image: 'b:1', imagePullPolicy: IfNotPresent, terminationMessagePath: /dev/termination-log, " +
		"terminationMessagePolicy: File, resources: "
	tmpl := &corev1.PodTemplateSpec{Spec: *spec(t, given)}
	podspec.DefaultTemplate(tmpl)
	same(t, tmpl.Spec, common+"initContainers: ["+init+
		"{limits: {cpu: '1'}}}]\ncontainers:\n- ports: [{containerPort: 80, protocol: TCP}]"+container)
	s := spec(t, given)
	podspec.DefaultPod(s)
	once := s.DeepCopy()
	same(t, s, common+"enableServiceLinks: true\ninitContainers: ["+init+"{limits: {cpu: '1'}, requests: {cpu: '1'}}}]\n"+
		"containers:\n- ports: [{containerPort: 80, hostPort: 80, protocol: TCP}]"+container)
	if podspec.DefaultPod(s); !reflect.DeepEqual(s, once) {
		t.Error("defaulting twice differs from defaulting once")
	}
}

func TestPullPolicy(t *testing.T) {
	digest := "@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	for image, want := range map[string]corev1.PullPolicy{
		"nginx": corev1.PullAlways, "nginx:latest": corev1.PullAlways, "nginx:1": corev1.PullIfNotPresent,
		"r.example:5000/a/b":   corev1.PullAlways,
		"r.example:5000/a/b:2": corev1.PullIfNotPresent, "a" + digest: corev1.PullIfNotPresent, "a:latest" + digest: corev1.PullAlways,
		strings.Repeat("a", 247): corev1.PullAlways, strings.Repeat("a", 248): corev1.PullIfNotPresent,
		"r.example/" + strings.Repeat("a", 255): corev1.PullAlways, "r.example/" + strings.Repeat("a", 256): corev1.PullIfNotPresent,
		"": corev1.PullIfNotPresent, "Upper": corev1.PullIfNotPresent, "a b": corev1.PullIfNotPresent, "localhost/x": corev1.PullAlways,
	} {
		t.Run(image, func(t *testing.T) {
			s := &corev1.PodSpec{Containers: []corev1.Container{{Image: image}}}
			if podspec.Default(s); s.Containers[0].ImagePullPolicy != want {
				t.Errorf("%q: got %s, want %s", image, s.Containers[0].ImagePullPolicy, want)
			}
		})
	}
}

func TestPodResources(t *testing.T) {
	limited := inContainer("resources: {limits: {cpu: 2, hugepages-2Mi: 4Mi}, requests: {cpu: 1}}")
	unlimited := inContainer("resources: {requests: {cpu: 2}}")
	for _, c := range []struct{ name, given, containers, in36, in37 string }{
		{"limits are requested", "limits: {cpu: '4', memory: 1Gi}", unlimited,
			"limits: {cpu: '4', memory: 1Gi}\nrequests: {cpu: '2', memory: 1Gi}", ""},
		{"huge pages of containers", "limits: {cpu: '4'}", limited,
			"limits: {cpu: '4', hugepages-2Mi: 4Mi}\nrequests: {cpu: '1', hugepages-2Mi: 4Mi}", ""},
		{"huge pages that are requested", "requests: {hugepages-2Mi: 4Mi}", unlimited,
			"requests: {hugepages-2Mi: 4Mi}", "requests: {hugepages-2Mi: 4Mi, cpu: '2'}"},
		{"requests alone", "requests: {cpu: '1'}", limited,
			"limits: {hugepages-2Mi: 4Mi}\nrequests: {cpu: '1', hugepages-2Mi: 4Mi}",
			"limits: {cpu: '2', hugepages-2Mi: 4Mi}\nrequests: {cpu: '1', hugepages-2Mi: 4Mi}"},
		{"more requested than limited", "requests: {cpu: '3'}", limited,
			"limits: {hugepages-2Mi: 4Mi}\nrequests: {cpu: '3', hugepages-2Mi: 4Mi}",
			"limits: {cpu: '3', hugepages-2Mi: 4Mi}\nrequests: {cpu: '3', hugepages-2Mi: 4Mi}"},
		{"nothing", "", limited, "{}", ""},
	} {
		for minor, want := range map[int]string{36: c.in36, 37: cmp.Or(c.in37, c.in36)} {
			t.Run(fmt.Sprint(c.name, " in 1.", minor), func(t *testing.T) {
				on, err := features.New(minor, nil)
				if err != nil {
					t.Fatal(err)
				}
				s := spec(t, "resources: {"+c.given+"}\n"+c.containers)
				podspec.DefaultPod(s)
				podspec.DefaultWhole(on, s)
				if minor > 36 {
					same(t, s.Resources, "{"+c.given+"}") // until admission is through
				}
				podspec.CompleteWhole(on, s, nil)
				same(t, s.Resources, want)
			})
		}
	}
}

// TestSizesOfUpdates shows what an update does to resources of the pod as a whole.
func TestSizesOfUpdates(t *testing.T) {
	old := spec(t, "resources: {requests: {cpu: 1}}\n"+inContainer("resources: {limits: {cpu: 2}}"))
	podspec.DefaultPod(old)
	for _, c := range []struct{ name, now, want string }{
		{"kept by who does not know of them", inContainer("resources: {limits: {cpu: 2}}"), "requests: {cpu: '1'}"},
		{"of an older version, unchanged", "resources: {requests: {cpu: 1}}\n" + inContainer("resources: {limits: {cpu: 2}}"),
			"requests: {cpu: '1'}"},
		{"with another container's", "resources: {requests: {cpu: 1}}\n" + inContainer("resources: {limits: {cpu: 3}}"),
			"limits: {cpu: '3'}\nrequests: {cpu: '1'}"},
		{"with another request", "resources: {requests: {cpu: 2500m}}\n" + inContainer("resources: {limits: {cpu: 2}}"),
			"limits: {cpu: 2500m}\nrequests: {cpu: 2500m}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := spec(t, c.now)
			podspec.DefaultPod(s)
			podspec.CompleteWhole(nil, s, old)
			same(t, s.Resources, c.want)
		})
	}
}

func TestQOS(t *testing.T) {
	for _, c := range []struct {
		spec string
		want corev1.PodQOSClass
	}{
		{inContainer("resources: {}"), corev1.PodQOSBestEffort},
		{inContainer("resources: {limits: {cpu: 0}}"), corev1.PodQOSBestEffort},
		{inContainer("resources: {requests: {cpu: 0, memory: -1}}"), corev1.PodQOSBurstable}, // refused for other reasons
		{inContainer("resources: {requests: {cpu: 1}}"), corev1.PodQOSBurstable},
		{inContainer("resources: {limits: {cpu: 1}}"), corev1.PodQOSBurstable},
		{inContainer("resources: {limits: {cpu: 1, memory: 1}}"), corev1.PodQOSGuaranteed},
		{inContainer("resources: {limits: {cpu: 2, memory: 1}, requests: {cpu: 1}}"), corev1.PodQOSBurstable},
		{"initContainers: [{name: i, image: i}]\n" + inContainer("resources: {limits: {cpu: 1, memory: 1}}"), corev1.PodQOSBurstable},
		{"resources: {limits: {cpu: 1, memory: 1}}\n" + inContainer("resources: {}"), corev1.PodQOSGuaranteed},
		{"resources: {}\n" + inContainer("resources: {limits: {cpu: 0}}"), corev1.PodQOSBestEffort},
		{"resources: {}\n" + inContainer("resources: {limits: {cpu: 1}}"), corev1.PodQOSBurstable},
	} {
		t.Run(c.spec, func(t *testing.T) {
			s := spec(t, c.spec)
			podspec.DefaultPod(s)
			podspec.CompleteWhole(nil, s, nil)
			if got := podspec.QOS(s); got != c.want {
				t.Errorf("%s: got %s, want %s", c.spec, got, c.want)
			}
		})
	}
}

func TestMergeMatchLabelKeys(t *testing.T) {
	s := spec(t, `
topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: ScheduleAnyway, labelSelector: {}, matchLabelKeys: [a, gone]}]
affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: z, labelSelector: {}, mismatchLabelKeys: [a]}]}}`)
	podspec.MergeMatchLabelKeys(s, map[string]string{"a": "x"})
	same(t, s.TopologySpreadConstraints[0].LabelSelector, `matchExpressions: [{key: a, operator: In, values: [x]}]`)
	same(t, s.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector,
		`matchExpressions: [{key: a, operator: NotIn, values: [x]}]`)
}

func TestPrepareClaim(t *testing.T) {
	for given, want := range map[string]string{
		`dataSource: {kind: PersistentVolumeClaim, name: a}`: `{resources: {}, dataSource: {apiGroup: null, kind: PersistentVolumeClaim, ` +
			`name: a}, ` +
			`dataSourceRef: {apiGroup: null, kind: PersistentVolumeClaim, name: a}}`,
		`dataSource: {kind: Pod, name: a}`: `{resources: {}}`,
		`dataSourceRef: {apiGroup: x.example, kind: Thing, name: a}`: `{resources: {}, dataSource: {apiGroup: x.example, kind: Thing,` +
			` name: a}, dataSourceRef: {apiGroup: x.example, kind: Thing, name: a}}`,
		`dataSourceRef: {kind: PersistentVolumeClaim, name: a, namespace: b}`: `{resources: {}}`,
	} {
		t.Run(given, func(t *testing.T) {
			s := &corev1.PersistentVolumeClaimSpec{}
			if err := yaml.UnmarshalStrict([]byte(given), s); err != nil {
				t.Fatal(err)
			}
			podspec.PrepareClaim(s, nil)
			same(t, s, want)
		})
	}
}

func BenchmarkDefault(b *testing.B) {
	s := &corev1.PodSpec{}
	if err := yaml.Unmarshal([]byte(given), s); err != nil {
		b.Fatal(err)
	}
	podspec.DefaultPod(s)
	b.ReportAllocs()
	for b.Loop() {
		podspec.DefaultPod(s)
	}
}

func BenchmarkValidate(b *testing.B) {
	p := &corev1.Pod{}
	if err := yaml.Unmarshal([]byte(given), &p.Spec); err != nil {
		b.Fatal(err)
	}
	podspec.DefaultPod(&p.Spec)
	b.ReportAllocs()
	for b.Loop() {
		podspec.ValidatePod(nil, p, nil)
	}
}
