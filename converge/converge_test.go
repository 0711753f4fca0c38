package converge

import (
	"slices"
	"strconv"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/internal/states"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

var noon = states.Noon

// empty is a world without objects.
func empty() *World {
	set := kinds.NewSet()
	return &World{Read: view.New(set).Snapshot(), Kinds: set, Now: noon, Rules: All()}
}

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "a", Name: name, CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour)), Generation: 2}
}

func TestHealth(t *testing.T) {
	three := int32(3)
	at := func(d time.Duration) *metav1.Time { return &metav1.Time{Time: noon.Add(d)} }
	deployment := func(st appsv1.DeploymentStatus) *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: meta("web"), Spec: appsv1.DeploymentSpec{Replicas: &three}, Status: st}
	}
	pod := func(phase corev1.PodPhase, ready corev1.ConditionStatus) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: meta("p"), Spec: corev1.PodSpec{NodeName: "n"}, Status: corev1.PodStatus{Phase: phase}}
		if ready != "" {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
		}
		return p
	}
	deleted := pod(corev1.PodRunning, corev1.ConditionTrue)
	deleted.DeletionTimestamp = at(-time.Minute)
	stopping := pod(corev1.PodRunning, corev1.ConditionTrue)
	stopping.DeletionTimestamp = at(20 * time.Second)
	owned := pod(corev1.PodFailed, "")
	owned.OwnerReferences = []metav1.OwnerReference{{Controller: new(true), Kind: "Job"}}
	for name, tt := range map[string]struct {
		kind resource.Kind
		obj  resource.Object
		want string
	}{
		"deployment not looked at": {kinds.Deployments, deployment(appsv1.DeploymentStatus{ObservedGeneration: 1}),
			"has a spec that its controller has not looked at yet"},
		"deployment lacks new pods": {kinds.Deployments,
			deployment(appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 1, AvailableReplicas: 3}),
			"has 1 of 3 replicas of the newest template"},
		"deployment not available": {kinds.Deployments,
			deployment(appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 2}),
			"has 2 of 3 replicas available"},
		"deployment has old pods": {kinds.Deployments,
			deployment(appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 4, UpdatedReplicas: 3, AvailableReplicas: 3}),
			"still has 1 replica of older templates"},
		"deployment complete": {kinds.Deployments,
			deployment(appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 3}), ""},
		"pod ready":              {kinds.Pods, pod(corev1.PodRunning, corev1.ConditionTrue), ""},
		"pod not ready":          {kinds.Pods, pod(corev1.PodRunning, corev1.ConditionFalse), "runs and is not ready"},
		"pod through":            {kinds.Pods, pod(corev1.PodSucceeded, ""), ""},
		"pod failed alone":       {kinds.Pods, pod(corev1.PodFailed, ""), "failed"},
		"pod failed under a job": {kinds.Pods, owned, ""},
		"pod stops in its time":  {kinds.Pods, stopping, ""},
		"pod does not stop":      {kinds.Pods, deleted, "was deleted and is still there"},
		"job at work": {kinds.Jobs, &batchv1.Job{ObjectMeta: meta("j"), Status: batchv1.JobStatus{Active: 1, Ready: new(int32(1))}},
			""},
		"job suspended": {kinds.Jobs, &batchv1.Job{ObjectMeta: meta("j"), Spec: batchv1.JobSpec{Suspend: new(true)}}, ""},
		"job fails": {kinds.Jobs,
			&batchv1.Job{ObjectMeta: meta("j"),
				Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}}}}, "failed"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := empty().Health(tt.kind, tt.obj).Says; got != tt.want {
				t.Errorf("%s: %q, want %q", name, got, tt.want)
			}
		})
	}
}

// Any resource is judged by generation and conditions, as kstatus does.
func TestCustomHealth(t *testing.T) {
	widgets := &resource.Def[*corev1.ConfigMap]{GVK: schema.GroupVersionKind{Group: "x.io", Version: "v1", Kind: "Widget"}, Plural: "widgets",
		Namespaced: true}
	for name, tt := range map[string]struct {
		status map[string]any
		want   string
	}{
		"no status":      {nil, ""},
		"current":        {map[string]any{"observedGeneration": int64(2), "conditions": []any{cond("Ready", "True")}}, ""},
		"behind":         {map[string]any{"observedGeneration": int64(1)}, "has a spec that its controller has not looked at yet"},
		"not ready":      {map[string]any{"conditions": []any{cond("Ready", "False")}}, "is not ready"},
		"unknown":        {map[string]any{"conditions": []any{cond("Ready", "Unknown")}}, "is not known to be ready"},
		"stalled":        {map[string]any{"conditions": []any{cond("Ready", "False"), cond("Stalled", "True")}}, "is stalled"},
		"reconciling":    {map[string]any{"conditions": []any{cond("Reconciling", "True")}}, "is being worked on"},
		"odd conditions": {map[string]any{"conditions": "none", "observedGeneration": "2"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			obj := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "w", "generation": int64(2)}}}
			if tt.status != nil {
				obj.Object["status"] = tt.status
			}
			if got := empty().Health(widgets, obj).Says; got != tt.want {
				t.Errorf("%s: %q, want %q", name, got, tt.want)
			}
		})
	}
}

