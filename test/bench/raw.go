package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kloop-dev/kloop/node/image"
	"github.com/kloop-dev/kloop/node/runtime"
)

// raw starts pods without kloop: by the calls that an agent can't do without, one after the other, and nothing else.
type raw struct {
	*runtime.Runtime
	dir string
}

// run starts a pod of one container and returns how long that took, from the first call until the runtime says that it runs.
func (r *raw) run(ctx context.Context, i int) (box string, took time.Duration, err error) {
	began := time.Now()
	name := fmt.Sprintf("raw-%d", i)
	linux := &cri.LinuxSandboxSecurityContext{NamespaceOptions: &cri.NamespaceOption{Pid: cri.NamespaceMode_CONTAINER},
		Seccomp: &cri.SecurityProfile{ProfileType: cri.SecurityProfile_RuntimeDefault}}
	conf := &cri.PodSandboxConfig{Metadata: &cri.PodSandboxMetadata{Name: name, Uid: name, Namespace: "raw"}, Hostname: name,
		LogDirectory: filepath.Join(r.dir, "logs", name), DnsConfig: &cri.DNSConfig{Servers: []string{"10.96.0.10"}},
		Linux: &cri.LinuxPodSandboxConfig{CgroupParent: "/" + filepath.Base(r.dir) + "/" + name, SecurityContext: linux}}
	if err := os.MkdirAll(filepath.Join(conf.LogDirectory, "c"), 0o755); err != nil {
		return "", 0, err
	}
	made, err := r.Containers.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: conf})
	if err != nil {
		return "", 0, err
	}
	c, err := r.Containers.CreateContainer(ctx, &cri.CreateContainerRequest{PodSandboxId: made.PodSandboxId, SandboxConfig: conf,
		Config: &cri.ContainerConfig{Metadata: &cri.ContainerMetadata{Name: "c"}, Image: &cri.ImageSpec{Image: image.PauseRef},
			LogPath: "c/0.log",
			Linux: &cri.LinuxContainerConfig{SecurityContext: &cri.LinuxContainerSecurityContext{NamespaceOptions: linux.NamespaceOptions,
				Seccomp: linux.Seccomp}}}})
	if err != nil {
		return made.PodSandboxId, 0, err
	}
	if _, err := r.Containers.StartContainer(ctx, &cri.StartContainerRequest{ContainerId: c.ContainerId}); err != nil {
		return made.PodSandboxId, 0, err
	}
	s, err := r.Containers.ContainerStatus(ctx, &cri.ContainerStatusRequest{ContainerId: c.ContainerId})
	if err == nil && s.Status.State != cri.ContainerState_CONTAINER_RUNNING {
		err = fmt.Errorf("the container is %s", s.Status.State)
	}
	return made.PodSandboxId, time.Since(began), err
}

func (r *raw) remove(ctx context.Context, box string) error {
	_, err1 := r.Containers.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: box})
	_, err2 := r.Containers.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: box})
	return errors.Join(err1, err2)
}

// many starts n pods at once, calls running, then removes them, and returns how long it took until all ran, and until all were gone.
func (r *raw) many(ctx context.Context, n int, running func()) (up, down time.Duration, err error) {
	type one struct {
		box string
		err error
	}
	all := make(chan one, n)
	began := time.Now()
	for i := range n {
		go func() {
			box, _, err := r.run(ctx, i)
			all <- one{box, err}
		}()
	}
	var boxes []string
	for range n {
		o := <-all
		boxes, err = append(boxes, o.box), errors.Join(err, o.err)
	}
	up = time.Since(began)
	running()
	began = time.Now()
	gone := make(chan error, n)
	for _, b := range boxes {
		go func() {
			if b == "" {
				gone <- nil
				return
			}
			gone <- r.remove(ctx, b)
		}()
	}
	for range n {
		err = errors.Join(err, <-gone)
	}
	return up, time.Since(began), err
}
