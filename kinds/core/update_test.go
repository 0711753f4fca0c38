package core_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// update writes patch (a JSON merge patch in YAML) through the subresource and returns old and new object.
func update(t *testing.T, k resource.Kind, old resource.Object, sub, patch string) resource.Object {
	t.Helper()
	doc, err := json.Marshal(old)
	if err != nil {
		t.Fatal(err)
	}
	js, err := yaml.YAMLToJSON([]byte(patch))
	if err != nil {
		t.Fatal(err)
	}
	doc, err = jsonpatch.MergePatch(doc, js)
	if err != nil {
		t.Fatal(err)
	}
	o := k.New(k.Info().GVK)
	if err := json.Unmarshal(doc, o); err != nil {
		t.Fatal(err)
	}
	k.SetDefaults(nil, o)
	k.PrepareForWrite(nil, sub, o, old)
	return o
}

const (
	aPod = `Pod: {spec: {restartPolicy: Never, activeDeadlineSeconds: 100, tolerations: [{key: a, operator: Exists}], ` +
		`containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}}`
	gated = `Pod: {spec: {schedulingGates: [{name: g}], nodeSelector: {a: b}, ` +
		`containers: [{name: c, image: i}], affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: ` +
		`[{matchExpressions: [{key: k, operator: Exists}]}]}}}}}`
	aClaim = `PersistentVolumeClaim: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 2Gi}}}}`
	aPV    = `PersistentVolume: {spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1}, hostPath: {path: /tmp/x}}}`
	lb     = `Service: {spec: {type: LoadBalancer, externalTrafficPolicy: Local, loadBalancerClass: a/b, clusterIP: 10.0.0.1, ` +
		`healthCheckNodePort: 30001, ipFamilies: [IPv4], ipFamilyPolicy: SingleStack, ports: [{port: 80, nodePort: 30000}]}}`
	claiming = `Pod: {spec: {resourceClaims: [{name: a, resourceClaimName: x}], ` +
		`containers: [{name: c, image: i, resources: {requests: {cpu: 1}, claims: [{name: a}]}}]}}`
	handMade = `Service: {spec: {clusterIP: None, clusterIPs: [None], ipFamilies: [IPv4, IPv6], ipFamilyPolicy: RequireDualStack}}`
	placed   = `PersistentVolume: {spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1}, local: {path: /a}, nodeAffinity: {required: ` +
		`{nodeSelectorTerms: [{matchExpressions: [{key: k, operator: Exists}]}]}}}}`
)

const noKey = "spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].key Invalid"