func cond(typ, status string) map[string]any { return map[string]any{"type": typ, "status": status} }

func TestMainReason(t *testing.T) {
	for text, want := range map[string]string{
		"0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu": "Insufficient cpu",
		"0/1 nodes are available: 1 Too many pods":                                        "Too many pods",
		"no nodes available to schedule pods":                                             "no nodes available to schedule pods",
		"0/3 nodes are available: odd":                                                    "0/3 nodes are available: odd",
	} {
		t.Run(text, func(t *testing.T) {
			if got := mainReason(text); got != want {
				t.Errorf("%q: %q, want %q", text, got, want)
			}
		})
	}
}

func TestPullReason(t *testing.T) {
	for text, want := range map[string]string{
		`failed to resolve reference "x": not found`: "the registry does not have it",
		"pull access denied":                         "the registry wants credentials",
		"pull access denied, repository does not exist or may require authorization": "the registry does not have it, or wants credentials",
		"http: server gave HTTP response to HTTPS client":                            "the registry speaks plain HTTP",
		"write x: no space left on device":                                           "the node's disk is full",
		"dial tcp 127.0.0.1:1: connect: connection refused":                          "the registry does not answer",
		"lookup registry.invalid: no such host":                                      "the registry's name is not known",
		"something else":                                                             "",
		"no match for platform in manifest: not found":                               "there is none for the node's platform",
		"tls: failed to verify certificate: x509: unknown authority\n":               "the registry's certificate is not trusted",
	} {
		t.Run(text, func(t *testing.T) {
			if got, _ := whyNoPull("x", text); got != want {
				t.Errorf("%q: %q, want %q", text, got, want)
			}
		})
	}
}

// A refusal is found again by whose it is, goes when a write goes well, and old ones make room.
func TestCallers(t *testing.T) {
	now := noon
	c := &Callers{Now: func() time.Time { return now }}
	gr := schema.GroupResource{Group: "x.io", Resource: "widgets"}
	done := c.Watching(gr, "widget-operator/v1")
	c.Watching(gr, "kubectl/v1.37")
	if n := c.watchers(gr); n != 1 {
		t.Errorf("%d watch, want the operator alone", n)
	}
	c.Refused(Refusal{User: "u", Agent: "widget-operator/v1", Verb: "create", Message: "no"}, schema.GroupResource{Resource: "pods"}, "a", "")
	if r, ok := c.refusalFor(gr, "a", "w"); !ok || r.Message != "no" || r.Resource != "pods" {
		t.Errorf("refusal %+v, %v", r, ok)
	}
	c.Took("u", schema.GroupResource{Resource: "pods"}, "a", "")
	if _, ok := c.refusalFor(gr, "a", "w"); ok {
		t.Error("a refusal outlived a write that went well")
	}
	for i := range maxRefusals + 10 {
		now = now.Add(time.Second)
		c.Refused(Refusal{User: "u", Agent: "a"}, gr, "a", string(rune('a'+i%26))+time.Duration(i).String())
	}
	if len(c.refused) != maxRefusals {
		t.Errorf("%d refusals are kept", len(c.refused))
	}
	done()
	done()
	if n := c.watchers(gr); n != 0 {
		t.Errorf("%d watch after the end", n)
	}
}

// Fights are found in what changes come by; a status that one manager flips is none.
func TestFights(t *testing.T) {
	var f fights
	now := noon
	cm := func(value, by string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a",
			Name: "c", UID: "1", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: by, Time: &metav1.Time{Time: now},
				FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:data":{"f:k":{}}}`)}}}}, Data: map[string]string{"k": value}}
	}
	old := cm("x", "red")
	for i := range 20 {
		now = now.Add(time.Second)
		next := cm([]string{"x", "y"}[i%2], []string{"red", "blue"}[i%2])
		f.see(&client.Change{Kind: kinds.ConfigMaps, Old: old, New: next}, now)
		old = next
	}
	list := f.list(now)
	if len(list) != 1 || list[0].Field != "data.k" || !slices.Equal(list[0].Managers, []string{"blue", "red"}) {
		t.Fatalf("fights: %+v", list)
	}
	if list := f.list(now.Add(2 * fightFor)); len(list) != 0 || len(f.suspects) != 0 {
		t.Errorf("told long after its end: %+v", list)
	}
}

