package pods

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/randfill"

	"github.com/kloop-dev/kloop/internal/intern"
)

// templatePod is one of the pods that a controller makes of one template, as it comes from a client.
func templatePod(n int) *corev1.Pod {
	cpu := corev1.ResourceList{corev1.ResourceCPU: apiresource.MustParse("10m")}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("web-", n), UID: types.UID(fmt.Sprint(n)), Labels: map[string]string{"app": "web"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", UID: "1"}},
			ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "kloop", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{}}`)}}}},
		Spec: corev1.PodSpec{NodeName: fmt.Sprint("node-", n), Tolerations: []corev1.Toleration{{Key: "a"}},
			Containers: []corev1.Container{{Name: "main", Image: "web:1", Resources: corev1.ResourceRequirements{Requests: cpu},
				VolumeMounts: []corev1.VolumeMount{{Name: fmt.Sprint("token-", n)}}}},
			Volumes: []corev1.Volume{{Name: fmt.Sprint("token-", n),
				VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}}}},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "main", AllocatedResources: cpu.DeepCopy(),
			Resources: &corev1.ResourceRequirements{Requests: cpu.DeepCopy()}}}},
	}
}

// Pods of one template have in common what is the same in all, and nothing else.
func TestShare(t *testing.T) {
	a, b := templatePod(1), templatePod(2)
	for _, p := range []*corev1.Pod{a, b} {
		Pods.Pack(p, nil, 1)
	}
	b.Labels["marked"], a.Spec.Containers[0].Resources.Requests["marked"] = "", apiresource.Quantity{} // no one may; here it shows who shares
	a.Status.ContainerStatuses[0].AllocatedResources["marked"] = apiresource.Quantity{}
	for name, shared := range map[string]bool{
		"labels":              len(a.Labels) == 2,
		"owner references":    &a.OwnerReferences[0] == &b.OwnerReferences[0],
		"owned fields":        a.ManagedFields[0].FieldsV1 == b.ManagedFields[0].FieldsV1,
		"tolerations":         &a.Spec.Tolerations[0] == &b.Spec.Tolerations[0],
		"requests":            len(b.Spec.Containers[0].Resources.Requests) == 2,
		"a volume's source":   a.Spec.Volumes[0].Projected == b.Spec.Volumes[0].Projected,
		"allocated resources": len(b.Status.ContainerStatuses[0].AllocatedResources) == 2,
		"status' resources":   a.Status.ContainerStatuses[0].Resources == b.Status.ContainerStatuses[0].Resources,
	} {
		if !shared {
			t.Error(name, "are there twice")
		}
	}
	if b.Spec.NodeName != "node-2" || b.Spec.Volumes[0].Name != "token-2" || b.Spec.Containers[0].VolumeMounts[0].Name != "token-2" {
		t.Errorf("the second pod has parts of the first one: %+v", b.Spec)
	}
}

// A pod says the same after it shares as before, and the last version of it, whose slices and maps it has, is not touched.
func TestShareChangesNothing(t *testing.T) {
	changed := 0
	for seed := range int64(400) {
		p := randomPod(seed)
		last, before := *p, text(t, p)
		containers := [][]corev1.Container{last.Spec.Containers, last.Spec.InitContainers}
		kept := [][]corev1.Container{append([]corev1.Container(nil), containers[0]...), append([]corev1.Container(nil), containers[1]...)}
		Pods.Pack(p, nil, 1)
		if after := text(t, p); after != before {
			t.Fatalf("seed %d: before\n%s\nafter\n%s", seed, before, after)
		}
		if after := text(t, &last); after != before {
			t.Fatalf("seed %d: the last version was\n%s\nand is\n%s", seed, before, after)
		}
		for i := range kept {
			for j := range kept[i] {
				if !intern.Identical(&kept[i][j], &containers[i][j]) {
					t.Fatalf("seed %d: container %d of the last version refers to other memory", seed, j)
				}
			}
		}
		if !intern.Identical(&last.Spec, &p.Spec) {
			changed++
		}
	}
	if changed < 40 {
		t.Errorf("only %d of 400 pods shared anything", changed)
	}
}

// randomPod is put together from parts of a few, so that many have parts alike.
func randomPod(seed int64) *corev1.Pod {
	p := filledPod(seed % 11)
	p.Spec.Containers, p.Spec.InitContainers = filledPod(seed%7).Spec.Containers, filledPod(seed%3).Spec.InitContainers
	p.Spec.Volumes, p.Labels, p.OwnerReferences = filledPod(seed%5).Spec.Volumes, filledPod(seed%13).Labels, filledPod(seed%2).OwnerReferences
	p.Status.ContainerStatuses = filledPod(seed % 17).Status.ContainerStatuses
	return p
}

func filledPod(seed int64) *corev1.Pod {
	p := &corev1.Pod{}
	randfill.New().RandSource(rand.NewSource(seed)).NilChance(0.4).NumElements(0, 2).Funcs(
		func(q *apiresource.Quantity, c randfill.Continue) {
			*q = *apiresource.NewQuantity(c.Int63n(2), apiresource.DecimalSI)
		},
		func(t *metav1.Time, c randfill.Continue) { *t = metav1.Unix(c.Int63n(2), 0) },
		func(f *metav1.FieldsV1, c randfill.Continue) { f.Raw = []byte(`{"f:a":{}}`) },
	).Fill(p)
	return p
}

func text(t *testing.T, p *corev1.Pod) string {
	t.Helper()
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func BenchmarkShare(b *testing.B) {
	for name, again := range map[string]bool{"new": false, "again": true} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			one := templatePod(1)
			for b.Loop() {
				p := one
				if !again {
					b.StopTimer()
					p = one.DeepCopy()
					b.StartTimer()
				}
				Pods.Pack(p, nil, 1)
			}
		})
	}
}
