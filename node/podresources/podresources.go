// Package podresources serves the API podresources/v1 (KEP-2043, KEP-3695): monitors of devices ask it which container has which
// devices, CPUs and memory.
package podresources

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/podspec"
)

// Config holds what the API answers from. The functions are called from any goroutine.
type Config struct {
	Dir  string               // the agent's root directory; the socket is DIR/pod-resources/kubelet.sock
	Pods func() []*corev1.Pod // of the node, those that ended too
	// Of tells what a container has for itself.
	Of func(pod *corev1.Pod, c *corev1.Container) *podresourcesv1.ContainerResources
	// All tells what there is on the node for containers to have.
	All func() *podresourcesv1.AllocatableResourcesResponse
}

// maxCalls bounds how many calls of one caller run at once.
const maxCalls = 16

// Run answers until ctx ends.
func Run(ctx context.Context, cfg Config) error {
	dir := filepath.Join(cfg.Dir, "pod-resources")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("make the directory of the pod resources API: %w", err)
	}
	socket := filepath.Join(dir, "kubelet.sock")
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the socket of the agent before: %w", err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("listen for the pod resources API: %w", err)
	}
	srv := grpc.NewServer(grpc.MaxConcurrentStreams(maxCalls))
	podresourcesv1.RegisterPodResourcesListerServer(srv, &lister{cfg: cfg})
	defer context.AfterFunc(ctx, srv.Stop)()
	if err := srv.Serve(l); err != nil && ctx.Err() == nil {
		return fmt.Errorf("serve the pod resources API: %w", err)
	}
	return nil
}

type lister struct {
	podresourcesv1.UnimplementedPodResourcesListerServer
	cfg Config
}

// List tells of all pods that have not ended.
func (l *lister) List(context.Context, *podresourcesv1.ListPodResourcesRequest) (*podresourcesv1.ListPodResourcesResponse, error) {
	res := &podresourcesv1.ListPodResourcesResponse{}
	for _, p := range l.cfg.Pods() {
		if !core.Terminal(p) {
			res.PodResources = append(res.PodResources, l.of(p))
		}
	}
	return res, nil
}

// Get tells of one pod.
func (l *lister) Get(_ context.Context, r *podresourcesv1.GetPodResourcesRequest) (*podresourcesv1.GetPodResourcesResponse, error) {
	for _, p := range l.cfg.Pods() {
		if p.Name == r.PodName && p.Namespace == r.PodNamespace && !core.Terminal(p) {
			return &podresourcesv1.GetPodResourcesResponse{PodResources: l.of(p)}, nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "pod %s in namespace %s not found", r.PodName, r.PodNamespace)
}

// GetAllocatableResources tells what there is, whoever has it.
func (l *lister) GetAllocatableResources(context.Context, *podresourcesv1.AllocatableResourcesRequest) (
	*podresourcesv1.AllocatableResourcesResponse, error) {
	return l.cfg.All(), nil
}

// of tells of a pod's containers that stay: sidecars and main ones.
func (l *lister) of(p *corev1.Pod) *podresourcesv1.PodResources {
	res := &podresourcesv1.PodResources{Name: p.Name, Namespace: p.Namespace}
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		if podspec.Sidecar(c) {
			res.Containers = append(res.Containers, l.cfg.Of(p, c))
		}
	}
	for i := range p.Spec.Containers {
		res.Containers = append(res.Containers, l.cfg.Of(p, &p.Spec.Containers[i]))
	}
	return res
}
