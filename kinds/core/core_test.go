package core_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/pods"
	"github.com/kloop-dev/kloop/resource"
)

var all = resource.NewSet(append(core.All(), pods.All()...)...)

func kindOf(t *testing.T, name string) resource.Kind {
	t.Helper()
	for _, k := range all.All() {
		if k.Info().GVK.Kind == name {
			return k
		}
	}
	t.Fatalf("no kind %s", name)
	return nil
}

// parse reads YAML of "Kind: {…}" as a client's object in the namespace ns.
func parse(t *testing.T, text string) (resource.Kind, resource.Object) {
	t.Helper()
	name, body, _ := strings.Cut(text, ":")
	k := kindOf(t, name)
	o := k.New(k.Info().GVK)
	if err := yaml.UnmarshalStrict([]byte(body), o); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if o.GetName() == "" {
		o.SetName("obj")
	}
	if k.Info().Namespaced {
		o.SetNamespace("ns")
	}
	return k, o
}

// create takes an object as far as validation, as the server does.
func create(t *testing.T, text string) (resource.Kind, resource.Object) {
	t.Helper()
	k, o := parse(t, text)
	k.SetDefaults(nil, o)
	k.PrepareForWrite(nil, "", o, nil)
	return k, o
}

func causes(errs field.ErrorList) []string {
	list := make([]string, 0, len(errs))
	for _, e := range errs {
		list = append(list, e.Field+" "+strings.TrimPrefix(string(e.Type), "FieldValue"))
	}
	slices.Sort(list)
	return list
}