func TestUpdates(t *testing.T) {
	for _, c := range []struct {
		old, sub, patch string
		want            []string
	}{
		{aPod, "", `spec: {containers: [{name: c, image: j, resources: {requests: {cpu: 1}}}]}`, nil},
		{aPod, "", `spec: {containers: [{name: c, image: i}, {name: d, image: i}]}`, []string{"spec.containers Forbidden"}},
		{aPod, "", `spec: {restartPolicy: Always}`, []string{"spec Forbidden"}},
		{aPod, "", `spec: {nodeName: other}`, []string{"spec Forbidden"}},
		{aPod, "", `spec: {activeDeadlineSeconds: 50}`, nil},
		{aPod, "", `spec: {activeDeadlineSeconds: 150}`, []string{"spec.activeDeadlineSeconds Invalid"}},
		{aPod, "", `spec: {activeDeadlineSeconds: null}`, []string{"spec.activeDeadlineSeconds Invalid"}},
		{aPod, "", `spec: {tolerations: [{key: a, operator: Exists}, {key: b, operator: Exists}]}`, nil},
		{aPod, "", `spec: {tolerations: []}`, []string{"spec.tolerations Forbidden"}},
		{aPod, "", `spec: {schedulingGates: [{name: g}]}`, []string{"spec.schedulingGates[0].name Forbidden"}},
		{aPod, "", `spec: {containers: [{name: c, image: i, env: [{name: A}], resources: {requests: {cpu: 1}}}]}`, []string{"spec Forbidden"}},
		{gated, "", `spec: {schedulingGates: null}`, nil},
		{gated, "", `spec: {nodeSelector: {c: d}}`, nil},
		{gated, "", `spec: {nodeSelector: {a: c}}`, []string{"spec.nodeSelector Invalid"}},
		{gated, "", `spec: {affinity: null}`,
			[]string{"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms Invalid"}},
		{gated, "",
			`spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: k, ` +
				`operator: Exists}, {key: l, operator: Exists}]}]}}}}`, nil},
		{aPod, "resize", `spec: {restartPolicy: Always, containers: [{name: c, image: j, resources: {requests: {cpu: 2}}}]}`, nil},
		{claiming, "resize", `spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 2}, claims: [{name: a}]}}]}`, nil},
		{claiming, "resize", `spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}`, []string{"spec Forbidden"}},
		{aPod, "resize", `spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 1}, claims: [{name: a}]}}]}`,
			[]string{"spec Forbidden", "spec.containers[0].resources.claims[0] NotFound"}},
		{`Pod: {spec: {resources: {}, containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}, status: {qosClass: BestEffort}}`,
			"resize", `spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 2}}}]}`, nil},
		{aPod, "resize", `spec: {containers: [{name: c, image: i, resources: {}}]}`,
			[]string{"spec Invalid", "spec.containers[0].resources.requests Forbidden"}},
		{aPod, "resize", `spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 1, ephemeral-storage: 1}}}]}`,
			[]string{"spec Forbidden"}},
		{aPod, "resize", `spec: {containers: [{name: d, image: i, resources: {requests: {cpu: 1}}}]}`,
			[]string{"spec.containers[0].name Forbidden"}},
		{aPod, "resize", `spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}, {name: d, image: i}]}`,
			[]string{"spec.containers Forbidden"}},
		{aPod, "resize",
			`spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 1}}, ` +
				`resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}]}]}`, []string{"spec Forbidden"}},
		{aPod, "", `spec: {containers: [{name: c, image: ''}]}`, []string{"spec Forbidden", "spec.containers[0].image Required",
			"spec.containers[0].image Required"}},
		{aPod, "", `spec: {containers: [{name: c, image: ' i', resources: {requests: {cpu: 1}}}]}`,
			[]string{"spec Forbidden", "spec.containers[0].image Invalid", "spec.containers[0].image Invalid"}},
		{aPod, "", `spec: {tolerations: [{key: a, operator: Exists}, {key: b, operator: Exists, value: x}]}`,
			[]string{"spec.tolerations[1].operator Invalid", "spec.tolerations[1].operator Invalid"}},
		{aPod, "", `metadata: {annotations: {kubernetes.io/config.mirror: x}}`,
			[]string{"metadata.annotations[kubernetes.io/config.mirror] Forbidden",
				"metadata.annotations[kubernetes.io/config.mirror] Invalid", "metadata.annotations[kubernetes.io/config.mirror] Invalid"}},
		{placed, "", `spec: {nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: l, operator: Exists}]}]}}}`,
			[]string{"nodeAffinity Invalid"}},
		{placed, "", `spec: {nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: '', operator: Exists}]}]}}}`,
			[]string{noKey, noKey, noKey, noKey}}, // and not that it changed
		{aPod, "status", `metadata: {annotations: {kubernetes.io/config.mirror: x}}`,
			[]string{"metadata.annotations[kubernetes.io/config.mirror] Forbidden", "metadata.annotations[kubernetes.io/config.mirror] Invalid"}},
		{aPod, "ephemeralcontainers", `spec: {restartPolicy: Always, ephemeralContainers: [{name: e, image: i}]}`, nil},
		{aPod, "status",
			`status: {qosClass: Guaranteed, podIPs: [{ip: 1.2.3.4}, {ip: 1.2.3.5}], nominatedNodeName: A_b, conditions: [{type: a b}]}`,
			[]string{"status.conditions[0].Type Invalid", "status.nominatedNodeName Invalid", "status.podIPs Invalid", "status.qosClass Invalid"}},

		{aPod, "status", `status: {podIPs: [{ip: ''}]}`, []string{"status.podIPs Invalid", "status.podIPs[0] Invalid"}},

		{lb, "", `spec: {loadBalancerClass: a/c, healthCheckNodePort: 30002}`, []string{"spec.healthCheckNodePort Forbidden",
			"spec.loadBalancerClass Invalid"}},
		{handMade, "", `spec: {clusterIPs: [None, None]}`, []string{"spec.clusterIPs Invalid"}},
		{lb, "", `spec: {clusterIP: 10.0.0.2}`, []string{"spec.clusterIPs[0] Invalid"}},
		{lb, "", `spec: {clusterIP: None}`, []string{"spec.clusterIPs[0] Invalid", "spec.clusterIPs[0] Invalid"}},
		{lb, "", `spec: {ipFamilies: [IPv6]}`, []string{"spec.clusterIPs[0] Invalid"}},
		{lb, "", `spec: {clusterIPs: [10.0.0.1, 'fd00::1']}`, []string{"spec.ipFamilyPolicy Invalid"}},
		{lb, "", `spec: {type: ClusterIP}`, nil},
		{lb, "", `spec: {type: ClusterIP, ipFamilies: [IPv6], clusterIP: None, clusterIPs: [None]}`, []string{"spec.clusterIPs[0] Invalid"}},
		{lb, "", `spec: {type: ExternalName, externalName: a}`, nil},
		{lb, "status", `status: {loadBalancer: {ingress: [{ip: x}, {hostname: 1.2.3.4}]}}`,
			[]string{"status.loadBalancer.ingress[0].ip Invalid", "status.loadBalancer.ingress[1].hostname Invalid"}},

		{`ConfigMap: {immutable: true, data: {a: b}}`, "", `data: {a: c}`, []string{"data Forbidden"}},
		{`ConfigMap: {immutable: true, binaryData: {a: eA==}}`, "", `{immutable: false, binaryData: {a: null}}`,
			[]string{"binaryData Forbidden", "immutable Forbidden"}},
		{`Secret: {immutable: true, data: {a: eA==}}`, "", `{stringData: {a: yy}}`, []string{"data Forbidden"}},
		{`Secret: {}`, "", `type: other`, []string{"type Invalid"}},

		{`Node: {spec: {podCIDR: 10.0.0.0/24, providerID: a}}`, "", `spec: {podCIDR: 10.0.1.0/24, providerID: b}`,
			[]string{"spec.podCIDRs Forbidden", "spec.providerID Invalid"}},
		{`Node: {}`, "", `spec: {taints: [{key: a, effect: Odd}]}`, []string{"metadata.taints[0].effect NotSupported",
			"metadata.taints[0].effect NotSupported"}},
		{`Node: {}`, "status", `status: {capacity: {cpu: -1}}`, []string{"status.allocatable.cpu Invalid", "status.capacity.cpu Invalid"}},
		{`Node: {}`, "", `spec: {externalID: x}`, []string{"spec.externalID Forbidden"}},
		{`Namespace: {}`, "status", `status: {phase: Terminating}`, []string{"status.Phase Invalid"}},
		{`Namespace: {}`, "finalize", `spec: {finalizers: [bogus, a/b]}`, []string{"spec.finalizers[0] Invalid"}},
		{`ResourceQuota: {}`, "", `spec: {scopes: [Terminating]}`, []string{"spec.scopes Invalid"}},

		{aClaim, "", `spec: {volumeName: v}`, nil},
		{aClaim, "", `spec: {storageClassName: late}`, nil},
		{aClaim, "", `spec: {resources: {requests: {storage: 3Gi}}}`, []string{"spec Forbidden"}},
		{aClaim, "", `spec: {accessModes: [ReadOnlyMany]}`, []string{"spec Forbidden"}},
		{aClaim, "", `spec: {volumeMode: Block}`, []string{"spec Forbidden", "volumeMode Invalid"}},
		{aClaim, "", `metadata: {annotations: {volume.beta.kubernetes.io/storage-class: x}}`,
			[]string{"metadata.annotations.volume.beta.kubernetes.io/storage-class Invalid"}},
		{aClaim, "status", `status: {allocatedResources: {cpu: 1}, allocatedResourceStatuses: {storage: Odd}}`,
			[]string{"status.allocatedResourceStatuses NotSupported", "status.allocatedResources NotSupported"}},
		{aPV, "", `spec: {capacity: {storage: 2Gi}, persistentVolumeReclaimPolicy: Delete}`, nil},
		{aPV, "", `spec: {hostPath: {path: /tmp/y}}`, []string{"spec.persistentvolumesource Forbidden"}},
		{`ResourceQuota: {}`, "status", `status: {hard: {bogus: 1}, used: {pods: -1}}`,
			[]string{"status.hard[bogus] Invalid", "status.hard[bogus] Invalid", "status.used[pods] Invalid"}},
		{aClaim, "status", `status: {capacity: {storage: -1}}`, []string{"status.capacity[storage] Invalid"}},
		{aPV, "status", `status: {phase: Odd}`, nil},
		{aPV, "", `spec: {volumeMode: Block}`, []string{"volumeMode Invalid"}},
		{`ReplicationController: {spec: {selector: {a: b}}}`, "status", `status: {replicas: 1, readyReplicas: 2, availableReplicas: 3}`,
			[]string{"status.availableReplicas Invalid", "status.availableReplicas Invalid", "status.readyReplicas Invalid"}},
	} {
		t.Run(c.old, func(t *testing.T) {
			k, old := create(t, c.old)
			o := update(t, k, old, c.sub, c.patch)
			if got := causes(k.Check(nil, nil, c.sub, o, old)); !slices.Equal(got, c.want) {
				t.Errorf("%s %s\ngot  %q\nwant %q", c.old, c.patch, got, c.want)
			}
		})
	}
}

