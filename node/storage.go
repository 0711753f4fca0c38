package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/node/csi"
	"github.com/kloop-dev/kloop/node/plugins"
)

// attachNote says that the loop attach-detach attaches the node's volumes, and the agent waits for it.
const attachNote = "volumes.kubernetes.io/controller-managed-attach-detach"

// How often a pod looks for a volume that is not there yet if nothing wakes it, and how often what pods left is looked for.
const (
	volumeWait = 5 * time.Second
	sweepEvery = time.Minute
)

// runPlugins registers the drivers beside the agent until ctx ends.
func (a *Agent) runPlugins(ctx context.Context) {
	handlers := map[string]plugins.Handler{plugins.CSI: a.vols.CSI().Drivers, plugins.DRA: a.hardware.claims,
		plugins.Device: a.hardware.devices.Handler()}
	if err := plugins.Run(ctx, plugins.Config{Dir: a.cfg.Dir, Handlers: handlers, Log: a.log}); err != nil && ctx.Err() == nil {
		a.log.Error("no driver can register here", "err", err)
	}
}

// runSweep removes what pods left that are gone, and unstages their volumes, until ctx ends. A driver that hangs delays nothing else.
func (a *Agent) runSweep(ctx context.Context) {
	for {
		if err := a.clean.sweep(ctx); err != nil && ctx.Err() == nil {
			a.log.Warn("remove the files of pods that are gone", "again", sweepEvery, "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-a.clean.kick:
		case <-time.After(sweepEvery):
		}
	}
}

// driverCame wakes the pods that have volumes of drivers, and what still has to be unmounted.
func (a *Agent) driverCame() {
	select {
	case a.clean.kick <- struct{}{}:
	default: // it is to look anyhow
	}
	for _, p := range a.pods() {
		if driven(p) {
			a.wake(p.Namespace, p.Name, "a CSI driver registered")
		}
	}
}

// driven says that a pod may have volumes of CSI drivers.
func driven(p *corev1.Pod) bool {
	return len(core.ClaimNames(p)) > 0 || slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.CSI != nil })
}

// mount makes the pod's volumes. ok: they are there; else something has to come first, which is noted for those who ask why, or the
// pod ends because the node has no room for one of them.
func (a *Agent) mount(ctx context.Context, c *loop.Ctx, w world) (mounts map[string]string, ok bool, err error) {
	mounts, err = a.prepare(ctx, w.pod)
	var full *csi.FullError
	switch {
	case csi.IsWaiting(err):
		c.Waiting("%v", err)
		return nil, false, nil
	case errors.As(err, &full):
		err = reported(a.reject(ctx, c, w, &Rejection{"VolumeAttachmentLimitExceeded", fmt.Sprintf("Node has reached its volume attachment "+
			"limit, rejecting pod. unmounted volumes=[%s], unattached volumes=[%[1]s], failed to process volumes=[]: %v", full.Volume, full)}))
	}
	return mounts, err == nil, err
}
