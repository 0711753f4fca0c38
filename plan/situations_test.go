package plan

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/localvolume"
)

func manifest(t *testing.T, text string) Change {
	t.Helper()
	docs, err := ReadManifest(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return Apply(docs, "default")
}

// hold checks that the report, as people read it, has each of the texts.
func hold(t *testing.T, r *Report, wants ...string) {
	t.Helper()
	var b strings.Builder
	if err := r.Text(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range wants {
		if no, found := strings.CutPrefix(want, "!"); found && strings.Contains(b.String(), no) || !found && !strings.Contains(b.String(), want) {
			t.Errorf("want %q in\n%s", want, b.String())
		}
	}
}

func web2(old, new string) string { return strings.Replace(web, old, new, 1) }

func TestDrain(t *testing.T) {
	hold(t, run(t, grown(t, 4, web), Drain("sim-0")), "ends well after 10s",
		"deployment/web: 4 of 4 at the end; 3 at least, after 0s; fewer than 4 for 10s", "1 pod of replicaset/web-")
	hold(t, run(t, grown(t, 4, web2("minAvailable: 3", "minAvailable: 4")), Drain("sim-0")),
		"does not end: 1 pod may not be evicted", "never let go", "The disruption budget web needs 4 healthy pods and has 4 currently")
	hold(t, run(t, grown(t, 1, web), Drain("sim-0")), "does not end: 3 pods may not be evicted", "fits on no node", "fewer than 4 to the end")
}

func TestLose(t *testing.T) {
	f := grown(t, 6, web)
	hold(t, run(t, f, LoseZone("z0")), "ends well", "(as asked)", "after 5m", "4 of 4 at the end")
	if _, err := Run(t.Context(), f, LoseZone("nowhere"), Options{}); err == nil {
		t.Error("a zone without nodes was lost")
	}
}

func TestScaleImageDelete(t *testing.T) {
	f := grown(t, 2, web)
	to := Target{"deploy", "default", "web"}
	hold(t, run(t, f, Scale(to, 1)), "poddisruptionbudget/web lets none of its pods go", "1 of 1 at the end",
		"3 pods of replicaset/web-", "!fewer than")
	hold(t, run(t, f, Scale(to, 100)), "stuck: one gap", "Insufficient cpu")
	hold(t, run(t, f, SetImages(to, map[string]string{"c": "a:2"})), "ends well", "4 pods of replicaset/web-", "replicaset/web-")
	hold(t, run(t, f, SetImages(Target{"deployment.apps", "default", "web"}, map[string]string{"*": "a:2"})), "4 pods of replicaset/web-",
		"spec.template.spec.containers")
	hold(t, run(t, f, Delete(to)), "service/web has no endpoint", "0 of 0 at the end", "deployment/web")
	for _, c := range []Change{Scale(Target{"deploy", "default", "no"}, 1), Scale(Target{"cm", "default", "kube-root-ca.crt"}, 1),
		Scale(Target{"thing", "default", "x"}, 1),
		SetImages(to, map[string]string{"other": "a:2"}), Drain("nobody")} {
		if r, err := Run(t.Context(), f, c, Options{}); err == nil {
			t.Errorf("%s: %s", c.Text, r.Verdict)
		}
	}
}

// Classes that a kloop has made for itself stay in its fork, where nobody makes volumes on disks.
func TestClassesStay(t *testing.T) {
	f := grown(t, 2, web+`
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local-path, labels: {app.kubernetes.io/managed-by: kloop}}
provisioner: `+localvolume.Provisioner)
	names := map[string]bool{}
	for c := range each(f, kinds.StorageClasses) {
		names[c.Name] = true
	}
	if !names["local-path"] {
		t.Fatalf("the fork has the classes %v", names)
	}
	r := run(t, f, Drain("sim-0"))
	for _, e := range r.Removed {
		if e.Object.Kind == "StorageClass" {
			t.Errorf("%s is removed by a drain", e.Object)
		}
	}
}

// The front door refuses what it would refuse: a field that there is not, a quota, a policy; what depends on it is told.
func TestApply(t *testing.T) {
	f := grown(t, 4, web+`
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: q}
spec: {hard: {pods: "5"}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: small}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}]}
  validations: [{expression: "object.spec.replicas < 50", message: "too many"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: small}
spec: {policyName: small, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: guard}
webhooks:
- name: guard.example.com
  clientConfig: {url: "https://127.0.0.1:1/"}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  sideEffects: None
  failurePolicy: Fail
  admissionReviewVersions: [v1]
`)
	hold(t, run(t, f, manifest(t, web2("replicas: 4", "replicas: 5"))), "ends well", "deployment/web: ", "guard, guard.example.com, 1 times")
	hold(t, run(t, f, manifest(t, web2("replicas: 4", "replicas: 6"))), "stuck", "quota")
	hold(t, run(t, f, manifest(t, web2("replicas: 4", "replicas: 60"))), "refused", "too many")
	hold(t, run(t, f, manifest(t, web2("replicas: 4", "replica: 4"))), "refused", `.spec.replica: field not declared in schema`)
	hold(t, run(t, f, manifest(t, "apiVersion: x.example.com/v1\nkind: Thing\nmetadata: {name: a}")), "refused", `no matches for kind "Thing"`)
	hold(t, run(t, f, manifest(t, web2(`"a:1"`, `"a:2"`))), "ends well", "4 pods of replicaset/web-", "!1 at least")
}

// TestApplyLists: the items of a list of any kind are applied as kubectl does, and an object without a namespace has none, whatever the
// manifest says.
func TestApplyLists(t *testing.T) {
	hold(t, run(t, grown(t, 1, ""), manifest(t, `{kind: ConfigMapList, apiVersion: v1, items: [{metadata: {name: a}},
		{kind: ConfigMap, apiVersion: v1, metadata: {name: b}}]}`)), "apply 2 objects: ends well", "configmap/a", "configmap/b")
	hold(t, run(t, grown(t, 1, ""), manifest(t, `{kind: ClusterRole, apiVersion: rbac.authorization.k8s.io/v1,
		metadata: {name: reader, namespace: other}, rules: []}`)), "ends well", "\n  clusterrole/reader\n")
}

// TestWorkloadsOutside: pods of another group's StatefulSet are missed when their node is lost, though it is not known how many there
// are to be.
func TestWorkloadsOutside(t *testing.T) {
	f := grown(t, 2, `
apiVersion: v1
kind: Pod
metadata:
  name: db-0
  ownerReferences: [{apiVersion: apps.kruise.io/v1beta1, kind: StatefulSet, name: db, uid: u, controller: true}]
spec: {nodeName: sim-0, containers: [{name: c, image: "a:1"}]}
`)
	hold(t, run(t, f, LoseNode("sim-0")), "statefulset.apps.kruise.io/db: 0 of 1 at the end", "NONE to the end")
}

// TestDrainTakesEnded: of the pods of a DaemonSet a drain leaves those that run.
func TestDrainTakesEnded(t *testing.T) {
	f := grown(t, 1, "")
	for name, phase := range map[string]corev1.PodPhase{"runs": corev1.PodRunning, "ended": corev1.PodFailed} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", UID: "d", Controller: new(true)}}},
			Spec: corev1.PodSpec{NodeName: "sim-0"}, Status: corev1.PodStatus{Phase: phase}}
		f.objects = append(f.objects, item{kinds.Pods, p})
	}
	if err := inWorld(t, f, false, func(_ context.Context, w *world) error {
		a := &author{w: w}
		if list := a.evictable("sim-0"); len(list) != 1 || list[0].Name != "ended" {
			t.Errorf("drain evicts %d pods: %v", len(list), list)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// What the manifest no longer has goes, also where kubectl apply did the work at the client.
func TestApplyTakesAway(t *testing.T) {
	f := grown(t, 2, web2("metadata: {name: web}\nspec:\n  replicas", "metadata: {name: web, labels: {old: \"yes\"}}\nspec:\n  replicas"))
	for client := range 2 {
		if client == 1 {
			for d := range each(f, kinds.Deployments) {
				for i := range d.ManagedFields {
					if m := &d.ManagedFields[i]; m.Operation == metav1.ManagedFieldsOperationApply {
						m.Operation, m.Manager = metav1.ManagedFieldsOperationUpdate, clientSide
					}
				}
			}
			f = &Fork{At: f.At, Version: f.Version, objects: f.objects}
		}
		hold(t, run(t, f, manifest(t, web)), "ends well", "deployment/web: metadata.labels")
	}
}

const crontabs = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: crontabs.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: crontabs, singular: crontab, kind: CronTab}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer, maximum: 100}}}}}}
`

// A new definition is held against the objects that there are.
func TestUpgradeDefinition(t *testing.T) {
	f := grown(t, 1, crontabs+"\n---\napiVersion: example.com/v1\nkind: CronTab\nmetadata: {name: big}\nspec: {size: 60}")
	docs, err := ReadManifest(strings.NewReader(strings.Replace(crontabs, "maximum: 100", "maximum: 50", 1)))
	if err != nil {
		t.Fatal(err)
	}
	c, err := UpgradeDefinitions(docs)
	if err != nil {
		t.Fatal(err)
	}
	hold(t, run(t, f, c), "refused: crontab/big: does not fit the new definition", "less than or equal to 50",
		"what the controller of crontabs.example.com would do")
	docs[0].Kind = "Deployment"
	if _, err := UpgradeDefinitions(docs); err == nil {
		t.Error("a Deployment is a definition")
	}
	hold(t, run(t, grown(t, 1, ""), manifest(t,
		crontabs+"\n---\napiVersion: example.com/v1\nkind: CronTab\nmetadata: {name: big}\nspec: {size: 600}")),
		"refused: crontab/big", "less than or equal to 100")
}

// Where there are no nodes nothing ticks: rest is seen all the same, and what an operator would do is not held against the change.
func TestOperatorsAlone(t *testing.T) {
	tab := `
