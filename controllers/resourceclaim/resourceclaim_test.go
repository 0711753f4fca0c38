package resourceclaim

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func user(name string) resourcev1.ResourceClaimConsumerReference {
	return resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: name, UID: types.UID(name)}
}

func TestUse(t *testing.T) {
	pods := map[string]*corev1.Pod{}
	for name, phase := range map[string]corev1.PodPhase{"runs": corev1.PodRunning, "pends": corev1.PodPending, "ended": corev1.PodSucceeded} {
		pods[name] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Status: corev1.PodStatus{Phase: phase}}
	}
	pods["namesake"] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "namesake", UID: "other"}}
	foreign := resourcev1.ResourceClaimConsumerReference{APIGroup: "example.com", Resource: "jobs", Name: "j"}
	for _, tt := range []struct {
		name      string
		users     []resourcev1.ResourceClaimConsumerReference
		allocated bool
		going     bool
		waiting   []string
		want      string // users, free, same
	}{
		{"nobody", nil, false, false, nil, "0 false true"},
		{"allocated ahead", nil, true, false, nil, "0 false true"},
		{"in use", []resourcev1.ResourceClaimConsumerReference{user("runs"), user("pends")}, true, false, nil, "2 false true"},
		{"one has ended", []resourcev1.ResourceClaimConsumerReference{user("runs"), user("ended")}, true, false, nil, "1 false false"},
		{"the last has ended", []resourcev1.ResourceClaimConsumerReference{user("ended")}, true, false, nil, "0 true false"},
		{"the last is gone", []resourcev1.ResourceClaimConsumerReference{user("gone")}, true, false, nil, "0 true false"},
		{"a namesake is somebody else", []resourcev1.ResourceClaimConsumerReference{user("namesake")}, true, false, nil, "0 true false"},
		{"not a pod", []resourcev1.ResourceClaimConsumerReference{foreign}, true, false, nil, "1 false true"},
		{"being deleted, in use", []resourcev1.ResourceClaimConsumerReference{user("runs")}, true, true, nil, "1 false true"},
		{"being deleted, free", nil, true, true, nil, "0 true false"},
		{"given a node by another", nil, true, false, []string{"runs"}, "1 false false"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &resourcev1.ResourceClaim{}
			c.Status.ReservedFor = tt.users
			if tt.allocated {
				c.Status.Allocation = &resourcev1.AllocationResult{}
			}
			if tt.going {
				c.DeletionTimestamp = &metav1.Time{}
			}
			var waiting []*corev1.Pod
			for _, name := range tt.waiting {
				waiting = append(waiting, pods[name])
			}
			got := use(c, func(name string) *corev1.Pod { return pods[name] }, waiting)
			if text := fmt.Sprint(len(got.users), got.free, got.same); text != tt.want {
				t.Errorf("%s: %s, want %s", tt.name, text, tt.want)
			}
		})
	}
}

func TestPlan(t *testing.T) {
	gpu, name := "gpu-template", "own"
	p := &corev1.Pod{Spec: corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{
		{Name: "a", ResourceClaimTemplateName: &gpu}, {Name: "b", ResourceClaimName: &name}, {Name: "c", ResourceClaimTemplateName: &gpu}}}}
	if got := plan(p, map[string]string{"a": "p-a-xyz"}); len(got) != 1 || got[0].Name != "c" {
		t.Errorf("missing: %v", got)
	}
}

