package core_test

import (
	"slices"
	"testing"

	"github.com/kloop-dev/kloop/resource"
)

var invalid = []struct {
	given string
	want  []string
}{
	{`ConfigMap: {data: {'..': c, 'a b': c, a: b}, binaryData: {a: eA==}}`, []string{"data[..] Invalid", "data[a b] Invalid",
		"data[a] Invalid"}},
	{`ConfigMap: {data: {'': c}}`, []string{"data[] Invalid"}}, {`Secret: {stringData: {'': c}}`, []string{"data[] Invalid"}},
	{`Secret: {type: kubernetes.io/basic-auth}`, []string{"data[password] Required", "data[username] Required"}},
	{`Secret: {type: kubernetes.io/basic-auth, stringData: {username: a}}`, nil},
	{`Secret: {type: kubernetes.io/dockerconfigjson}`, []string{"data[.dockerconfigjson] Required"}},
	{`Secret: {type: kubernetes.io/dockercfg, stringData: {.dockercfg: '{'}}`, []string{"data[.dockercfg] Invalid"}},
	{`Secret: {type: kubernetes.io/tls}`, []string{"data[tls.crt] Required", "data[tls.key] Required"}},
	{`Secret: {type: kubernetes.io/ssh-auth}`, []string{"data[ssh-privatekey] Required"}},
	{`Secret: {type: kubernetes.io/service-account-token}`, []string{"metadata.annotations[kubernetes.io/service-account.name] Required"}},

	{`Service: {spec: {}}`, []string{"spec.ports Required"}},
	{`Service: {spec: {clusterIP: None}}`, nil},
	{`Service: {spec: {type: Wonder, ports: [{port: 1}]}}`, []string{"spec.type NotSupported"}},
	{`Service: {spec: {type: ExternalName, clusterIP: 1.2.3.4}}`, []string{"spec.clusterIPs Forbidden", "spec.externalName Required"}},
	{`Service: {spec: {type: NodePort, clusterIP: None, ports: [{port: 1}]}}`, []string{"spec.clusterIPs[0] Invalid"}},
	{`Service: {spec: {ports: [{port: 80}, {port: 81}]}}`, []string{"spec.ports[0].name Required", "spec.ports[1].name Required"}},
	{`Service: {spec: {ports: [{name: a, port: 80, protocol: X, targetPort: Bad_Name}, {name: a, port: 0, nodePort: 1}]}}`,
		[]string{"spec.ports[0].protocol NotSupported", "spec.ports[0].targetPort Invalid", "spec.ports[1].name Duplicate",
			"spec.ports[1].nodePort Forbidden",
			"spec.ports[1].port Invalid", "spec.ports[1].targetPort Invalid"}},
	{`Service: {spec: {type: NodePort, ports: [{name: a, port: 80, nodePort: 30000}, {name: b, port: 80, nodePort: 30000}]}}`,
		[]string{"spec.ports[1] Duplicate", "spec.ports[1].nodePort Duplicate"}},
	{`Service: {spec: {type: LoadBalancer, ports: [{port: 10250}], loadBalancerSourceRanges: [x], loadBalancerClass: a b}}`,
		[]string{"spec.LoadBalancerSourceRanges[0] Invalid", "spec.loadBalancerClass Invalid"}},
	{
		`Service: {metadata: {annotations: {service.beta.kubernetes.io/load-balancer-source-ranges: '1.2.3.0/24, x', ` +
			`service.kubernetes.io/topology-mode: a, service.kubernetes.io/topology-aware-hints: b}}, spec: {ports: [{port: 1}]}}`,
		[]string{"metadata.annotations[service.beta.kubernetes.io/load-balancer-source-ranges] Forbidden",
			"metadata.annotations[service.beta.kubernetes.io/load-balancer-source-ranges] Invalid",
			"metadata.annotations[service.kubernetes.io/topology-mode] Invalid"}},
	{`Namespace: {spec: {finalizers: [bogus]}}`, []string{"spec.finalizers Invalid"}},
	{`Namespace: {spec: {finalizers: [a b]}}`, []string{"spec.finalizers Invalid", "spec.finalizers Invalid"}},
	{
		`Service: {spec: {ports: [{port: 1}], selector: {a b: c}, ` +
			`externalIPs: [x, 127.0.0.1], sessionAffinity: Foo, trafficDistribution: Foo, externalTrafficPolicy: Local, ` +
			`allocateLoadBalancerNodePorts: true}}`,
		[]string{"spec.allocateLoadBalancerNodePorts Forbidden", "spec.externalIPs[0] Invalid", "spec.externalIPs[1] Invalid",
			"spec.selector Invalid", "spec.sessionAffinity NotSupported", "spec.trafficDistribution NotSupported"}},
	{`Service: {spec: {ports: [{port: 1}], externalTrafficPolicy: Local, healthCheckNodePort: 30000}}`,
		[]string{"spec.externalTrafficPolicy Invalid", "spec.healthCheckNodePort Invalid"}},
	{`Service: {spec: {ports: [{port: 1}], sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 86401}}}}`,
		[]string{"spec.sessionAffinityConfig.clientIP.timeoutSeconds Invalid"}},
	{`Service: {spec: {ports: [{port: 1}], clusterIP: 10.0.0.1, clusterIPs: [10.0.0.2]}}`, []string{"spec.clusterIPs Invalid"}},
	{`Service: {spec: {ports: [{port: 1}], clusterIP: 1.2.3, ipFamilyPolicy: Foo, ipFamilies: [IPv5, IPv4, IPv4]}}`,
		[]string{"spec.clusterIPs[0] Invalid", "spec.ipFamilies[0] NotSupported", "spec.ipFamilies[2] Duplicate",
			"spec.ipFamilyPolicy NotSupported"}},
	{`Service: {spec: {ports: [{port: 1}], clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1, 10.0.0.2], ipFamilies: [IPv6]}}`,
		[]string{"spec.clusterIPs Invalid", "spec.clusterIPs[0] Invalid"}},

	{
		`Node: {spec: {taints: [{key: a, effect: Foo}, {key: b, effect: NoSchedule}, {key: b, effect: NoSchedule, value: x}], podCIDRs: [x]}, ` +
			`status: {capacity: {cpu: -1}}}`,
		[]string{"metadata.taints[0].effect NotSupported", "metadata.taints[2] Duplicate", "spec.podCIDRs[0] Invalid",
			"status.allocatable.cpu Invalid", "status.capacity.cpu Invalid"}},

	{`ResourceQuota: {spec: {hard: {bogus: 1, count/: 1, pods: 1.5, secrets: -1, count/pods: 3}}}`,
		[]string{"spec.hard[bogus] Invalid", "spec.hard[bogus] Invalid", "spec.hard[count/] Invalid", "spec.hard[count/] Invalid",
			"spec.hard[pods] Invalid", "spec.hard[secrets] Invalid"}},
	{`ResourceQuota: {spec: {scopes: [Foo, BestEffort, NotBestEffort], hard: {requests.cpu: 1}}}`,
		[]string{"spec.scopes Invalid", "spec.scopes Invalid", "spec.scopes Invalid"}},
	{
		`ResourceQuota: {spec: {scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: Foo}, ` +
			`{scopeName: BestEffort, operator: In, values: [a]}, {scopeName: Foo, operator: In}]}}}`,
		[]string{"spec.scopeSelector.matchExpressions.operator Invalid", "spec.scopeSelector.matchExpressions.operator Invalid",
			"spec.scopeSelector.matchExpressions.scopeName Invalid", "spec.scopeSelector.matchExpressions.values Required"}},

	{`LimitRange: {spec: {limits: [{type: a b}, {type: Pod}, {type: Pod, default: {cpu: 1}}, {type: PersistentVolumeClaim}, {type: Foo}]}}`,
		[]string{"spec.limits[0].type Invalid", "spec.limits[2].default Forbidden", "spec.limits[2].type Duplicate",
			"spec.limits[3].limits Required", "spec.limits[4].type Invalid"}},
	{`LimitRange: {spec: {limits: [{type: Container, max: {cpu: 1}, min: {cpu: 2}}]}}`,
		[]string{"spec.limits[0].default[cpu] Invalid", "spec.limits[0].defaultRequest[cpu] Invalid", "spec.limits[0].min[cpu] Invalid"}},
	{`LimitRange: {spec: {limits: [{type: Container, maxLimitRequestRatio: {cpu: 500m}, max: {bogus: 1}}]}}`,
		[]string{"spec.limits[0].default[bogus] Invalid", "spec.limits[0].default[bogus] Invalid",
			"spec.limits[0].defaultRequest[bogus] Invalid", "spec.limits[0].defaultRequest[bogus] Invalid",
			"spec.limits[0].max[bogus] Invalid", "spec.limits[0].max[bogus] Invalid", "spec.limits[0].maxLimitRequestRatio[cpu] Invalid"}},

	{`Endpoints: {subsets: [{ports: [{port: 0, protocol: X}, {port: 1}]}, {addresses: [{ip: x}, {ip: 169.254.0.1, hostname: a.b}]}]}`,
		[]string{"subsets[0] Required", "subsets[0].ports[0].name Required", "subsets[0].ports[0].port Invalid",
			"subsets[0].ports[0].protocol NotSupported", "subsets[0].ports[1].name Required",
			"subsets[1].addresses[0].ip Invalid", "subsets[1].addresses[0].ip Invalid", "subsets[1].addresses[1].hostname Invalid",
			"subsets[1].addresses[1].ip Invalid"}},

	{`Event: {}`, []string{"involvedObject.namespace Invalid"}},
	{`Event: {involvedObject: {namespace: other}}`, []string{"involvedObject.namespace Invalid"}},
	{`Event: {involvedObject: {namespace: ns}}`, nil},
	{`Event: {involvedObject: {namespace: ns}, eventTime: '2020-01-01T00:00:00.000000Z', reason: r, reportingInstance: i}`,
		[]string{"action Required", "reportingComponent Invalid", "reportingComponent Invalid", "reportingComponent Required"}},

	{`ReplicationController: {spec: {replicas: -1, minReadySeconds: -1}}`,
		[]string{"spec.minReadySeconds Invalid", "spec.replicas Invalid", "spec.selector Required", "spec.template Required"}},
	{
		`ReplicationController: {spec: {selector: {z: z}, template: {metadata: {labels: {a: b}}, ` +
			`spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}`,
		[]string{"spec.template.metadata.labels Invalid", "spec.template.spec.restartPolicy NotSupported"}},
	{`PodTemplate: {template: {spec: {containers: []}}}`, []string{"template.spec.containers Required"}},

	{`PersistentVolumeClaim: {spec: {storageClassName: A_B, selector: {matchExpressions: [{key: a, operator: In}]}}}`,
		[]string{"spec.accessModes Required", "spec.resources[storage] Required", "spec.selector.matchExpressions[0].values Required",
			"spec.storageClassName Invalid"}},
	{`PersistentVolumeClaim: {spec: {accessModes: [Foo], resources: {requests: {storage: 0}}, volumeMode: Foo}}`,
		[]string{"spec.accessModes NotSupported", "spec.resources[storage] Invalid", "spec.volumeMode NotSupported"}},
	{`PersistentVolume: {}`, []string{"spec Required", "spec.accessModes Required", "spec.capacity NotSupported", "spec.capacity Required"}},
	{
		`PersistentVolume: {spec: {accessModes: [ReadWriteOncePod, ReadWriteOnce], capacity: {storage: 0}, ` +
			`storageClassName: A_B, persistentVolumeReclaimPolicy: Foo, local: {path: /x}, csi: {volumeHandle: h}}}`,
		[]string{"spec.accessModes Forbidden", "spec.capacity[storage] Invalid", "spec.csi Forbidden", "spec.nodeAffinity Required",
			"spec.persistentVolumeReclaimPolicy NotSupported", "spec.storageClassName Invalid"}},
	{
		`PersistentVolume: {spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1}, ` +
			`persistentVolumeReclaimPolicy: Recycle, hostPath: {path: /}}}`, []string{"spec.persistentVolumeReclaimPolicy Forbidden"}},
	{`PersistentVolume: {spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1}, csi: {nodePublishSecretRef: {}}}}`,
		[]string{"spec.csi.driver Required", "spec.csi.nodePublishSecretRef.name Required",
			"spec.csi.nodePublishSecretRef.namespace Required", "spec.csi.volumeHandle Required"}},

	{
		`PersistentVolume: {spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1}, ` +
			`iscsi: {targetPortal: p, iqn: bad, lun: 0, chapAuthSession: true}}}`,
		[]string{"spec.iscsi.iqn Invalid", "spec.iscsi.secretRef Required"}},
	{`PersistentVolume: {spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1}, rbd: {}}}`,
		[]string{"spec.rbd.image Required", "spec.rbd.monitors Required"}},
	{`PersistentVolume: {spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1}, local: {path: a/../b}, nodeAffinity: {}}}`,
		[]string{"spec.local.path Invalid", "spec.nodeAffinity.required Required"}},
	{`Service: {spec: {ports: [{port: 1}], sessionAffinityConfig: {}, sessionAffinity: ClientIP}}`, nil},
	{
		`Pod: {spec: {containers: [{name: c, image: i}], ephemeralContainers: [{name: e, image: i}], schedulingGates: [{name: g}], ` +
			`nodeName: nd}}`,
		[]string{"spec.ephemeralContainers Forbidden", "spec.nodeName Forbidden"}},
	{`Binding: {target: {kind: Pod}}`, []string{"target.kind NotSupported", "target.name Required"}},
}

