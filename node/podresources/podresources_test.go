package podresources

import (
	"context"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
)

func TestAPI(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	pod := func(name string, phase corev1.PodPhase) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name}, Status: corev1.PodStatus{Phase: phase},
			Spec: corev1.PodSpec{InitContainers: []corev1.Container{{Name: "init"}, {Name: "side", RestartPolicy: &always}},
				Containers: []corev1.Container{{Name: "main"}}}}
	}
	cfg := Config{Dir: t.TempDir(),
		Pods: func() []*corev1.Pod {
			return []*corev1.Pod{pod("runs", corev1.PodRunning), pod("ended", corev1.PodFailed)}
		},
		Of: func(p *corev1.Pod, c *corev1.Container) *podresourcesv1.ContainerResources {
			return &podresourcesv1.ContainerResources{Name: c.Name, CpuIds: []int64{3}}
		},
		All: func() *podresourcesv1.AllocatableResourcesResponse {
			return &podresourcesv1.AllocatableResourcesResponse{CpuIds: []int64{1, 2, 3}}
		}}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- Run(ctx, cfg) }()
	conn, err := grpc.NewClient("unix://"+filepath.Join(cfg.Dir, "pod-resources/kubelet.sock"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := podresourcesv1.NewPodResourcesListerClient(conn)
	list, err := c.List(t.Context(), &podresourcesv1.ListPodResourcesRequest{}, grpc.WaitForReady(true))
	if err != nil || len(list.PodResources) != 1 || list.PodResources[0].Name != "runs" {
		t.Fatalf("List: %v, %v", list, err)
	}
	if k := list.PodResources[0].Containers; len(k) != 2 || k[0].Name != "side" || k[1].Name != "main" || k[1].CpuIds[0] != 3 {
		t.Errorf("containers: %v", k)
	}
	one, err := c.Get(t.Context(), &podresourcesv1.GetPodResourcesRequest{PodName: "runs", PodNamespace: "d"})
	if err != nil || len(one.PodResources.Containers) != 2 {
		t.Errorf("Get: %v, %v", one, err)
	}
	_, err = c.Get(t.Context(), &podresourcesv1.GetPodResourcesRequest{PodName: "ended", PodNamespace: "d"})
	if status.Code(err) != codes.NotFound || status.Convert(err).Message() != "pod ended in namespace d not found" {
		t.Errorf("Get of an ended pod: %v", err)
	}
	if all, err := c.GetAllocatableResources(t.Context(), &podresourcesv1.AllocatableResourcesRequest{}); err != nil || len(all.CpuIds) != 3 {
		t.Errorf("GetAllocatableResources: %v, %v", all, err)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