// TestBoundClaim: a bound claim may grow, and shrink to what it has.
func TestBoundClaim(t *testing.T) {
	k, old := create(t, aClaim)
	old = update(t, k, old, "status", `status: {phase: Bound, capacity: {storage: 1Gi}}`)
	old = update(t, k, old, "", `spec: {volumeName: v}`)
	for size, want := range map[string][]string{"3Gi": nil, "1536Mi": nil, "1Gi": {"spec.resources.requests.storage Forbidden"}} {
		t.Run(size, func(t *testing.T) {
			o := update(t, k, old, "", `spec: {resources: {requests: {storage: `+size+`}}}`)
			if got := causes(k.Check(nil, nil, "", o, old)); !slices.Equal(got, want) {
				t.Errorf("%s: got %q", size, got)
			}
		})
	}
	other := update(t, k, old, "", `spec: {volumeName: w}`)
	if got := causes(k.Check(nil, nil, "", other, old)); !slices.Equal(got, []string{"spec Forbidden"}) {
		t.Errorf("bound twice: %q", got)
	}
}

// TestServiceChanges: what becomes of the fields that a writer leaves as they were when the type changes.
func TestServiceChanges(t *testing.T) {
	for _, c := range []struct{ patch, want string }{
		{`spec: {type: ClusterIP}`,
			`{type: ClusterIP, sessionAffinity: None, internalTrafficPolicy: Cluster, clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], ` +
				`ipFamilies: [IPv4], ipFamilyPolicy: SingleStack, ports: [{port: 80, targetPort: 80, protocol: TCP}]}`},
		{`spec: {type: NodePort}`,
			`{type: NodePort, sessionAffinity: None, internalTrafficPolicy: Cluster, externalTrafficPolicy: Local, clusterIP: 10.0.0.1, ` +
				`clusterIPs: [10.0.0.1], ipFamilies: [IPv4], ipFamilyPolicy: SingleStack, ports: [{port: 80, nodePort: 30000, targetPort: 80, ` +
				`protocol: TCP}]}`},
		{`spec: {type: ExternalName, externalName: x}`,
			`{type: ExternalName, externalName: x, sessionAffinity: None, ports: [{port: 80, targetPort: 80, protocol: TCP}]}`},
		{`spec: {clusterIP: null, clusterIPs: null, healthCheckNodePort: null, ports: [{port: 81}]}`,
			`{type: LoadBalancer, loadBalancerClass: a/b, sessionAffinity: None, internalTrafficPolicy: Cluster, externalTrafficPolicy: Local, ` +
				`allocateLoadBalancerNodePorts: true, healthCheckNodePort: 30001, clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], ipFamilies: [IPv4], ` +
				`ipFamilyPolicy: SingleStack, ports: [{port: 81, nodePort: 30000, targetPort: 81, protocol: TCP}]}`},
	} {
		t.Run(c.patch, func(t *testing.T) {
			k, old := create(t, lb)
			o := update(t, k, old, "", c.patch)
			if got := part(t, o, "spec"); !reflect.DeepEqual(got, yamlTree(t, c.want)) {
				t.Errorf("%s\ngot  %v\nwant %v", c.patch, got, c.want)
			}
		})
	}
}

