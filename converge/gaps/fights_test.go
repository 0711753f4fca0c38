package gaps

import (
	"slices"
	"strconv"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/internal/states"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/wellknown"
)

var noon = states.Noon

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

// What an agent tells of its machine in annotations of its Node, as which ports are taken there, changes with the machine: an agent that is
// started again a few times fights nobody. Two that write the same annotation do, as two agents of one name.
func TestNodesTell(t *testing.T) {
	for _, tt := range []struct {
		name             string
		managers, fights int
	}{{"one agent", 1, 0}, {"two", 2, 1}} {
		t.Run(tt.name, func(t *testing.T) {
			var f fights
			now := noon
			node := func(i int) *corev1.Node {
				return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "1",
					Annotations: map[string]string{wellknown.TakenPortsAnnotation: []string{"22/TCP", "22/TCP,53/UDP"}[i%2]},
					ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m" + strconv.Itoa(i%tt.managers), Time: &metav1.Time{Time: now},
						FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:metadata":{"f:annotations":{"f:kloop.dev/taken-ports":{}}}}`)}}}}}
			}
			for i := range 20 {
				now = now.Add(time.Second)
				f.see(&client.Change{Kind: kinds.Nodes, Old: node(i), New: node(i + 1)}, now)
			}
			if list := f.list(now); len(list) != tt.fights {
				t.Errorf("%d fights: %+v", len(list), list)
			}
		})
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
				FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:data":{"f:k":{}}}`)}}}}, Data: map[string]string{"k": value,
			"at": now.String()}}
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
		return metav1.ManagedFieldsEntry{Manager: by, Time: &metav1.Time{Time: noon.Add(at)},
			FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)}}
	}
	obj := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{
		owns("late", `{"f:metadata":{}}`, time.Hour), owns("keeper", `{"f:metadata":{"f:annotations":{"f:a.b/c":{}}}}`, 0)}}}
	if got := writer(obj, obj, "metadata.annotations.a.b/c"); got != "keeper" {
		t.Errorf("writer is %q", got)
	}
}
