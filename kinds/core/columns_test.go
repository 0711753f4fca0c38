package core_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// TestHeaders: columns, those of -o wide in brackets.
func TestHeaders(t *testing.T) {
	for kind, want := range map[string]string{
		"Pod":            "Name Ready Status Restarts Age [IP] [Node] [Nominated Node] [Readiness Gates]",
		"Node":           "Name Status Roles Age Version [Internal-IP] [External-IP] [OS-Image] [Kernel-Version] [Container-Runtime]",
		"Namespace":      "Name Status Age",
		"ConfigMap":      "Name Data Age",
		"Secret":         "Name Type Data Age",
		"ServiceAccount": "Name Age",
		"Service":        "Name Type Cluster-IP External-IP Port(s) Age [Selector]",
		"Endpoints":      "Name Endpoints Age",
		"Event":          "Last Seen Type Reason Object [Subobject] [Source] Message [First Seen] [Count] [Name]",
		"PersistentVolume": "Name Capacity Access Modes Reclaim Policy Status Claim StorageClass VolumeAttributesClass Reason Age " +
			"[VolumeMode]",
		"PersistentVolumeClaim": "Name Status Volume Capacity Access Modes StorageClass VolumeAttributesClass Age [VolumeMode]",
		"ReplicationController": "Name Desired Current Ready Age [Containers] [Images] [Selector]",
		"ResourceQuota":         "Name Request Limit Age",
		"LimitRange":            "Name Created At",
		"PodTemplate":           "Name Containers Images Pod Labels",
		"ComponentStatus":       "Name Status Message Error",
	} {
		t.Run(kind, func(t *testing.T) {
			var got []string
			for _, c := range kindOf(t, kind).Header(nil) {
				name := c.Name
				if c.Priority > 0 {
					name = "[" + name + "]"
				}
				got = append(got, name)
			}
			if s := strings.Join(got, " "); s != want {
				t.Errorf("%s: got %s", kind, s)
			}
		})
	}
}

func TestRows(t *testing.T) {
	for _, c := range []struct{ given, want string }{
		{
			`Node: {metadata: {labels: {node-role.kubernetes.io/b: '', kubernetes.io/role: a}}, spec: {unschedulable: true}, ` +
				`status: {conditions: [{type: Ready, status: Unknown}], nodeInfo: {kubeletVersion: v1, kernelVersion: k, architecture: amd64}, ` +
				`addresses: [{type: InternalIP, address: 10.0.0.1}]}}`,
			"obj;NotReady,SchedulingDisabled;a,b;<unknown>;v1;10.0.0.1;<none>;<unknown>;k (amd64);<unknown>"},
		{`Node: {}`, "obj;Unknown;<none>;<unknown>;;<none>;<none>;<unknown>;<unknown>;<unknown>"},
		{
			`Service: {spec: {type: NodePort, clusterIPs: [10.0.0.1], ports: [{port: 80, nodePort: 30000, protocol: TCP}, ` +
				`{port: 53, protocol: UDP}], selector: {b: c, a: b}}}`,
			"obj;NodePort;10.0.0.1;<none>;80:30000/TCP,53/UDP;<unknown>;a=b,b=c"},
		{`Service: {spec: {type: LoadBalancer}}`, "obj;LoadBalancer;<none>;<pending>;<none>;<unknown>;<none>"},
		{
			`Service: {spec: {type: LoadBalancer, externalIPs: [2.2.2.2]}, status: {loadBalancer: {ingress: [{hostname: h.example}, ` +
				`{ip: 1.1.1.1}]}}}`,
			"obj;LoadBalancer;<none>;1.1.1.1,h.example,2.2.2.2;<none>;<unknown>;<none>"},
		{`Service: {spec: {type: ExternalName, externalName: a.example}}`, "obj;ExternalName;<none>;a.example;<none>;<unknown>;<none>"},
		{`Endpoints: {subsets: [{addresses: [{ip: 1.1.1.1}, {ip: 1.1.1.2}], ports: [{port: 1}, {port: 2}]}]}`,
			"obj;1.1.1.1:1,1.1.1.2:1,1.1.1.1:2 + 1 more...;<unknown>"},
		{`Endpoints: {}`, "obj;<none>;<unknown>"},
		{`Event: {involvedObject: {kind: Pod, name: p}, type: Normal, reason: R, message: ' m ', reportingComponent: c, source: {host: h}}`,
			"<unknown>;Normal;R;pod/p;;c, h;m;<unknown>;1;obj"},
		{`ConfigMap: {data: {a: b}, binaryData: {c: eA==}}`, "obj;2;<unknown>"},
		{
			`PersistentVolume: {spec: {capacity: {storage: 1Gi}, ` +
				`accessModes: [ReadWriteMany, ReadWriteOnce], persistentVolumeReclaimPolicy: Delete, claimRef: {namespace: a, name: b}, ` +
				`storageClassName: s, volumeMode: Block}, status: {phase: Bound}}`,
			"obj;1Gi;RWO,RWX;Delete;Bound;a/b;s;<unset>;;<unknown>;Block"},
		{`PersistentVolumeClaim: {spec: {storageClassName: s, resources: {requests: {storage: 1Gi}}}, status: {phase: Pending}}`,
			"obj;Pending;;;;s;<unset>;<unknown>;<unset>"},
		{`PersistentVolumeClaim: {spec: {volumeName: v}, status: {phase: Bound, accessModes: [ReadOnlyMany], capacity: {storage: 1Gi}}}`,
			"obj;Bound;v;1Gi;ROX;;<unset>;<unknown>;<unset>"},
		{
			`ReplicationController: {spec: {replicas: 2, selector: {a: b}, template: {spec: {containers: [{name: c, image: i}]}}}, ` +
				`status: {replicas: 1, readyReplicas: 1}}`,
			"obj;2;1;1;<unknown>;c;i;a=b"},
		{`ResourceQuota: {status: {hard: {pods: 3, limits.cpu: 2, cpu: 1}, used: {pods: 1}}}`,
			"obj;cpu: 0/1, pods: 1/3;limits.cpu: 0/2;<unknown>"},
		{`PodTemplate: {template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}, {name: d, image: j}]}}}`,
			"obj;c,d;i,j;a=b"},
		{`ComponentStatus: {conditions: [{type: Healthy, status: 'True', message: ok}]}`, "obj;Healthy;ok;"},
		{`ServiceAccount: {secrets: [{name: s}]}`, "obj;<unknown>"},
		{`Node: {status: {nodeInfo: {architecture: arm64}}}`,
			"obj;Unknown;<none>;<unknown>;;<none>;<none>;<unknown>;<unknown> (arm64);<unknown>"},
	} {
		t.Run(c.given, func(t *testing.T) {
			k, o := parse(t, c.given)
			if got := line(k, o); got != c.want {
				t.Errorf("%s\ngot  %s\nwant %s", c.given, got, c.want)
			}
		})
	}
}