---
apiVersion: example.com/v1
kind: CronTab
metadata: {name: big}
spec: {size: 60}
status: {observedGeneration: 1}
`
	kept := strings.Replace(crontabs, "100}}}}}}",
		"100}}}, status: {type: object, properties: {observedGeneration: {type: integer}}}}}}", 1)
	f := grown(t, 0, kept+tab)
	hold(t, run(t, f, manifest(t, strings.Replace(tab, "60", "70", 1))), "ends well after 0s", "crontab/big: ", "!not at rest",
		"what the controller of crontabs.example.com would do")
}

const db = `
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: disks.example.com
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: disks.example.com}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 3
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}, annotations: {sim.kloop.dev/ready: 20s}}
    spec:
      containers: [{name: c, image: "a:1", volumeMounts: [{name: data, mountPath: /data}]}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {storageClassName: fast, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: c, image: "a:1"}]}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: db}
spec: {scaleTargetRef: {apiVersion: apps/v1, kind: StatefulSet, name: db}, maxReplicas: 5}
`

func TestStateful(t *testing.T) {
	f := grown(t, 3, db)
	hold(t, run(t, f, Drain("sim-1")), "ends well", "statefulset/db: 3 of 3 at the end; 2 at least",
		"kubectl drain wants --ignore-daemonsets: 1 pod", "what 1 HorizontalPodAutoscaler would do: metrics are not known",
		"!horizontalpodautoscaler/")
	hold(t, run(t, f, SetImages(Target{"sts", "default", "db"}, map[string]string{"c": "a:2"})), "ends well",
		"3 of 3 at the end; 2 at least", "for 1m0s")
	hold(t, run(t, f, Scale(Target{"statefulsets", "default", "db"}, 4)), "ends well", "persistentvolumeclaim/data-db-3", "pod/db-3")
}

// On a node that runs containers, what is in trouble stays so, what is made alike is in the same, and what runs well is as quick as
// it was.
func TestRealNodes(t *testing.T) {
	f := grown(t, 3, web+strings.ReplaceAll(strings.ReplaceAll(web, "name: web", "name: bad"), "app: web", "app: bad"))
	for n := range each(f, kinds.Nodes) {
		delete(n.Annotations, "kwok.x-k8s.io/node")
	}
	for p := range each(f, kinds.Pods) {
		p.Annotations = nil
		if p.Labels["app"] != "bad" {
			readiness(p).LastTransitionTime = metav1.NewTime(p.Status.StartTime.Add(30 * time.Second))
			continue
		}
		p.Status.ContainerStatuses[0] = corev1.ContainerStatus{Name: "c", Image: "a:1", RestartCount: 7, State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 5m0s"}}}
		for i := range p.Status.Conditions {
			if c := &p.Status.Conditions[i]; c.Type == corev1.PodReady || c.Type == corev1.ContainersReady {
				c.Status = corev1.ConditionFalse
			}
		}
	}
	for d := range each(f, kinds.Deployments) {
		delete(d.Spec.Template.Annotations, "sim.kloop.dev/ready")
	}
	for d := range each(f, kinds.ReplicaSets) {
		delete(d.Spec.Template.Annotations, "sim.kloop.dev/ready")
	}
	f = &Fork{At: f.At, Version: "v1.36.2", objects: f.objects}
	r := run(t, f, Scale(Target{"deploy", "default", "web"}, 5))
	hold(t, r, "ends well after 30s", "GAPS THAT ARE THERE ALREADY", "deployment/bad has 0 of 4", "how long containers take")
	if r.Cluster.Rules != "1.36" {
		t.Errorf("the rules are those of %s", r.Cluster.Rules)
	}
	r = run(t, f, Scale(Target{"deploy", "default", "bad"}, 5))
	hold(t, r, "1 pod of replicaset/bad", "!ends badly")
	if bad := slices.IndexFunc(r.Workloads, func(w Workload) bool { return w.Name == "bad" && w.After == 0 }); bad < 0 {
		t.Errorf("a copy of what crashes runs: %+v", r.Workloads)
	}
}

// A version that kloop can't be is told, and one that is none is an error.
func TestVersions(t *testing.T) {
	hold(t, run(t, &Fork{At: start, Version: "v1.30.4"}, manifest(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}")),
		"the cluster is v1.30.4; the rules that were applied are those of 1.36")
	if _, err := Run(t.Context(), &Fork{At: start, Version: "something"}, Drain("x"), Options{}); err == nil {
		t.Error("no version is one")
	}
}

// The horizon bounds what never comes to rest.
func TestHorizon(t *testing.T) {
	f := grown(t, 1, "")
	c := manifest(t,
		"apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: c}\nspec:\n  schedule: '* * * * *'\n"+
			"  jobTemplate: {spec: {backoffLimit: 0, template: {metadata: {annotations: {sim.kloop.dev/exit: \"3\"}}, "+
			"spec: {restartPolicy: Never, containers: [{name: c, image: a}]}}}}")
	r, err := Run(t.Context(), f, c, Options{For: 10 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	hold(t, r, "not at rest after 10m")
	if fmt.Sprint(r.AtRest) != "false" {
		t.Error("at rest")
	}
}

// A quota that comes with what it limits holds for all of it, as in a cluster, whose loops take longer to make pods than to count.
func TestQuotaComesFirst(t *testing.T) {
	quota := "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: late}\nspec: {hard: {pods: \"5\"}}\n---\n"
	for n := range 6 {
		f := grown(t, 3, shopOf("shop", 5+n, "i:1", "100m", "", ""))
		r := run(t, f, manifest(t, quota+shopOf("late", 6, "i:1", "100m", "", "")))
		hold(t, r, "deployment/late", "late holds once it is counted", "0 of 6")
	}
}