// tree is the JSON of v as plain maps and lists.
func tree(t *testing.T, v any) any {
	t.Helper()
	js, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(js, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// part picks one top-level field of an object's JSON.
func part(t *testing.T, o resource.Object, name string) any {
	t.Helper()
	return tree(t, o).(map[string]any)[name]
}

func yamlTree(t *testing.T, text string) (v any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestDiscovery holds the facts that clients discover: names, scope, verbs and subresources.
func TestDiscovery(t *testing.T) {
	var got []string
	for _, k := range all.All() {
		i := k.Info()
		line := strings.Join([]string{i.Plural, i.Singular, strings.Join(i.Short, ","), strings.Join(i.Categories, ","), i.Prefix}, "|")
		if i.Namespaced {
			line += "|ns"
		}
		if len(i.Verbs) < 8 {
			line += " " + strings.Join(i.Verbs, ",")
		}
		for _, s := range i.Subs {
			line += " " + s.Name + "(" + strings.TrimPrefix(s.GVK.GroupVersion().String()+" "+s.GVK.Kind, "v1 ") + ")" + strings.Join(s.Verbs, ",")
		}
		got = append(got, strings.ReplaceAll(line, "( )", " "))
	}
	const rw, stream, doAll = "get,patch,update", "create,get", "create,delete,get,patch,update"
	want := []string{
		"bindings|binding||||ns create",
		"componentstatuses|componentstatus|cs|| get,list",
		"configmaps|configmap|cm||/registry/configmaps/|ns",
		"endpoints|endpoints|ep||/registry/services/endpoints/|ns",
		"events|event|ev||/registry/events/|ns",
		"limitranges|limitrange|limits||/registry/limitranges/|ns",
		"namespaces|namespace|ns||/registry/namespaces/ create,delete,get,list,patch,update,watch finalize update status " + rw,
		"nodes|node|no||/registry/minions/ proxy(NodeProxyOptions)" + doAll + " status " + rw,
		"persistentvolumeclaims|persistentvolumeclaim|pvc||/registry/persistentvolumeclaims/|ns status " + rw,
		"persistentvolumes|persistentvolume|pv||/registry/persistentvolumes/ status " + rw,
		"pods|pod|po|all|/registry/pods/|ns attach(PodAttachOptions)" + stream + " binding(Binding)create ephemeralcontainers " + rw +
			" eviction(policy/v1 Eviction)create exec(PodExecOptions)" + stream + " log get portforward(PodPortForwardOptions)" + stream +
			" proxy(PodProxyOptions)" + doAll + " resize " + rw + " status " + rw,
		"podtemplates|podtemplate|||/registry/podtemplates/|ns",
		"replicationcontrollers|replicationcontroller|rc|all|/registry/controllers/|ns scale(autoscaling/v1 Scale)" + rw + " status " + rw,
		"resourcequotas|resourcequota|quota||/registry/resourcequotas/|ns status " + rw,
		"secrets|secret|||/registry/secrets/|ns",
		"serviceaccounts|serviceaccount|sa||/registry/serviceaccounts/|ns token(authentication.k8s.io/v1 TokenRequest)create",
		"services|service|svc|all|/registry/services/specs/|ns proxy(ServiceProxyOptions)" + doAll + " status " + rw,
	}
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Errorf("line %d:\ngot  %q\nwant %q", i, got[i:min(i+1, len(got))], want[i:min(i+1, len(want))])
		}
	}
}

func TestSelectable(t *testing.T) {
	for kind, want := range map[string]string{
		"Pod": "metadata.name metadata.namespace spec.nodeName spec.host spec.restartPolicy spec.schedulerName spec.serviceAccountName " +
			"spec.hostNetwork " +
			"status.phase status.podIP status.podIPs status.nominatedNodeName",
		"Event": "metadata.name metadata.namespace involvedObject.kind involvedObject.namespace involvedObject.name involvedObject.uid " +
			"involvedObject.apiVersion involvedObject.resourceVersion involvedObject.fieldPath reason reportingComponent source type",
		"Node": "metadata.name spec.unschedulable", "Namespace": "metadata.name status.phase", "Secret": "metadata.name metadata.namespace type",
		"Service":               "metadata.name metadata.namespace spec.clusterIP spec.type",
		"ReplicationController": "metadata.name metadata.namespace status.replicas",
		"ConfigMap":             "metadata.name metadata.namespace",
	} {
		t.Run(kind, func(t *testing.T) {
			if got := strings.Join(kindOf(t, kind).Info().Selectable, " "); got != want {
				t.Errorf("%s: got %s", kind, got)
			}
		})
	}
	_, o := create(t, `Pod: {spec: {nodeName: nd, containers: [{name: c, image: i}]}}`)
	for label, want := range map[string]string{
		"spec.nodeName": "nd", "spec.hostNetwork": "false", "status.phase": "Pending", "none": "",
	} {
		t.Run(label, func(t *testing.T) {
			if got := core.Pods.Field(o, label); got != want {
				t.Errorf("field %s of a pod: %q; want %q", label, got, want)
			}
		})
	}
	if got := core.Pods.Info().Indexed; !slices.Equal(got, []string{"spec.nodeName"}) {
		t.Errorf("indexed: %v", got)
	}
}

// TestStored: what is stored of what clients send.
func TestStored(t *testing.T) {
	for _, c := range []struct{ given, field, want string }{
		{`Namespace: {metadata: {name: a}, spec: {finalizers: [x.example/y]}}`, "spec", `{finalizers: [x.example/y, kubernetes]}`},
		{`Namespace: {metadata: {name: a}, status: {phase: Terminating}}`, "status", `{phase: Active}`},
		{`Secret: {stringData: {a: b}, data: {a: eA==}}`, "data", `{a: Yg==}`},
		{`Secret: {}`, "type", `Opaque`},
		{`Service: {spec: {ports: [{port: 80}]}}`, "spec",
			`{type: ClusterIP, sessionAffinity: None, internalTrafficPolicy: Cluster, ports: [{port: 80, targetPort: 80, protocol: TCP}]}`},
		{`Service: {spec: {type: ExternalName, externalName: a}}`, "spec", `{type: ExternalName, externalName: a, sessionAffinity: None}`},
		{`Service: {spec: {type: LoadBalancer, sessionAffinity: ClientIP, clusterIP: 1.2.3.4}}`, "spec",
			`{type: LoadBalancer, sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 10800}}, ` +
				`internalTrafficPolicy: Cluster, externalTrafficPolicy: Cluster, allocateLoadBalancerNodePorts: true, clusterIP: 1.2.3.4, ` +
				`clusterIPs: [1.2.3.4]}`},
		{`Endpoints: {subsets: [{ports: [{port: 1}]}]}`, "subsets", `[{ports: [{port: 1, protocol: TCP}]}]`},
		{`Node: {spec: {podCIDR: 10.0.0.0/24, configSource: {}}, status: {capacity: {cpu: 1}}}`, "spec",
			`{podCIDR: 10.0.0.0/24, podCIDRs: [10.0.0.0/24]}`},
		{`PersistentVolumeClaim: {spec: {accessModes: [ReadWriteOnce], dataSource: {kind: PersistentVolumeClaim, name: o}}}`, "spec",
			`{accessModes: [ReadWriteOnce], resources: {}, volumeMode: Filesystem, dataSource: {apiGroup: null, kind: PersistentVolumeClaim, ` +
				`name: o}, dataSourceRef: {apiGroup: null, kind: PersistentVolumeClaim, name: o}}`},
		{`PersistentVolumeClaim: {status: {phase: Bound}}`, "status", `{phase: Pending}`},
		{`PersistentVolume: {spec: {hostPath: {path: /}}}`, "spec",
			`{hostPath: {path: /, type: ''}, persistentVolumeReclaimPolicy: Retain, volumeMode: Filesystem}`},
		{`LimitRange: {spec: {limits: [{type: Container, max: {cpu: 2}, min: {memory: 1Mi}}]}}`, "spec",
			`{limits: [{type: Container, max: {cpu: '2'}, min: {memory: 1Mi}, default: {cpu: '2'}, defaultRequest: {cpu: '2', memory: 1Mi}}]}`},
		{`Pod: {status: {phase: Running, podIP: 1.2.3.4}, spec: {containers: [{name: c, image: i}]}}`, "status",
			`{phase: Pending, qosClass: BestEffort}`},
	} {
		t.Run(c.given, func(t *testing.T) {
			_, o := create(t, c.given)
			if got := part(t, o, c.field); !reflect.DeepEqual(got, yamlTree(t, c.want)) {
				t.Errorf("%s\ngot  %v\nwant %v", c.given, got, c.want)
			}
		})
	}
	_, o := create(t, `Node: {status: {capacity: {cpu: 1}}}`)
	if n := o.(*corev1.Node); n.Status.Allocatable.Cpu().String() != "1" {
		t.Error("a node agent registers its node with the status in place")
	}
	_, o = create(t, `Namespace: {metadata: {name: a, labels: {kubernetes.io/metadata.name: b}}}`)
	if o.GetLabels()[corev1.LabelMetadataName] != "a" {
		t.Errorf("labels of a namespace: %v", o.GetLabels())
	}
	_, o = create(t, `PersistentVolume: {spec: {}}`)
	if s := o.(*corev1.PersistentVolume).Status; s.Phase != corev1.VolumePending || s.LastPhaseTransitionTime == nil {
		t.Errorf("status of a volume: %v", s)
	}
	_, o = create(t, `ReplicationController: {spec: {template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}`)
	if c := o.(*corev1.ReplicationController); c.Spec.Selector["a"] != "b" || c.Labels["a"] != "b" || *c.Spec.Replicas != 1 ||
		c.Spec.Template.Spec.DNSPolicy == "" {
		t.Errorf("controller: %v", c)
	}
}

func TestScale(t *testing.T) {
	k, o := create(t, `ReplicationController: {spec: {replicas: 3, selector: {a: b}}}`)
	o.(*corev1.ReplicationController).Status.Replicas = 2
	if s, ok := resource.ScaleOf(k, o); !ok || s != (resource.Scale{Replicas: 3, Current: 2, Selector: "a=b"}) {
		t.Errorf("got %v", s)
	}
	if k.Scaled().Set(o, 5); *o.(*corev1.ReplicationController).Spec.Replicas != 5 {
		t.Error("not scaled")
	}
}

func TestTTL(t *testing.T) {
	_, o := create(t, `Event: {involvedObject: {namespace: ns}}`)
	if resource.Expiry(core.Events, o) != core.EventLife || resource.Expiry(core.Pods, &corev1.Pod{}) != 0 {
		t.Error("events, and only events, are forgotten")
	}
}

// TestNegativeGrace: a pod that is to end before it began has a second, and is not warned of it; a template is.
func TestNegativeGrace(t *testing.T) {
	p := &corev1.Pod{Spec: corev1.PodSpec{TerminationGracePeriodSeconds: new(int64(-5))}}
	core.Pods.SetDefaults(nil, p)
	if got := *p.Spec.TerminationGracePeriodSeconds; got != 1 || len(core.Pods.Warnings(nil, p, nil)) != 0 {
		t.Errorf("%d, %v", got, core.Pods.Warnings(nil, p, nil))
	}
	c := &corev1.PodTemplate{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{TerminationGracePeriodSeconds: new(int64(-5))}}}
	core.PodTemplates.SetDefaults(nil, c)
	if got := *c.Template.Spec.TerminationGracePeriodSeconds; got != -5 || len(core.PodTemplates.Warnings(nil, c, nil)) != 1 {
		t.Errorf("%d, %v", got, core.PodTemplates.Warnings(nil, c, nil))
	}
}