// An autoscaler that goes up and down now and then, while others write the object often, fights nobody; nor does a rollout, whose
// figures go up and down.
func TestNoFights(t *testing.T) {
	var f fights
	now := noon
	deploy := func(replicas, ready int32) *appsv1.Deployment {
		own := func(by, sub string) metav1.ManagedFieldsEntry {
			return metav1.ManagedFieldsEntry{Manager: by, Subresource: sub, Time: &metav1.Time{Time: now},
				FieldsV1: &metav1.FieldsV1{Raw: []byte(`{}`)}}
		}
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "a",
			Name: "d", UID: "1", Generation: int64(replicas),
			ManagedFields: []metav1.ManagedFieldsEntry{own("scaler", "scale"), own("kube-controller-manager", "status")}},
			Spec: appsv1.DeploymentSpec{Replicas: &replicas}, Status: appsv1.DeploymentStatus{ReadyReplicas: ready}}
	}
	old := deploy(3, 0)
	step := func(next *appsv1.Deployment) {
		f.see(&client.Change{Kind: kinds.Deployments, Old: old, New: next}, now)
		old = next
	}
	for i := range 12 {
		for j := range 10 { // a rollout
			now = now.Add(time.Second)
			step(deploy(*old.Spec.Replicas, int32(j%3)))
		}
		now = now.Add(15 * time.Minute)
		step(deploy([]int32{3, 5}[i%2], 0))
	}
	if list := f.list(now); len(list) != 0 {
		t.Errorf("told as fights: %+v", list)
	}
}

// Endpoints come and go with the pods: that is no fight, unless two managers set them.
func TestEndpointsFollow(t *testing.T) {
	for _, tt := range []struct{ managers, fights int }{{1, 0}, {2, 1}} {
		var f fights
		now := noon
		slice := func(i int) *discoveryv1.EndpointSlice {
			return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "a",
				Name: "s", UID: "1", Generation: int64(i),
				ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m" + strconv.Itoa(i%tt.managers), Time: &metav1.Time{Time: now},
					FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:endpoints":{}}`)}}}}, Endpoints: make([]discoveryv1.Endpoint, i%2)}
		}
		for i := range 20 {
			now = now.Add(time.Second)
			f.see(&client.Change{Kind: kinds.EndpointSlices, Old: slice(i), New: slice(i + 1)}, now)
		}
		if list := f.list(now); len(list) != tt.fights {
			t.Errorf("%d managers: %+v", tt.managers, list)
		}
	}
}

// Thousands of objects that change four times each are no reason to take any of them apart.
func TestStorm(t *testing.T) {
	var f fights
	for i := range 4 * 5000 {
		cm := func(value int) *corev1.ConfigMap {
			return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: types.UID(strconv.Itoa(i % 5000))},
				Data: map[string]string{"k": strconv.Itoa(value)}}
		}
		f.see(&client.Change{Kind: kinds.ConfigMaps, Old: cm(i), New: cm(i + 1)}, noon)
	}
	if len(f.suspects) != 0 {
		t.Errorf("%d are suspect", len(f.suspects))
	}
}

// Two who set a field every three minutes each are found among thousands of objects that change now and then; one who changes
// its mind is not.
func TestSlowFights(t *testing.T) {
	var f fights
	now := noon
	cm := func(name, value, by string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a",
			Name: name, UID: types.UID(name), ManagedFields: []metav1.ManagedFieldsEntry{{Manager: by, Time: &metav1.Time{Time: now},
				FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:data":{"f:k":{}}}`)}}}}, Data: map[string]string{"k": value, "at": now.String()}}
	}
	was := map[string]*corev1.ConfigMap{}
	change := func(name, value, by string) {
		next := cm(name, value, by)
		if old := was[name]; old != nil {
			f.see(&client.Change{Kind: kinds.ConfigMaps, Old: old, New: next}, now)
		}
		was[name] = next
	}
	for i := range 40 { // an hour
		now = now.Add(90 * time.Second)
		change("fought", []string{"x", "y"}[i%2], []string{"red", "blue"}[i%2])
		change("wavers", []string{"x", "y"}[i%2], "red")
		for j := range 50 {
			change("other-"+strconv.Itoa((i*50+j)%1500), strconv.Itoa(i), "red")
		}
	}
	list := f.list(now)
	if len(list) != 1 || list[0].Object.Name != "fought" || list[0].Field != "data.k" || !slices.Equal(list[0].Managers,
		[]string{"blue", "red"}) || list[0].Rate != "41/h" && list[0].Rate != "42/h" {
		t.Fatalf("fights: %+v", list)
	}
	if list := f.list(now.Add(2 * fightFor)); len(list) != 0 {
		t.Errorf("told long after its end: %+v", list)
	}
	for i := range 12 { // every two hours, which takes longer to be over
		now = now.Add(2 * time.Hour)
		change("seldom", []string{"x", "y"}[i%2], []string{"red", "blue"}[i%2])
	}
	if list := f.list(now.Add(5 * time.Hour)); len(list) != 1 || list[0].Object.Name != "seldom" {
		t.Errorf("fights: %+v", list)
	}
	if list := f.list(now.Add(7 * time.Hour)); len(list) != 0 {
		t.Errorf("told long after its end: %+v", list)
	}
}

func TestWriter(t *testing.T) {
	owns := func(by, fields string, at time.Duration) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: by, Time: &metav1.Time{Time: noon.Add(at)}, FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)}}
	}
	obj := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{
		owns("late", `{"f:metadata":{}}`, time.Hour), owns("keeper", `{"f:metadata":{"f:annotations":{"f:a.b/c":{}}}}`, 0)}}}
	if got := writer(obj, obj, "metadata.annotations.a.b/c"); got != "keeper" {
		t.Errorf("writer is %q", got)
	}
}
