package podspec_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/kinds/podspec"
)

// pod returns a defaulted pod whose spec has the given YAML; the first container is completed if it lacks a name.
func pod(t *testing.T, spec string) *corev1.Pod {
	t.Helper()
	p := &corev1.Pod{}
	p.Name, p.Spec.ServiceAccountName = "p", "default"
	if err := yaml.UnmarshalStrict([]byte(spec), &p.Spec); err != nil {
		t.Fatalf("%s: %v", spec, err)
	}
	if len(p.Spec.Containers) == 0 && !strings.Contains(spec, "containers: []") {
		p.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
	}
	podspec.DefaultPod(&p.Spec)
	podspec.CompleteWhole(nil, &p.Spec, nil)
	return p
}

// inContainer makes a spec whose only container has the given flow-style fields.
func inContainer(fields string) string { return "containers: [{name: c, image: i, " + fields + "}]" }

func causes(errs field.ErrorList) []string {
	list := make([]string, 0, len(errs))
	for _, e := range errs {
		list = append(list, e.Field+" "+strings.TrimPrefix(string(e.Type), "FieldValue"))
	}
	slices.Sort(list)
	return list
}

func c0(rest string) string { return "spec.containers[0]." + rest }

var cases = []struct {
	name, spec string
	want       []string
}{
	{"plain", ``, nil},
	{"no containers", `containers: []`, []string{"spec.containers Required"}},
	{"bad container name", `containers: [{name: Bad_Name, image: i}]`, []string{c0("name Invalid")}},
	{"no image", `containers: [{name: c}]`, []string{c0("image Required")}},
	{"space before image", `containers: [{name: c, image: ' i'}]`, []string{c0("image Invalid")}},
	{"same name", `containers: [{name: c, image: i}, {name: c, image: i}]`, []string{"spec.containers[1].name Duplicate"}},
	{"same name as init", "initContainers: [{name: c, image: i}]\ncontainers: [{name: c, image: i}]",
		[]string{"spec.initContainers[0].name Duplicate"}},
	{"pull policy", inContainer(`imagePullPolicy: Sometimes`), []string{c0("imagePullPolicy NotSupported")}},
	{"message policy", inContainer(`terminationMessagePolicy: Never`), []string{c0("terminationMessagePolicy NotSupported")}},
	{"restart policy", `restartPolicy: Maybe`, []string{"spec.restartPolicy NotSupported"}},
	{"own restart policy", inContainer(`restartPolicy: Maybe`), []string{c0("restartPolicy NotSupported")}},
	{"restart rules", inContainer(`restartPolicyRules: [{action: Jump}]`), []string{c0("restartPolicy Required"),
		c0("restartPolicyRules[0].action NotSupported"), c0("restartPolicyRules[0].exitCodes Required")}},
	{"rules of init", `initContainers: [{name: i, image: i, restartPolicyRules: [{action: Jump}]}]`,
		[]string{"spec.initContainers[0].restartPolicy Required"}}, // no word of the rules, unlike above
	{"init restart policy", `initContainers: [{name: i, image: i, restartPolicy: Sometimes}]`,
		[]string{"spec.initContainers[0].restartPolicy NotSupported"}},
	{"probe of init", `initContainers: [{name: i, image: i, readinessProbe: {exec: {command: [a]}}}]`,
		[]string{"spec.initContainers[0].readinessProbe Forbidden"}},
	{"probe of sidecar", `initContainers: [{name: i, image: i, restartPolicy: Always, readinessProbe: {exec: {command: [a]}}}]`, nil},
	{"resize of init",
		`initContainers: [{name: i, image: i, resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}, ` +
			`{resourceName: memory, restartPolicy: RestartContainer}]}]`,
		[]string{"spec.initContainers[0].resizePolicy[1].restartPolicy Invalid"}},
	{"preferred values",
		`affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: a, ` +
			`operator: In, values: ['b c']}]}}]}}`, nil},
	{"merged keys",
		`affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: z, matchLabelKeys: [a], ` +
			`labelSelector: {matchLabels: {a: b}, matchExpressions: [{key: a, operator: In, values: [b]}]}}]}}`,
		[]string{"spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0][0] Invalid"}},
	{"preemption", `preemptionPolicy: ''`, []string{"spec.preemptionPolicy Required"}},
	{"pod resources", "resources: {limits: {cpu: 1, foo: 1}, claims: []}\n" + inContainer(`resources: {limits: {cpu: 2}}`),
		[]string{"spec.resources.claims Forbidden", "spec.resources.containers[0][cpu].limits Invalid",
			"spec.resources.limits[foo] Invalid", "spec.resources.requests Invalid"}},
	{"pod resources on windows", "os: {name: windows}\nsecurityContext: null\nresources: {limits: {cpu: 1}}",
		[]string{"spec.resources Forbidden"}},
	{"host process", "hostNetwork: true\nsecurityContext: {windowsOptions: {hostProcess: true}}\n" +
		inContainer(`securityContext: {windowsOptions: {hostProcess: false}}`),
		[]string{c0("securityContext.windowsOptions.hostProcess Invalid")}},
	{"env from name", inContainer(`envFrom: [{secretRef: {name: A_b}}]`), []string{c0("envFrom[0].secretRef.name Invalid")}},
	{"file of a secret", "volumes: [{name: v, secret: {secretName: s}}]\n" +
		inContainer(`env: [{name: A, valueFrom: {fileKeyRef: {key: k, path: x, volumeName: v}}}]`),
		[]string{c0("env[0].valueFrom.fileKeyRef.volumeName Invalid")}},
	{"recursive", "volumes: [{name: v}]\n" + inContainer(`volumeMounts: [{name: v, mountPath: /a, recursiveReadOnly: Odd}]`),
		[]string{c0("volumeMounts.recursiveReadOnly NotSupported")}},
	{"claims twice", "resourceClaims: [{name: a, resourceClaimName: b}]\n" +
		inContainer(`resources: {claims: [{name: a, request: r}, {name: a}]}`), []string{c0("resources.claims[1] Duplicate")}},
	{"claim that is made",
		"volumes: [{name: v, ephemeral: {volumeClaimTemplate: {spec: {accessModes: " +
			"[ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}, {name: w, persistentVolumeClaim: {claimName: p-v}}]",
		[]string{"spec.volumes[1].persistentVolumeClaim.claimName Invalid"}},
	{"dns policy", `dnsPolicy: Wrong`, []string{"spec.dnsPolicy NotSupported"}},
	{"dns none", `dnsPolicy: None`, []string{"spec.dnsConfig Required"}},
	{"dns config", `dnsConfig: {nameservers: [x], searches: ['a b', 'a_b.', '.'], options: [{value: '1'}]}`,
		[]string{"spec.dnsConfig.nameservers[0] Invalid", "spec.dnsConfig.options[0] Required", "spec.dnsConfig.searches[0] Invalid"}},
	{"node selector", `nodeSelector: {a b: c}`, []string{"spec.nodeSelector Invalid"}},
	{"names", "nodeName: Bad_Node\nhostname: a.b\nsubdomain: a.b\npriorityClassName: A_B",
		[]string{"spec.hostname Invalid", "spec.nodeName Invalid", "spec.priorityClassName Invalid", "spec.subdomain Invalid"}},
	{"deadline", `activeDeadlineSeconds: 0`, []string{"spec.activeDeadlineSeconds Invalid"}},
	{"hostname override", "hostnameOverride: a.b\nhostNetwork: true", []string{"spec.hostnameOverride Forbidden"}},
	{"hostname override and full name", "hostnameOverride: a.b\nsetHostnameAsFQDN: true", []string{"spec.hostnameOverride Forbidden"}},
	{"hostname override that is no name", "hostnameOverride: Not_A_Name", []string{"spec.hostnameOverride Invalid"}},
	{"host alias", `hostAliases: [{ip: x, hostnames: [A_b]}]`, []string{"spec.hostAliases[0].hostnames[0] Invalid",
		"spec.hostAliases[0].ip Invalid"}},
	{"gates", "readinessGates: [{conditionType: a b}]\nschedulingGates: [{name: a}, {name: a}, {name: b c}]",
		[]string{"spec.readinessGates[0].conditionType Invalid", "spec.schedulingGates[1] Duplicate", "spec.schedulingGates[2] Invalid"}},

	{"port zero", inContainer(`ports: [{containerPort: 0}]`), []string{c0("ports[0].containerPort Required")}},
	{"port name", inContainer(`ports: [{containerPort: 80, name: This_is_bad}]`), []string{c0("ports[0].name Invalid")}},
	{"port names", inContainer(`ports: [{containerPort: 80, name: a}, {containerPort: 81, name: a}]`),
		[]string{c0("ports[1].name Duplicate")}},
	{"protocol", inContainer(`ports: [{containerPort: 80, protocol: XTP}]`), []string{c0("ports[0].protocol NotSupported")}},
	{"host ports", inContainer(`ports: [{containerPort: 80, hostPort: 80}, {containerPort: 81, hostPort: 80}]`),
		[]string{c0("ports[1].hostPort Duplicate")}},
	{"host network port", "hostNetwork: true\n" + inContainer(`ports: [{containerPort: 80, hostPort: 81}]`),
		[]string{c0("ports[0].hostPort Invalid")}},

	{"env name", inContainer(`env: [{name: a=b, value: x}, {value: x}]`), []string{c0("env[0].name Invalid"), c0("env[1].name Required")}},
	{"env name of any letters", inContainer(`env: [{name: " !\"#$%&'()*+,-./09:;<>?@AZ[\\]^_{|}~az"}]`), nil},
	{"env value and source", inContainer(`env: [{name: A, value: x, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]`),
		[]string{c0("env[0].valueFrom Invalid")}},
	{"env no source", inContainer(`env: [{name: A, valueFrom: {}}]`), []string{c0("env[0].valueFrom Invalid")}},
	{"env field",
		inContainer(
			`env: [{name: A, valueFrom: {fieldRef: {fieldPath: status.phase}}}, {name: B, valueFrom: {fieldRef: {fieldPath: spec.foo}}}, ` +
				`{name: C, valueFrom: {fieldRef: {fieldPath: "metadata.labels['a b']"}}}, ` +
				`{name: D, valueFrom: {fieldRef: {fieldPath: "metadata.annotations['ok']"}}}]`),
		[]string{c0("env[0].valueFrom.fieldRef.fieldPath NotSupported"), c0("env[1].valueFrom.fieldRef.fieldPath Invalid"),
			c0("env[2].valueFrom.fieldRef Invalid")}},
	{"env amount",
		inContainer(
			`env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.bogus}}}, ` +
				`{name: B, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 3}}}]`),
		[]string{c0("env[0].valueFrom.resourceFieldRef.resource NotSupported"), c0("env[1].valueFrom.resourceFieldRef.divisor Invalid")}},
	{"env key", inContainer(`env: [{name: A, valueFrom: {secretKeyRef: {key: a b}}}]`),
		[]string{c0("env[0].valueFrom.secretKeyRef.key Invalid"), c0("env[0].valueFrom.secretKeyRef.name Invalid")}},
	{"env from", inContainer(`envFrom: [{prefix: p}, {configMapRef: {}}]`),
		[]string{c0("envFrom Invalid"), c0("envFrom[1].configMapRef.name Required")}},

	{"two handlers", inContainer(`livenessProbe: {exec: {command: [a]}, tcpSocket: {port: 1}}`),
		[]string{c0("livenessProbe.tcpSocket Forbidden")}},
	{"no handler", inContainer(`livenessProbe: {}`), []string{c0("livenessProbe Required")}},
	{"probe port", inContainer(`livenessProbe: {tcpSocket: {port: 70000}}`), []string{c0("livenessProbe.tcpSocket.port Invalid")}},
	{"probe scheme", inContainer(`livenessProbe: {httpGet: {port: 80, scheme: FTP}}`),
		[]string{c0("livenessProbe.httpGet.scheme NotSupported")}},
	{"probe times", inContainer(`livenessProbe: {exec: {command: [a]}, periodSeconds: -1, successThreshold: 2}`),
		[]string{c0("livenessProbe.periodSeconds Invalid"), c0("livenessProbe.successThreshold Invalid")}},
	{"readiness grace", inContainer(`readinessProbe: {exec: {command: [a]}, terminationGracePeriodSeconds: 3}`),
		[]string{c0("readinessProbe.terminationGracePeriodSeconds Invalid")}},
	{"sleep", "terminationGracePeriodSeconds: 5\n" + inContainer(`lifecycle: {preStop: {sleep: {seconds: 6}}}`),
		[]string{c0("lifecycle.preStop.sleep Invalid")}},
	{"stop signal", inContainer(`lifecycle: {stopSignal: SIGTERM}`), []string{c0("lifecycle.stopSignal Forbidden")}},

	{"bogus resource", inContainer(`resources: {requests: {bogus: 1}}`), []string{c0("resources.requests[bogus] Invalid"),
		c0("resources.requests[bogus] Invalid")}},
	{"request over limit", inContainer(`resources: {requests: {cpu: 2}, limits: {cpu: 1}}`), []string{c0("resources.requests Invalid")}},
	{"extended without limit", inContainer(`resources: {requests: {example.com/gpu: 1}}`), []string{c0("resources.limits Required")}},
	{"half a device", inContainer(`resources: {limits: {example.com/gpu: 500m}}`),
		[]string{c0("resources.limits[example.com/gpu] Invalid"), c0("resources.requests[example.com/gpu] Invalid")}},
	{"huge pages alone", inContainer(`resources: {limits: {hugepages-2Mi: 4Mi}}`), []string{c0("resources Forbidden")}},
	{"half a page", inContainer(`resources: {limits: {cpu: 1, hugepages-2Mi: 3Mi}}`),
		[]string{c0("resources.limits[hugepages-2Mi] Invalid"), c0("resources.requests[hugepages-2Mi] Invalid")}},
	{"unknown claim", inContainer(`resources: {claims: [{name: nope}]}`), []string{c0("resources.claims[0] NotFound")}},
	{"claim without source", `resourceClaims: [{name: a}]`, []string{"spec.resourceClaims[0] Invalid"}},
	{"resize policy", inContainer(`resizePolicy: [{resourceName: cpu, restartPolicy: Foo}]`), []string{c0("resizePolicy NotSupported")}},
	{"overhead", `overhead: {cpu: -1}`, []string{"spec.overhead.limits[cpu] Invalid"}},
	{"pod resources", "resources: {requests: {cpu: 1}, limits: {ephemeral-storage: 1}}\n" + inContainer(`resources: {requests: {cpu: 2}}`),
		[]string{"spec.resources.limits[ephemeral-storage] NotSupported", "spec.resources.requests[cpu] Invalid"}},

	{"volume names", `volumes: [{name: V_1, emptyDir: {}}, {emptyDir: {}}, {name: v, emptyDir: {}}, {name: v, emptyDir: {}}]`,
		[]string{"spec.volumes[0].name Invalid", "spec.volumes[1].name Required", "spec.volumes[3].name Duplicate"}},
	{"two sources", `volumes: [{name: v, emptyDir: {}, configMap: {name: c}}]`, []string{"spec.volumes[0].configMap Forbidden"}},
	{"empty dir", `volumes: [{name: v, emptyDir: {sizeLimit: -1}}]`, []string{"spec.volumes[0].emptyDir.sizeLimit Forbidden"}},
	{"host path", `volumes: [{name: v, hostPath: {path: /a/../b, type: Nope}}]`, []string{"spec.volumes[0].hostPath.path Invalid",
		"spec.volumes[0].hostPath.type NotSupported"}},
	{"config map mode", `volumes: [{name: v, configMap: {name: c, defaultMode: 9999}}]`,
		[]string{"spec.volumes[0].configMap.defaultMode Invalid"}},
	{"secret items", `volumes: [{name: v, secret: {secretName: s, items: [{path: ..a}, {key: k, path: /abs}]}}]`,
		[]string{"spec.volumes[0].secret.items[0].key Required", "spec.volumes[0].secret.items[0].path Invalid",
			"spec.volumes[0].secret.items[1].path Invalid"}},
	{"projected clash",
		`volumes: [{name: v, projected: {sources: [{secret: {name: s, items: [{key: a, path: x}]}}, ` +
			`{configMap: {name: c, items: [{key: b, path: x}]}}]}}]`,
		[]string{"spec.volumes[0].projected Invalid"}},
	{"token life", `volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: t, expirationSeconds: 5}}]}}]`,
		[]string{"spec.volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds Invalid"}},
	{"downward", `volumes: [{name: v, downwardAPI: {items: [{path: a}, {path: b, fieldRef: {fieldPath: status.podIP}}]}}]`,
		[]string{"spec.volumes[0].downwardAPI Required", "spec.volumes[0].downwardAPI.fieldRef.fieldPath NotSupported"}},
	{"nfs", `volumes: [{name: v, nfs: {server: s, path: rel}}]`, []string{"spec.volumes[0].nfs.path Invalid"}},
	{"iscsi", `volumes: [{name: v, iscsi: {targetPortal: p, iqn: bad, lun: 300, chapAuthSession: true}}]`,
		[]string{"spec.volumes[0].iscsi.iqn Invalid", "spec.volumes[0].iscsi.lun Invalid", "spec.volumes[0].iscsi.secretRef Required"}},
	{"csi", `volumes: [{name: v, csi: {driver: a_b, nodePublishSecretRef: {}}}]`, []string{"spec.volumes[0].csi.driver Invalid",
		"spec.volumes[0].csi.nodePublishSecretRef.name Required"}},
	{"ephemeral", `volumes: [{name: v, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [Foo]}}}}]`,
		[]string{"spec.volumes[0].ephemeral.volumeClaimTemplate.spec.accessModes NotSupported",
			"spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources[storage] Required"}},
	{"image volume", `volumes: [{name: v, image: {pullPolicy: Foo}}]`, []string{"spec.volumes[0].image.pullPolicy NotSupported",
		"spec.volumes[0].image.reference Required"}},
	{"image as a second source", `volumes: [{name: v, emptyDir: {}, image: {pullPolicy: Foo}}]`,
		[]string{"spec.volumes[0].image Forbidden"}},
	{"mounts", "volumes: [{name: v, emptyDir: {}}]\n" +
		inContainer(
			`volumeMounts: [{name: v, mountPath: /x, subPath: a, subPathExpr: b}, {name: w, mountPath: /x}, `+
				`{name: v, mountPath: /y, subPath: ../y}]`),
		[]string{c0("volumeMounts.subPath Invalid"), c0("volumeMounts[0].subPathExpr Invalid"), c0("volumeMounts[1].mountPath Invalid"),
			c0("volumeMounts[1].name NotFound")}},
	{"propagation", "volumes: [{name: v, emptyDir: {}}]\n" +
		inContainer(`volumeMounts: [{name: v, mountPath: /x, mountPropagation: Bidirectional, recursiveReadOnly: Enabled}]`),
		[]string{c0("volumeMounts.mountPropagation Forbidden"), c0("volumeMounts.recursiveReadOnly Forbidden"),
			c0("volumeMounts.recursiveReadOnly Forbidden")}},
	{"devices", "volumes: [{name: v, emptyDir: {}}, {name: d, persistentVolumeClaim: {claimName: c}}]\n" +
		inContainer(`volumeDevices: [{name: v, devicePath: /x}, {name: d, devicePath: /a/../b}]`),
		[]string{c0("volumeDevices[0].name Invalid"), c0("volumeDevices[1].devicePath Invalid")}},

	{"privileged", inContainer(`securityContext: {privileged: true, allowPrivilegeEscalation: false}`),
		[]string{c0("securityContext Invalid")}},
	{"ids", "securityContext: {runAsUser: -1, supplementalGroups: [1, -2]}", []string{"spec.securityContext.runAsUser Invalid",
		"spec.securityContext.supplementalGroups[1] Invalid"}},
	{"seccomp", `securityContext: {seccompProfile: {type: Localhost}}`,
		[]string{"spec.securityContext.seccompProfile.localhostProfile Required"}},
	{"bundles without a path",
		`volumes: [{name: v, projected: {sources: [{clusterTrustBundle: {name: a}}, {clusterTrustBundle: {name: b}}]}}]`,
		[]string{"spec.volumes[0].projected Invalid", "spec.volumes[0].projected.sources[0].clusterTrustBundle.path Required",
			"spec.volumes[0].projected.sources[1].clusterTrustBundle.path Required"}},
	{"apparmor", inContainer(`securityContext: {appArmorProfile: {type: RuntimeDefault, localhostProfile: x}}`),
		[]string{c0("securityContext.appArmorProfile.localhostProfile Invalid")}},
	{"sysctls",
		"hostNetwork: true\nsecurityContext: {sysctls: [{name: a b, value: '1'}, {name: net.x, value: '1'}, {name: kernel.a}, {name: kernel/a}]}",
		[]string{"spec.securityContext.sysctls[0].name Invalid", "spec.securityContext.sysctls[1].name Invalid"}},
	{"proc mount", inContainer(`securityContext: {procMount: Unmasked}`), []string{c0("securityContext.procMount Invalid")}},
	{"host users", "hostUsers: false\nhostPID: true", []string{"spec.HostPID Forbidden"}},
	{"windows", "os: {name: windows}\nsecurityContext: {seccompProfile: {type: RuntimeDefault}}\n" +
		inContainer(`securityContext: {privileged: false}`),
		[]string{c0("securityContext.privileged Forbidden"), "spec.securityContext.seccompProfile Forbidden"}},
	{"linux", "os: {name: linux}\nsecurityContext: {windowsOptions: {runAsUserName: a}}",
		[]string{"spec.securityContext.windowsOptions Forbidden"}},
	{"os", `os: {name: plan9}`, []string{"spec.os NotSupported"}},
	{"host process", `securityContext: {windowsOptions: {hostProcess: true}}`, []string{"spec.hostNetwork Invalid"}},

	{"tolerations",
		`tolerations: [{key: a, operator: Exists, effect: Never}, {key: a, operator: Exists, value: x}, ` +
			`{key: a, operator: Exists, effect: NoSchedule, tolerationSeconds: 3}, {value: a}]`,
		[]string{"spec.tolerations[0].effect NotSupported", "spec.tolerations[1].operator Invalid", "spec.tolerations[2].effect Invalid",
			"spec.tolerations[3].operator Invalid"}},
	{"spread",
		`topologySpreadConstraints: [{maxSkew: 0, topologyKey: z, whenUnsatisfiable: ScheduleAnyway, minDomains: 2}, ` +
			`{maxSkew: 1, topologyKey: z, whenUnsatisfiable: ScheduleAnyway}, {maxSkew: 1, topologyKey: y, whenUnsatisfiable: Perhaps}]`,
		[]string{"spec.topologySpreadConstraints[0].maxSkew Invalid", "spec.topologySpreadConstraints[0].minDomains Invalid",
			"spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable} Duplicate",
			"spec.topologySpreadConstraints[2].whenUnsatisfiable NotSupported"}},
	{"spread keys",
		`topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: ScheduleAnyway, matchLabelKeys: [a]}, ` +
			`{maxSkew: 1, topologyKey: y, whenUnsatisfiable: ScheduleAnyway, matchLabelKeys: [a], labelSelector: {matchLabels: {a: b}}}, ` +
			`{maxSkew: 1, topologyKey: x, whenUnsatisfiable: ScheduleAnyway, matchLabelKeys: [a], ` +
			`labelSelector: {matchExpressions: [{key: a, operator: Exists}, {key: a, operator: In, values: [c]}]}}]`,
		[]string{"spec.topologySpreadConstraints[0].matchLabelKeys Forbidden", "spec.topologySpreadConstraints[2][0] Invalid"}},
	{"node affinity",
		`affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, ` +
			`operator: In}, {key: a, operator: Exists, values: [x]}, ` +
			`{key: a, operator: Near}], matchFields: [{key: a, operator: In, values: [x]}]}]}, ` +
			`preferredDuringSchedulingIgnoredDuringExecution: [{weight: 0, preference: {}}]}}`,
		[]string{"spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight Invalid",
			"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values Required",
			"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[1].values Forbidden",
			"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[2].operator Invalid",
			"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchFields[0].key Invalid"}},
	{"pod affinity",
		`affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 101, podAffinityTerm: {topologyKey: a, ` +
			`namespaces: [A_b], matchLabelKeys: [k]}}]}}`,
		[]string{"spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.matchLabelKeys Forbidden",
			"spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.namespace Invalid",
			"spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight Invalid"}},

	{"ephemeral container", `ephemeralContainers: [{name: c, image: i, targetContainerName: d, ports: [{containerPort: 1}]}]`,
		[]string{"spec.ephemeralContainers[0].name Duplicate", "spec.ephemeralContainers[0].ports Forbidden",
			"spec.ephemeralContainers[0].targetContainerName NotFound"}},
}