// TestPaths: each path changes its own part of an object.
func TestPaths(t *testing.T) {
	k, old := create(t, aPod)
	old.SetOwnerReferences([]metav1.OwnerReference{{Name: "o"}})
	o := update(t, k, old, "", `status: {phase: Running}`).(*corev1.Pod)
	if o.Status.Phase != corev1.PodPending {
		t.Error("an update of the pod changed its status")
	}
	o = update(t, k, old, "status",
		`{metadata: {ownerReferences: []}, spec: {nodeName: nd}, status: {phase: Running, qosClass: null}}`).(*corev1.Pod)
	if o.Status.Phase != corev1.PodRunning || o.Spec.NodeName != "" || len(o.OwnerReferences) != 1 ||
		o.Status.QOSClass != corev1.PodQOSBurstable {
		t.Errorf("status update: %v", o)
	}
	o = update(t, k, old, "ephemeralcontainers", `spec: {restartPolicy: Always, ephemeralContainers: [{name: e, image: i}]}`).(*corev1.Pod)
	if o.Spec.RestartPolicy != corev1.RestartPolicyNever || len(o.Spec.EphemeralContainers) != 1 {
		t.Errorf("ephemeral containers: %v", o.Spec)
	}
	later := update(t, k, o, "ephemeralcontainers", `spec: {ephemeralContainers: []}`)
	if got := causes(k.Check(nil, nil, "ephemeralcontainers", later, o)); !slices.Equal(got, []string{"spec.ephemeralContainers Forbidden"}) {
		t.Errorf("removed: %q", got)
	}
	o = update(t, k, old, "resize", `spec: {containers: [{name: c, image: j, resources: {requests: {cpu: 2}}}]}`).(*corev1.Pod)
	if o.Spec.Containers[0].Image != "i" || o.Spec.Containers[0].Resources.Requests.Cpu().String() != "2" {
		t.Errorf("resize: %v", o.Spec)
	}
	for _, sub := range []string{"ephemeralcontainers", "resize"} {
		o := update(t, k, old, sub, `{metadata: {labels: {x: z}, annotations: {x: z}, finalizers: [a/b], ownerReferences: []}}`).(*corev1.Pod)
		if o.Labels["x"] != "" || o.Annotations["x"] != "" || len(o.Finalizers) != 0 || len(o.OwnerReferences) != 1 {
			t.Errorf("%s changed metadata: %v", sub, o.ObjectMeta)
		}
	}
	k, ns := create(t, `Namespace: {}`)
	if n := update(t, k, ns, "", `spec: {finalizers: []}`).(*corev1.Namespace); len(n.Spec.Finalizers) != 1 {
		t.Error("an update of the namespace changed its finalizers")
	}
	if n := update(t, k, ns, "finalize",
		`{spec: {finalizers: []}, status: {phase: Terminating}}`).(*corev1.Namespace); len(n.Spec.Finalizers) != 0 ||
		n.Status.Phase != corev1.NamespaceActive {
		t.Errorf("finalize: %v", n)
	}
}

