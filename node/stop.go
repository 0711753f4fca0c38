package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// kill stops containers that run and shouldn't, side by side.
func (a *Agent) kill(ctx context.Context, pod *corev1.Pod, list []kill) error {
	errs := make([]error, len(list))
	var wg sync.WaitGroup
	for i, k := range list {
		wg.Go(func() {
			a.event(pod, k.c.name, corev1.EventTypeNormal, "Killing", "%s", k.why)
			grace := graceOf(pod, k.grace)
			errs[i] = a.stopOne(ctx, pod, k.spec, k.c, grace)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// stopOne runs the container's pre-stop hook and stops it, both within the grace.
func (a *Agent) stopOne(ctx context.Context, pod *corev1.Pod, spec *corev1.Container, c *container, grace int64) error {
	a.probes.Stop(c.id)
	left := time.Duration(grace) * time.Second
	if spec != nil && spec.Lifecycle != nil && spec.Lifecycle.PreStop != nil && grace > 0 {
		began := time.Now()
		hctx, cancel := context.WithTimeout(ctx, left)
		err := a.hook(hctx, pod, spec, spec.Lifecycle.PreStop, c.id, nil)
		cancel()
		if err != nil {
			a.event(pod, spec.Name, corev1.EventTypeWarning, "FailedPreStopHook", "PreStopHook failed: %v", err)
		}
		left -= time.Since(began)
	}
	const least = 2 * time.Second // even a hook that took all the time leaves this much for a SIGTERM
	return a.stopContainer(ctx, c.id, int64(max(left, least).Round(time.Second)/time.Second))
}

func (a *Agent) stopContainer(ctx context.Context, id string, grace int64) error {
	_, err := a.cfg.Runtime.Containers.StopContainer(ctx, &cri.StopContainerRequest{ContainerId: id, Timeout: grace})
	if err != nil {
		return fmt.Errorf("stop container %s: %w", id, err)
	}
	return nil
}

// stopContainers stops the pod's containers: the main ones side by side, then the sidecars in reverse order, all
// within the grace.
func (a *Agent) stopContainers(ctx context.Context, pod *corev1.Pod, seen sight, grace int64) error {
	end := time.Now().Add(time.Duration(grace) * time.Second)
	var main, side []*container
	for i := range seen.containers {
		c := &seen.containers[i]
		switch {
		case !c.running():
		case specOf(pod, c.name) != nil && slices.ContainsFunc(pod.Spec.InitContainers, func(s corev1.Container) bool { return s.Name == c.name && sidecar(&s) }):
			side = append(side, c)
		default:
			main = append(main, c)
		}
	}
	errs := make([]error, len(main))
	var wg sync.WaitGroup
	for i, c := range main {
		wg.Go(func() {
			a.event(pod, c.name, corev1.EventTypeNormal, "Killing", "Stopping container %s", c.name)
			errs[i] = a.stopOne(ctx, pod, specOf(pod, c.name), c, grace)
		})
	}
	wg.Wait()
	order := func(c *container) int {
		return slices.IndexFunc(pod.Spec.InitContainers, func(s corev1.Container) bool { return s.Name == c.name })
	}
	slices.SortFunc(side, func(x, y *container) int { return order(y) - order(x) })
	for _, c := range side {
		a.event(pod, c.name, corev1.EventTypeNormal, "Killing", "Stopping container %s", c.name)
		errs = append(errs, a.stopOne(ctx, pod, specOf(pod, c.name), c, int64(max(time.Until(end), 0)/time.Second)))
	}
	return errors.Join(errs...)
}

func specOf(pod *corev1.Pod, name string) *corev1.Container {
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		if i := slices.IndexFunc(list, func(c corev1.Container) bool { return c.Name == name }); i >= 0 {
			return &list[i]
		}
	}
	return nil
}

// hookOutput bounds what is kept of a hook's answer.
const hookOutput = 4096

// hook runs a lifecycle handler.
func (a *Agent) hook(ctx context.Context, pod *corev1.Pod, spec *corev1.Container, h *corev1.LifecycleHandler, id string, box *sandbox) error {
	switch {
	case h.Exec != nil:
		code, out, err := a.Exec(ctx, id, h.Exec.Command, 0)
		if err != nil {
			return err
		}
		if code != 0 {
			return fmt.Errorf("command %q exited with %d: %s", h.Exec.Command, code, out)
		}
		return nil
	case h.Sleep != nil:
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(h.Sleep.Seconds) * time.Second):
			return nil
		}
	case h.HTTPGet != nil:
		return a.hookHTTP(ctx, pod, spec, h.HTTPGet, box)
	}
	return errors.New("the hook says nothing to do")
}

func (a *Agent) hookHTTP(ctx context.Context, pod *corev1.Pod, spec *corev1.Container, g *corev1.HTTPGetAction, box *sandbox) error {
	host := g.Host
	if host == "" {
		host = pod.Status.PodIP
		if box != nil && len(box.ips) > 0 {
			host = box.ips[0]
		}
		if pod.Spec.HostNetwork {
			host = a.cfg.Address.String()
		}
	}
	port := g.Port.IntValue()
	if g.Port.Type == intstr.String {
		for _, p := range spec.Ports {
			if p.Name == g.Port.StrVal {
				port = int(p.ContainerPort)
			}
		}
	}
	scheme := strings.ToLower(string(g.Scheme))
	if scheme == "" {
		scheme = "http"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+net.JoinHostPort(host, strconv.Itoa(port))+"/"+strings.TrimPrefix(g.Path, "/"), nil)
	if err != nil {
		return err
	}
	for _, kv := range g.HTTPHeaders {
		req.Header.Add(kv.Name, kv.Value)
	}
	res, err := hookClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, err = io.CopyN(io.Discard, res.Body, hookOutput)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if res.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("the hook's server answered %s", res.Status)
	}
	return nil
}

// Exec runs a command in a container and returns its exit code and output. A timeout of 0 leaves it to ctx.
func (a *Agent) Exec(ctx context.Context, id string, cmd []string, timeout time.Duration) (exit int, out []byte, err error) {
	res, err := a.cfg.Runtime.Containers.ExecSync(ctx, &cri.ExecSyncRequest{ContainerId: id, Cmd: cmd, Timeout: int64((timeout + time.Second - 1) / time.Second)})
	if err != nil {
		return 0, nil, err
	}
	both := bytes.TrimSpace(append(res.Stdout, res.Stderr...))
	return int(res.ExitCode), both[:min(len(both), hookOutput)], nil
}

func deleteNow(uid types.UID, grace *int64) *metav1.DeleteOptions {
	return &metav1.DeleteOptions{GracePeriodSeconds: grace, Preconditions: &metav1.Preconditions{UID: &uid}}
}
