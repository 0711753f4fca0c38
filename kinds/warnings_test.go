package kinds_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/kinds"
)

// A patch writes raw JSON anew; that is no change of a claim's parameters. The data of a revision is compared byte by byte, as upstream
// does: its own loops write it in one order.
func TestRawJSONStaysTheSame(t *testing.T) {
	const old, same, other = `{"b": 1, "a": [2]}`, `{"a":[2],"b":1}`, `{"a":[3],"b":1}`
	claim := func(parameters string) *resourcev1.ResourceClaim {
		c := &resourcev1.ResourceClaim{}
		c.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "c",
			AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1}}}
		c.Spec.Devices.Config = []resourcev1.DeviceClaimConfiguration{{DeviceConfiguration: resourcev1.DeviceConfiguration{
			Opaque: &resourcev1.OpaqueDeviceConfiguration{Driver: "d.example.com",
				Parameters: runtime.RawExtension{Raw: []byte(parameters)}}}}}
		return c
	}
	revision := func(data string) *appsv1.ControllerRevision {
		return &appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: []byte(data)}}
	}
	for to, want := range map[string][2]int{old: {0, 0}, same: {0, 1}, other: {1, 1}} {
		if errs := kinds.ResourceClaims.Check(nil, nil, "", claim(to), claim(old)); len(errs) != want[0] {
			t.Errorf("parameters become %s: %v", to, errs)
		}
		if errs := kinds.ControllerRevisions.Check(nil, nil, "", revision(to), revision(old)); len(errs) != want[1] {
			t.Errorf("data becomes %s: %v", to, errs)
		}
	}
}

func pod(spec string) map[string]any { return specOf("Pod", spec) }

func service(spec string) map[string]any { return specOf("Service", spec) }

func specOf(kind, spec string) map[string]any {
	var s map[string]any
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(spec, "\t", " ")), &s); err != nil {
		panic(err)
	}
	return map[string]any{"apiVersion": "v1", "kind": kind, "spec": s}
}