// TestRestarts: a container that ended for good does not live again.
func TestRestarts(t *testing.T) {
	const ended, running = `status: {containerStatuses: [{name: c, state: {terminated: {exitCode: 1}}}]}`,
		`status: {containerStatuses: [{name: c, state: {running: {}}}]}`
	const one = "containers: [{name: c, image: i}]"
	for spec, want := range map[string][]string{
		"restartPolicy: Never, " + one:     {"status.containerStatuses[0].state Forbidden"},
		"restartPolicy: OnFailure, " + one: {},
		"restartPolicy: Always, " + one:    {},
		"restartPolicy: Never, containers: [{name: c, image: i, restartPolicy: Always}]": {},
		"restartPolicy: Always, containers: [{name: c, image: i, restartPolicy: Never}]": {"status.containerStatuses[0].state Forbidden"},
		"containers: [{name: c, image: i, restartPolicy: Never, restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: " +
			"[1]}}]}]": {},
	} {
		t.Run(spec, func(t *testing.T) {
			k, o := create(t, `Pod: {spec: {`+spec+`}}`)
			old := update(t, k, o, "status", ended)
			if got := causes(k.Check(nil, nil, "status", update(t, k, old, "status", running), old)); !slices.Equal(got, want) {
				t.Errorf("%s: got %q", spec, got)
			}
		})
	}
}