func TestValidate(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := causes(podspec.ValidatePod(nil, pod(t, c.spec), nil)); !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

func TestPodOnly(t *testing.T) {
	p := pod(t, `volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: t}}]}}]`)
	p.Spec.ServiceAccountName = ""
	p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x", "controller.kubernetes.io/pod-deletion-cost": "+1"}
	want := []string{"metadata.annotations[controller.kubernetes.io/pod-deletion-cost] Invalid",
		"metadata.annotations[kubernetes.io/config.mirror] Invalid",
		"spec.volumes[0].projected.sources[0].serviceAccountToken Forbidden"}
	if got := causes(podspec.ValidatePod(nil, p, nil)); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestConfinement(t *testing.T) {
	const key = "container.apparmor.security.beta.kubernetes.io/"
	p := pod(t,
		`containers: [{name: a, image: i}, {name: b, image: i}, {name: c, image: i, securityContext: {appArmorProfile: {type: Unconfined}}}]`)
	p.Annotations = map[string]string{key + "a": "localhost/x", key + "c": "unconfined"}
	podspec.ConfineByAnnotation(p.Annotations, &p.Spec)
	if got := p.Spec.Containers[0].SecurityContext.AppArmorProfile; got.Type != corev1.AppArmorProfileTypeLocalhost ||
		*got.LocalhostProfile != "x" {
		t.Errorf("got %v", got)
	}
	if p.Spec.Containers[1].SecurityContext != nil || len(podspec.ValidatePod(nil, p, nil)) > 0 {
		t.Errorf("got %v", podspec.ValidatePod(nil, p, nil))
	}
	p.Annotations = map[string]string{key + "a": "odd", key + "c": "runtime/default", key + "d": "unconfined"}
	want := []string{"metadata.annotations[" + key + "a] Invalid", "metadata.annotations[" + key + "d] Invalid"}
	if got := causes(podspec.ValidatePod(nil, p, nil)); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// TestAnnotationsAgree: an annotation that has become a field must say what the field says.
func TestAnnotationsAgree(t *testing.T) {
	const armor, seccomp = "container.apparmor.security.beta.kubernetes.io/c", "container.seccomp.security.alpha.kubernetes.io/c"
	local := "{type: Localhost, localhostProfile: p}"
	for _, c := range []struct{ key, value, context, want string }{
		{armor, "unconfined", "appArmorProfile: {type: Unconfined}", ""},
		{armor, "localhost/p", "appArmorProfile: " + local, ""},
		{armor, "localhost/q", "appArmorProfile: " + local, "appArmorProfile.localhostProfile"},
		{armor, "runtime/default", "appArmorProfile: " + local, "appArmorProfile.type"},
		{seccomp, "docker/default", "seccompProfile: {type: RuntimeDefault}", ""},
		{seccomp, "localhost/q", "seccompProfile: " + local, "seccompProfile.localhostProfile"},
		{seccomp, "unconfined", "seccompProfile: " + local, "seccompProfile.type"},
	} {
		t.Run(c.key, func(t *testing.T) {
			s := spec(t, inContainer("securityContext: {"+c.context+"}"))
			got := causes(podspec.AnnotationsAgree(map[string]string{c.key: c.value}, s, field.NewPath("spec")))
			if c.want == "" && len(got) > 0 || c.want != "" && !slices.Equal(got, []string{c0("securityContext." + c.want + " Forbidden")}) {
				t.Errorf("%s=%s: got %q, want %s", c.key, c.value, got, c.want)
			}
		})
	}
}

// TestAnnotationChange: some annotations stay as they were when the pod was made.
func TestAnnotationChange(t *testing.T) {
	const armor = "container.apparmor.security.beta.kubernetes.io/c"
	old := map[string]string{armor: "unconfined", corev1.MirrorPodAnnotationKey: "x", "other": "y"}
	want := []string{"metadata.annotations[" + armor + "] Forbidden", "metadata.annotations[" + corev1.MirrorPodAnnotationKey + "] Forbidden"}
	s := &corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c"}}}
	for _, change := range [][2]map[string]string{{nil, old}, {old, nil},
		{{armor: "runtime/default", corev1.MirrorPodAnnotationKey: "z"}, old}} {
		if got := causes(podspec.ValidateAnnotationChange(change[0], change[1], s,
			field.NewPath("metadata", "annotations"))); !slices.Equal(got, want) {
			t.Errorf("got %q", got)
		}
	}
	if got := podspec.ValidateAnnotationChange(map[string]string{armor: "unconfined", corev1.MirrorPodAnnotationKey: "x"}, old, s,
		nil); len(got) > 0 {
		t.Errorf("got %v", got)
	}
	// What stands there is judged again, though nothing has changed.
	s.NodeName = ""
	if got := causes(podspec.ValidateAnnotationChange(old, old, s, field.NewPath("metadata", "annotations"))); !slices.Equal(got,
		[]string{"metadata.annotations[" + corev1.MirrorPodAnnotationKey + "] Invalid"}) {
		t.Errorf("got %q", got)
	}
}

// TestTemplate: a template leaves host ports and the service account to the pods made of it.
func TestTemplate(t *testing.T) {
	tmpl := &corev1.PodTemplateSpec{}
	if err := yaml.UnmarshalStrict([]byte(`
metadata: {labels: {a b: c}}
spec:
  hostNetwork: true
  containers: [{name: c, image: ' i', ports: [{containerPort: 80}]}]
  ephemeralContainers: [{name: e, image: i}]
  volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: t}}]}}]`), tmpl); err != nil {
		t.Fatal(err)
	}
	podspec.DefaultTemplate(tmpl)
	want := []string{"spec.template.labels Invalid", "spec.template.spec.ephemeralContainers Forbidden"}
	if got := causes(podspec.ValidateTemplate(nil, tmpl, nil, field.NewPath("spec", "template"))); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestWarnings(t *testing.T) {
	p := pod(t, `
nodeSelector: {beta.kubernetes.io/os: linux}
terminationGracePeriodSeconds: -1
volumes: [{name: g, gitRepo: {repository: r}}]
containers: [{name: c, image: i, env: [{name: A}, {name: A}], resources: {requests: {memory: 100m}}, ports: [{containerPort: 1},
  {containerPort: 1}]}]`)
	got := podspec.Warnings(&p.ObjectMeta, &p.Spec, nil)
	want := []string{
		`spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead`,
		`spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+`,
		`spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1`,
		`spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply`,
		`spec.containers[0].resources.requests[memory]: fractional byte value "100m" is invalid, must be an integer`,
		`spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %s", strings.Join(got, "\n"))
	}
}

// FuzzValidate: whatever a client sends, checking it ends without a panic.
func FuzzValidate(f *testing.F) {
	for _, c := range cases {
		if js, err := yaml.YAMLToJSON([]byte(c.spec)); err == nil {
			f.Add(js)
		}
	}
	f.Fuzz(func(t *testing.T, js []byte) {
		p := &corev1.Pod{}
		if json.Unmarshal(js, &p.Spec) != nil {
			return
		}
		podspec.DefaultPod(&p.Spec)
		podspec.ValidatePod(nil, p, nil)
		podspec.Warnings(&p.ObjectMeta, &p.Spec, nil)
		podspec.QOS(&p.Spec)
	})
}