func line(k resource.Kind, o resource.Object) string {
	var cells []string
	for _, c := range k.Rows(nil, nil)(o) {
		cells = append(cells, fmt.Sprint(c))
	}
	return strings.Join(cells, ";")
}

// TestPodRow: what `kubectl get pods` says of a pod, in the words that everybody knows.
func TestPodRow(t *testing.T) {
	one, side := "containers: [{name: c}]", "initContainers: [{name: s, restartPolicy: Always}], containers: [{name: c}]"
	init2 := "initContainers: [{name: i}, {name: j}], containers: [{name: c}]"
	for _, c := range []struct{ spec, status, want string }{
		{one, `phase: Pending`, "0/1 Pending 0"},
		{one, `phase: Pending, conditions: [{type: PodScheduled, status: 'False', reason: SchedulingGated}]`, "0/1 SchedulingGated 0"},
		{one, `phase: Failed, reason: Evicted`, "0/1 Evicted 0"},
		{one, `phase: Running, containerStatuses: [{name: c, ready: true, state: {running: {}}}]`, "1/1 Running 0"},
		{one, `phase: Running, containerStatuses: [{name: c, ready: false, state: {running: {}}}]`, "0/1 Running 0"},
		{one, `phase: Running, containerStatuses: [{name: c, restartCount: 3, state: {waiting: {reason: CrashLoopBackOff}}}]`,
			"0/1 CrashLoopBackOff 3"},
		{one, `phase: Pending, containerStatuses: [{name: c, state: {waiting: {reason: ContainerCreating}}}]`, "0/1 ContainerCreating 0"},
		{one, `phase: Succeeded, containerStatuses: [{name: c, state: {terminated: {exitCode: 0, reason: Completed}}}]`, "0/1 Completed 0"},
		{one, `phase: Failed, containerStatuses: [{name: c, state: {terminated: {exitCode: 3}}}]`, "0/1 ExitCode:3 0"},
		{one, `phase: Failed, containerStatuses: [{name: c, state: {terminated: {signal: 9, exitCode: 137}}}]`, "0/1 Signal:9 0"},
		{"containers: [{name: c}, {name: d}]",
			`phase: Running, containerStatuses: [{name: c, state: {terminated: {reason: Completed}}}, ` +
				`{name: d, ready: true, state: {running: {}}}]`, "1/2 NotReady 0"},
		{"containers: [{name: c}, {name: d}]",
			`phase: Running, conditions: [{type: Ready, status: 'True'}], ` +
				`containerStatuses: [{name: c, state: {terminated: {reason: Completed}}}, {name: d, ready: true, state: {running: {}}}]`,
			"1/2 Running 0"},
		{init2, `phase: Pending, initContainerStatuses: [{name: i, state: {terminated: {exitCode: 0}}}, {name: j, state: {running: {}}}]`,
			"0/1 Init:1/2 0"},
		{init2, `phase: Pending, initContainerStatuses: [{name: i, restartCount: 2, state: {waiting: {reason: CrashLoopBackOff}}}]`,
			"0/1 Init:CrashLoopBackOff 2"},
		{init2, `phase: Pending, initContainerStatuses: [{name: i, state: {waiting: {reason: PodInitializing}}}]`, "0/1 Init:0/2 0"},
		{init2, `phase: Failed, initContainerStatuses: [{name: i, state: {terminated: {exitCode: 1, reason: Error}}}]`, "0/1 Init:Error 0"},
		{init2, `phase: Failed, initContainerStatuses: [{name: i, state: {terminated: {exitCode: 1}}}]`, "0/1 Init:ExitCode:1 0"},
		{init2,
			`phase: Pending, initContainerStatuses: [{name: i, restartCount: 5, state: {terminated: {exitCode: 0}}}, ` +
				`{name: j, state: {terminated: {exitCode: 0}}}], containerStatuses: [{name: c, state: {waiting: {reason: PodInitializing}}}]`,
			"0/1 PodInitializing 0"},
		{side,
			`phase: Running, initContainerStatuses: [{name: s, started: true, ready: true, restartCount: 1, state: {running: {}}}], ` +
				`containerStatuses: [{name: c, ready: true, restartCount: 1, state: {running: {}}}]`, "2/2 Running 2"},
		{side, `phase: Pending, initContainerStatuses: [{name: s, started: false, state: {running: {}}}]`, "0/2 Init:0/1 0"},
	} {
		t.Run(c.spec, func(t *testing.T) {
			p := &corev1.Pod{}
			if err := yaml.UnmarshalStrict([]byte("spec: {"+c.spec+"}\nstatus: {"+c.status+"}"), p); err != nil {
				t.Fatal(c.status, err)
			}
			row := core.Pods.Rows(nil, nil)(p)
			if got := fmt.Sprint(row[1], " ", row[2], " ", row[3]); got != c.want {
				t.Errorf("%s\ngot  %s\nwant %s", c.status, got, c.want)
			}
		})
	}
}