// What deserves how many warnings.
func TestWarnings(t *testing.T) {
	set := kinds.NewSet()
	pods := map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": "i"}}}}
	for _, c := range []struct {
		name string
		of   map[string]any
		want int
	}{
		{"network policy", map[string]any{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "spec": map[string]any{
			"podSelector": map[string]any{}, "egress": []any{map[string]any{"to": []any{map[string]any{"ipBlock": map[string]any{
				"cidr": "10.0.0.0/8", "except": []any{"10.01.0.0/16"}}}}}}}}, 1},
		{"endpoint slice", map[string]any{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
			"endpoints": []any{map[string]any{"addresses": []any{"10.0.0.01", "10.0.0.2"}}}}, 1},
		{"endpoints", map[string]any{"apiVersion": "v1", "kind": "Endpoints", "subsets": []any{map[string]any{
			"addresses": []any{map[string]any{"ip": "10.0.0.01"}}, "notReadyAddresses": []any{map[string]any{"ip": "FD00::1"}}}}}, 2},
		{"addresses of pods", pod(`{hostAliases: [{ip: 010.0.0.1}], dnsConfig: {nameservers: ['FD00::1', 10.0.0.1]}}`), 2},
		{"node", specOf("Node", `{podCIDRs: ['FD00::/64']}`), 1},
		{"tokens of a driver", map[string]any{"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "spec": map[string]any{
			"tokenRequests": []any{map[string]any{"audience": "a"}}}}, 1},
		{"tokens in secrets", map[string]any{"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "spec": map[string]any{
			"serviceAccountTokenInSecrets": true, "tokenRequests": []any{map[string]any{"audience": "a"}}}}, 0},
		{"balancer", service(`{type: LoadBalancer, loadBalancerIP: 010.0.0.1}`), 1},
		{"names of hosts", map[string]any{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "FQDN"}, 1},
		{"old class", map[string]any{"apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
			"metadata": map[string]any{"annotations": map[string]any{"kubernetes.io/ingress.class": "a"}}}, 1},
		{"long name", map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "a.b"},
			"spec": map[string]any{"template": pods}}, 1},
		{"long name of a job", map[string]any{"apiVersion": "batch/v1", "kind": "Job", "metadata": map[string]any{"name": "a.b"},
			"spec": map[string]any{"template": pods}}, 1},
		{"nothing to say", pod(`{}`), 0},
		{"spread over no pods", pod(`{topologySpreadConstraints: [{topologyKey: beta.kubernetes.io/os}]}`), 2},
		{"near no pods", pod(`{affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: a}]}, podAntiAffinity:
			{preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: a}},
			  {weight: 1, podAffinityTerm: {topologyKey: a, labelSelector: {}}}]}}}`), 2},
		{"a value that no label has", pod(`{affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference:
			{matchExpressions: [{key: a, operator: In, values: [b, -c]}]}}]}}}`), 1},
		{"twice", pod(`{hostAliases: [{ip: 1.1.1.1}, {ip: 1.1.1.1}], imagePullSecrets: [{name: a}, {name: a}, {}]}`), 3},
		{"ports", pod(`{containers: [{name: c, image: i, ports: [{name: a, containerPort: 80}, {containerPort: 80}]}, {name: d, image: i, ports:
			[{name: a, containerPort: 81, hostPort: 5}, {containerPort: 81, hostPort: 5, hostIP: 1.1.1.1},
			  {containerPort: 82, hostIP: 1.1.1.1}]}]}`), 4},
		{"a port of an init container", pod(`{initContainers: [{name: b, image: i, ports: [{name: a, containerPort: 70}]}],
			containers: [{name: c, image: i, ports: [{name: a, containerPort: 80}]}]}`), 0},
		{"values that build on others",
			pod(`{containers: [{name: c, image: i, env: [{name: A, value: x}, {name: A, value: $(A)y}, {name: A, value: z}]}]}`), 1},
		{"files in each other's way",
			pod(`{volumes: [{name: a, configMap: {name: x, items: [{key: k, path: p}, {key: l, path: p/q}, {key: m, path: pq}]}},
			{name: b, projected: {sources: [{secret: {name: s, items: [{key: k, path: token}]}}, {serviceAccountToken: {path: token}}, {}]}}]}`), 3},
		{"volumes that are gone", pod(`{volumes: [{name: a, photonPersistentDisk: {pdID: x}}, {name: b, rbd: {image: x, monitors: [m]}}]}`), 2},
		{"annotations", map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"annotations": map[string]any{
			"scheduler.alpha.kubernetes.io/critical-pod": "", "seccomp.security.alpha.kubernetes.io/pod": "x"}}, "spec": pods["spec"]}, 2},
		{"headless", service(
			`{type: ClusterIP, clusterIP: None, clusterIPs: [None], sessionAffinity: ClientIP, externalIPs: [1.1.1.1], ` +
				`loadBalancerIP: 1.1.1.1}`), 3},
		{"service", service(`{type: ClusterIP, externalIPs: [01.1.1.1], externalName: x, trafficDistribution: PreferClose}`), 4},
		{"volume", map[string]any{"apiVersion": "v1", "kind": "PersistentVolume", "spec": map[string]any{"rbd": map[string]any{"image": "x"},
			"nodeAffinity": map[string]any{"required": map[string]any{"nodeSelectorTerms": []any{map[string]any{"matchExpressions": []any{
				map[string]any{"key": "beta.kubernetes.io/arch", "operator": "Exists"}}}}}}}}, 2},
		{"keys of nobody", map[string]any{"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
			"data": map[string]any{"tls.crt": "", "tls.key": ""}}, 1},
		{"storage class", map[string]any{"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "allowedTopologies": []any{map[string]any{
			"matchLabelExpressions": []any{map[string]any{"key": "beta.kubernetes.io/os", "values": []any{"a"}}}}}}, 1},
		{"storage capacity", map[string]any{"apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity", "nodeTopology": map[string]any{
			"matchLabels": map[string]any{"beta.kubernetes.io/os": "a"}}}, 1},
		{"runtime class", map[string]any{"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "scheduling": map[string]any{
			"nodeSelector": map[string]any{"beta.kubernetes.io/os": "a"}}}, 1},
		{"stateful set", map[string]any{"apiVersion": "apps/v1", "kind": "StatefulSet",
			"spec": map[string]any{"template": pods, "revisionHistoryLimit": -1,
				"volumeClaimTemplates": []any{map[string]any{"spec": map[string]any{"resources": map[string]any{
					"requests": map[string]any{"storage": "1500m"}}}}}}}, 2},
		{"daemon set", map[string]any{"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": map[string]any{"name": "a.b"},
			"spec": map[string]any{"template": pods}}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			obj := decode(t, set, c.of)
			k, _ := set.Kind(gvkOf(c.of))
			if got := k.Warnings(nil, obj, nil); len(got) != c.want {
				t.Errorf("got %q, want %d", got, c.want)
			}
		})
	}
}

// A changed spec is warned of again even if what deserves it was there before.
func TestWarningsOfChanges(t *testing.T) {
	set := kinds.NewSet()
	for kind, n := range map[string]int{"apps/v1 Deployment": 1, "apps/v1 ReplicaSet": 1, "apps/v1 StatefulSet": 1,
		"v1 ReplicationController": 1} {
		t.Run(kind, func(t *testing.T) {
			api, name, _ := strings.Cut(kind, " ")
			of := map[string]any{"apiVersion": api, "kind": name, "metadata": map[string]any{"name": "a.b"}, "spec": map[string]any{"replicas": 1,
				"template": map[string]any{"spec": map[string]any{"containers": []any{}, "imagePullSecrets": []any{map[string]any{}}}}}}
			k, _ := set.Kind(gvkOf(of))
			old := decode(t, set, of)
			if got := k.Warnings(nil, decode(t, set, of), old); len(got) != 0 {
				t.Errorf("%s: got %q though nothing changed", kind, got)
			}
			of["spec"].(map[string]any)["replicas"] = 2
			if got := k.Warnings(nil, decode(t, set, of), old); len(got) != n {
				t.Errorf("%s: got %q", kind, got)
			}
		})
	}
}