func TestValidate(t *testing.T) {
	for _, c := range invalid {
		t.Run(c.given, func(t *testing.T) {
			k, o := create(t, c.given)
			if got := causes(k.Check(nil, nil, "", o, nil)); !slices.Equal(got, slices.Sorted(slices.Values(c.want))) {
				t.Errorf("%s\ngot  %q\nwant %q", c.given, got, c.want)
			}
		})
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct {
		kind, name string
		ok         bool
	}{{"Pod", "a.b", true}, {"Pod", "A", false}, {"Namespace", "a.b", false}, {"Service", "1a", true}, {"Service", "a.b", false},
		{"Service", "a1", true},
		{"Event", "A_b", true}, {"Event", "a/b", false}, {"Node", "a.b", true}} {
		t.Run(c.name, func(t *testing.T) {
			if ok := len(resource.CheckName(kindOf(t, c.kind), c.name, false)) == 0; ok != c.ok {
				t.Errorf("%s %s: %v", c.kind, c.name, ok)
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	for given, want := range map[string]int{
		`Pod: {metadata: {name: a.b}, spec: {containers: [{name: c, image: i}]}}`:                           1,
		`Pod: {spec: {containers: [{name: c, image: i}]}}`:                                                  0,
		`ReplicationController: {spec: {template: {spec: {nodeSelector: {beta.kubernetes.io/os: linux}}}}}`: 1,
		`PodTemplate: {template: {spec: {nodeSelector: {beta.kubernetes.io/os: linux}}}}`:                   1,
		`Secret: {type: kubernetes.io/tls, stringData: {tls.crt: a, tls.key: b}}`:                           1,
		`Service: {spec: {externalIPs: [1.2.3.4], clusterIP: None, sessionAffinity: ClientIP}}`:             2,
		`Node: {spec: {externalID: x}}`:                                                                     1,
		`ServiceAccount: {metadata: {annotations: {kubernetes.io/enforce-mountable-secrets: 'true'}}}`:      1,
		`PersistentVolume: {metadata: {annotations: {volume.beta.kubernetes.io/storage-class: a}}, ` +
			`spec: {persistentVolumeReclaimPolicy: Recycle}}`: 2,
		`PersistentVolumeClaim: {metadata: {annotations: {volume.beta.kubernetes.io/storage-class: a}}, ` +
			`spec: {resources: {requests: {storage: 100m}}}}`: 2,
	} {
		t.Run(given, func(t *testing.T) {
			k, o := create(t, given)
			if got := k.Warnings(nil, o, nil); len(got) != want {
				t.Errorf("%s: got %q", given, got)
			}
			if got := k.Warnings(nil, o, o); k == kindOf(t, "Pod") && len(got) != 0 {
				t.Errorf("an update of a pod warns: %q", got)
			}
		})
	}
}