func TestPodRowTimes(t *testing.T) {
	p := &corev1.Pod{}
	p.Status.Phase = corev1.PodRunning
	ago := metav1.NewTime(time.Now().Add(-5*time.Minute - time.Second))
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 2,
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: ago}}}}
	p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "a"}, {ConditionType: "b"}}
	p.Status.Conditions = []corev1.PodCondition{{Type: "b", Status: corev1.ConditionTrue}}
	p.Status.PodIPs, p.Status.NominatedNodeName = []corev1.PodIP{{IP: "1.2.3.4"}}, "n"
	now := metav1.Now()
	p.DeletionTimestamp = &now
	row := core.Pods.Rows(nil, nil)(p)
	want := []any{"", "0/0", "Terminating", "2 (5m1s ago)", "<unknown>", "1.2.3.4", "<none>", "n", "1/2"}
	if !slices.Equal(row, want) {
		t.Errorf("got %v", row)
	}
	p.Status.Reason = "NodeLost"
	if got := core.Pods.Rows(nil, nil)(p)[2]; got != "Unknown" {
		t.Errorf("got %v", got)
	}
}

// A pod that ended says so in its row's conditions, by which kubectl tells rows apart.
func TestPodMarks(t *testing.T) {
	for phase, want := range map[corev1.PodPhase]string{corev1.PodPending: "", corev1.PodRunning: "", corev1.PodUnknown: "",
		corev1.PodSucceeded: "Completed=True Succeeded: The pod has completed successfully.",
		corev1.PodFailed:    "Completed=True Failed: The pod failed."} {
		var got []string
		for _, c := range resource.Marks(core.Pods, &corev1.Pod{Status: corev1.PodStatus{Phase: phase}}) {
			got = append(got, fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
		}
		if s := strings.Join(got, "; "); s != want {
			t.Errorf("%s: %q, not %q", phase, s, want)
		}
	}
	if resource.Marks(core.ConfigMaps, &corev1.ConfigMap{}) != nil {
		t.Error("a ConfigMap is marked")
	}
}
