package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kloop-dev/kloop/node/probe"
	"github.com/kloop-dev/kloop/node/volume"
)

// A cleaner removes what pods leave behind: containers, volumes, files, logs and cgroups.
type cleaner struct {
	*common
	boxes  *sandboxes
	images *puller
	probes *probe.Set
	stop   *stopper
	vols   *volume.Mounter
	evict  *evictor
	users  *userRanges
	alloc  *allocations
	kick   chan struct{} // look for what pods left now
}

// drop removes a container with its log and last words.
func (cl *cleaner) drop(ctx context.Context, pod *corev1.Pod, k *container) error {
	if err := cl.boxes.removeContainer(ctx, k.id); err != nil {
		return err
	}
	if err := cl.unlinkLog(k.id); err != nil {
		return err
	}
	rotated, err := filepath.Glob(k.log + "*")
	if err != nil || k.log == "" {
		rotated = nil
	}
	for _, path := range append(rotated, cl.lastWords(pod, k.name, k.restarts)) {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove the traces of container %s: %w", k.name, err)
		}
	}
	return nil
}

// clean removes the pod's containers, sandboxes, volumes and cgroup.
func (cl *cleaner) clean(ctx context.Context, seen runtimeState, uid types.UID) error {
	if err := cl.boxes.removeAll(ctx, seen); err != nil {
		return err
	}
	return cl.removeTraces(ctx, uid)
}

// remove stops and removes whatever the runtime has, at once.
func (cl *cleaner) remove(ctx context.Context, seen runtimeState) error {
	uids := map[types.UID]bool{}
	for i := range seen.containers {
		k := &seen.containers[i]
		uids[k.uid] = true
		if k.mayRun() {
			if err := cl.stop.stopContainer(ctx, k.id, 2); err != nil {
				return err
			}
		}
	}
	for _, b := range seen.sandboxes {
		uids[b.uid] = true
		if err := cl.boxes.stopSandbox(ctx, b.id); err != nil {
			return err
		}
	}
	if err := cl.boxes.removeAll(ctx, seen); err != nil {
		return err
	}
	for uid := range uids {
		if err := cl.removeTraces(ctx, uid); err != nil {
			return err
		}
	}
	return nil
}

// removeTraces forgets a pod that has no containers any more, and removes what it has on this machine. Its directory goes last: sweep
// finds by it what an agent that was killed half way has left.
func (cl *cleaner) removeTraces(ctx context.Context, uid types.UID) error {
	cl.backoff.forget(uid)
	cl.images.forget(uid)
	cl.probes.StopPod(uid)
	cl.stop.forget(uid)
	cl.evict.forget(uid)
	cl.alloc.forget(uid)
	cl.meter.Forget(uid)
	cl.hardware.free(uid)
	if err := cl.hardware.claims.Unprepare(ctx, uid); err != nil {
		return err
	}
	if err := cl.vols.Remove(ctx, uid); err != nil {
		return err
	}
	if err := cl.cgroups.Remove(uid); err != nil {
		return err
	}
	logs, err := os.ReadDir(cl.cfg.LogDir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("look for the pod's logs: %w", err)
	}
	dirs := []string{cl.podDir(uid)}
	for _, e := range logs {
		if strings.HasSuffix(e.Name(), "_"+string(uid)) {
			dirs = append([]string{filepath.Join(cl.cfg.LogDir, e.Name())}, dirs...)
		}
	}
	for _, dir := range dirs {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove the pod's files: %w", err)
		}
	}
	cl.users.forget(uid) // with its file
	return cl.unlinkLogs()
}

// sweep removes the traces of pods that are neither in the API nor in the runtime: they were removed by force, perhaps while no agent
// ran.
func (cl *cleaner) sweep(ctx context.Context) error {
	dirs, err := os.ReadDir(filepath.Join(cl.cfg.Dir, "pods"))
	if errors.Is(err, os.ErrNotExist) {
		return nil // there never was a pod
	}
	if err != nil {
		return fmt.Errorf("look for pods that are gone: %w", err)
	}
	used := map[types.UID]bool{}
	boxes, err := cl.cfg.Runtime.Containers.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	if err != nil {
		return err
	}
	for _, b := range boxes.Items {
		used[types.UID(b.Labels[labelUID])] = true
	}
	for _, p := range cl.pods() {
		used[p.UID] = true
	}
	cl.alloc.keep(used)
	cl.patience.keep(used)
	cl.hardware.keep(used)
	errs := []error{cl.unlinkLogs(), cl.hardware.claims.Sweep(ctx, used)}
	for _, e := range dirs {
		if uid := types.UID(e.Name()); !used[uid] {
			errs = append(errs, cl.removeTraces(ctx, uid))
		}
	}
	errs = append(errs, cl.vols.CSI().Sweep(ctx))
	return errors.Join(errs...)
}
