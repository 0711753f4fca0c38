package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kloop-dev/kloop/kinds/podspec"
)

// kill stops containers that run and shouldn't, side by side, and waits no longer than until the pod as a whole is to end.
func (sp *stopper) kill(ctx context.Context, pod *corev1.Pod, list []kill) error {
	if len(list) == 0 {
		return nil
	}
	ctx, done := sp.patience.begin(ctx, pod.UID)
	defer done()
	errs := make([]error, len(list))
	var wg sync.WaitGroup
	for i, k := range list {
		wg.Go(func() {
			sp.event(pod, k.c.name, corev1.EventTypeNormal, "Killing", "%s", k.why)
			errs[i] = sp.stopOne(ctx, pod, k.spec, k.c, graceOf(pod, k.grace), nil)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// stopOne runs the container's pre-stop hook, waits until those have ended that end before it, and stops it, all within the grace.
func (sp *stopper) stopOne(ctx context.Context, pod *corev1.Pod, spec *corev1.Container, c *container, grace int64,
	before []chan struct{}) error {
	sp.probes.Stop(c.id)
	end := time.Now().Add(time.Duration(grace) * time.Second)
	within, cancel := context.WithDeadline(ctx, end)
	if spec != nil && spec.Lifecycle != nil && spec.Lifecycle.PreStop != nil && grace > 0 {
		if err := sp.hook(within, pod, spec, spec.Lifecycle.PreStop, c.id, nil); err != nil {
			sp.event(pod, spec.Name, corev1.EventTypeWarning, "FailedPreStopHook", "PreStopHook failed") // why may be secret
		}
	}
	for _, ended := range before {
		select {
		case <-ended:
		case <-within.Done():
		}
	}
	cancel()
	const least = 2 * time.Second // even a hook that took all the time leaves this much for a SIGTERM
	err := sp.stopContainer(ctx, c.id, int64(max(time.Until(end), least).Round(time.Second)/time.Second))
	if err == nil {
		sp.probes.End(c.id)
	}
	return err
}

func (sp *stopper) stopContainer(ctx context.Context, id string, grace int64) error {
	_, err := sp.cfg.Runtime.Containers.StopContainer(ctx, &cri.StopContainerRequest{ContainerId: id, Timeout: grace})
	if err != nil && !absent(err) {
		return fmt.Errorf("stop container %s: %w", id, err)
	}
	return nil
}

// stopContainers stops the pod's containers: the main ones side by side, then the sidecars in reverse order, all within the grace. All
// pre-stop hooks run at once.
func (sp *stopper) stopContainers(ctx context.Context, pod *corev1.Pod, seen runtimeState, grace int64) error {
	turn := func(c *container) int { // main containers have the first
		i := slices.IndexFunc(pod.Spec.InitContainers, func(s corev1.Container) bool { return s.Name == c.name && podspec.Sidecar(&s) })
		if i < 0 {
			return 0
		}
		return len(pod.Spec.InitContainers) - i
	}
	var list []*container
	var ended []chan struct{}
	for i := range seen.containers {
		if c := &seen.containers[i]; c.mayRun() {
			list, ended = append(list, c), append(ended, make(chan struct{}))
		}
	}
	slices.SortStableFunc(list, func(x, y *container) int { return turn(x) - turn(y) })
	errs := make([]error, len(list))
	var wg sync.WaitGroup
	for i, c := range list {
		before := ended[:i]
		if turn(c) == 0 {
			before = nil
		}
		wg.Go(func() {
			defer close(ended[i])
			sp.event(pod, c.name, corev1.EventTypeNormal, "Killing", "Stopping container %s", c.name)
			errs[i] = sp.stopOne(ctx, pod, specOf(pod, c.name), c, grace, before)
		})
	}
	wg.Wait()
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

func deleteNow(uid types.UID, grace *int64) *metav1.DeleteOptions {
	return &metav1.DeleteOptions{GracePeriodSeconds: grace, Preconditions: &metav1.Preconditions{UID: &uid}}
}