func TestChoose(t *testing.T) {
	claim := func(name, of string, users ...resourcev1.ResourceClaimConsumerReference) *resourcev1.ResourceClaim {
		return &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{ofTemplate: of}},
			Status: resourcev1.ResourceClaimStatus{ReservedFor: users}}
	}
	going := claim("p-a-1", "a")
	going.DeletionTimestamp = &metav1.Time{}
	other := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
	byScheduler := func(name string) *resourcev1.ResourceClaim {
		return &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name,
			Annotations: map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}}}
	}
	for _, tt := range []struct {
		name  string
		told  string
		owned []*resourcev1.ResourceClaim
		want  string // a's claim, those too many
	}{
		{"none", "", nil, " []"},
		{"one, untold", "", []*resourcev1.ResourceClaim{claim("p-a-1", "a")}, "p-a-1 []"},
		{"two, untold", "", []*resourcev1.ResourceClaim{claim("p-a-1", "a"), claim("p-a-2", "a")}, "p-a-1 []"},
		{"two, told the first", "p-a-1", []*resourcev1.ResourceClaim{claim("p-a-1", "a"), claim("p-a-2", "a")}, "p-a-1 [p-a-2]"},
		{"two, told the last", "p-a-2", []*resourcev1.ResourceClaim{claim("p-a-1", "a"), claim("p-a-2", "a")}, "p-a-2 [p-a-1]"},
		{"somebody else uses the other", "p-a-2", []*resourcev1.ResourceClaim{claim("p-a-1", "a", user("q")), claim("p-a-2", "a")}, "p-a-2 []"},
		{"told one that is gone", "p-a-0", []*resourcev1.ResourceClaim{claim("p-a-1", "a"), claim("p-a-2", "a")}, "p-a-1 []"},
		{"told one that is going", "p-a-1", []*resourcev1.ResourceClaim{going, claim("p-a-2", "a")}, "p-a-1 [p-a-2]"},
		{"one that is going", "", []*resourcev1.ResourceClaim{going}, " []"},
		{"of the scheduler, the pod knows the last", "x-2", []*resourcev1.ResourceClaim{byScheduler("x-1"), byScheduler("x-2"),
			claim("p-a-1", "a")}, "p-a-1 [x-1]"},
		{"of the scheduler, before the pod knows", "p-a-1", []*resourcev1.ResourceClaim{byScheduler("x-1"), byScheduler("x-2"),
			claim("p-a-1", "a")}, "p-a-1 []"},
		{"of the scheduler, the pod knows one that is gone", "x-0", []*resourcev1.ResourceClaim{byScheduler("x-1")}, " []"},
		{"not of a template", "p-a-1", []*resourcev1.ResourceClaim{other, claim("p-a-1", "a"), claim("p-b-1", "b")}, "p-a-1 []"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := &corev1.Pod{}
			switch {
			case strings.HasPrefix(tt.told, "x-"):
				p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: tt.told}
			case tt.told != "":
				p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "a", ResourceClaimName: &tt.told}}
			}
			made, spare := choose(p, tt.owned)
			names := []string{}
			for _, s := range spare {
				names = append(names, s.Name)
			}
			if text := fmt.Sprint(made["a"], " ", names); text != tt.want {
				t.Errorf("%s: %s, want %s", tt.name, text, tt.want)
			}
		})
	}
}

// A pod owns its claims, and does not wait for them to go.
func TestOwnerOfAClaim(t *testing.T) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u"}}
	claim := fromTemplate(p, "a", &resourcev1.ResourceClaimTemplate{})
	if ref := metav1.GetControllerOf(claim); ref == nil || ref.UID != "u" || ref.BlockOwnerDeletion != nil {
		t.Errorf("%+v", claim.OwnerReferences)
	}
}

// TestPrefix keeps something of both names when they are long.
func TestPrefix(t *testing.T) {
	p, c := strings.Repeat("p", 63), strings.Repeat("c", 63)
	for _, tt := range []struct{ name, pod, claim, want string }{
		{"short", "pod", "gpu", "pod-gpu-"},
		{"as long as may be", p[:53], c[:3], p[:53] + "-ccc-"},
		{"both long", p, c, p[:28] + "-" + c[:28] + "-"},
		{"cut after a dot", p[:27] + "." + p[:35], c, p[:27] + "-" + c[:28] + "-"},
		{"a long pod", p, "gpu", p[:53] + "-gp-"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := prefix(tt.pod, tt.claim); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