func TestVolumePhaseTime(t *testing.T) {
	k, o := create(t, aPV)
	old := o.(*corev1.PersistentVolume)
	old.Status.LastPhaseTransitionTime = &metav1.Time{}
	if v := update(t, k, old, "status", `status: {message: x}`).(*corev1.PersistentVolume); !v.Status.LastPhaseTransitionTime.IsZero() {
		t.Error("the phase did not change")
	}
	if v := update(t, k, old, "status", `status: {phase: Available}`).(*corev1.PersistentVolume); v.Status.LastPhaseTransitionTime.IsZero() {
		t.Error("the phase changed")
	}
}

func TestGrace(t *testing.T) {
	five, zero := int64(5), int64(0)
	for _, c := range []struct {
		spec, status string
		asked        *int64
		want         int64
	}{
		{`nodeName: nd`, ``, nil, 30},
		{`nodeName: nd`, ``, &five, 5},
		{`nodeName: nd`, ``, &zero, 0},
		{`nodeName: nd, terminationGracePeriodSeconds: -3`, ``, nil, 1},
		{`nodeName: ''`, ``, &five, 0},
		{`nodeName: nd`, `phase: Succeeded`, &five, 0},
		{`nodeName: nd`, `phase: Failed`, nil, 0},
	} {
		t.Run(c.spec, func(t *testing.T) {
			k, o := parse(t, `Pod: {spec: {`+c.spec+`}, status: {`+c.status+`}}`)
			k.SetDefaults(nil, o)
			if got := resource.GraceOf(k, o, c.asked); got != c.want {
				t.Errorf("%s %s: got %d, want %d", c.spec, c.status, got, c.want)
			}
		})
	}
	if resource.GraceOf(core.ConfigMaps, &corev1.ConfigMap{}, &five) != 0 {
		t.Error("config maps go at once")
	}
}
