package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/node/pressure"
)

// How often the node looks for pressure, as the kubelet, and for images that nobody uses.
const (
	pressureEvery = 10 * time.Second
	imagesEvery   = 5 * time.Minute
)

// A watcher keeps the node from running out of memory, disk and process numbers: it sets the pressure conditions, removes images that
// nobody uses, and has one pod at a time end (node-pressure eviction).
type watcher struct {
	*common
	evict *evictor
	node  *nodeStatus

	tracker    pressure.Tracker
	conditions pressure.Conditions
	images     imageUses
	imagefs    string    // a directory on the disk of images; "": not known yet
	collected  time.Time // when images were last looked at
}

// run looks until ctx ends.
func (w *watcher) run(ctx context.Context) {
	for {
		if err := w.pass(ctx, time.Now()); err != nil && ctx.Err() == nil {
			w.log.Warn("keep the node from running out of memory and disk", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pressureEvery):
		}
	}
}

// pass looks once. What fails keeps nothing else from being done: the runtime and the API may not answer just because the node is short of
// something.
func (w *watcher) pass(ctx context.Context, now time.Time) error {
	errs := []error{w.limits(ctx)}
	readings := w.read(ctx) // observe
	met := w.tracker.Observe(w.cfg.Eviction, readings, now)
	w.conditions.Update(now, met)
	errs = append(errs, w.tell(ctx, w.conditions.True(now, cmp.Or(w.cfg.EvictionTransition, pressure.Transition))))
	crossed := w.tracker.Due(met, now)
	if len(crossed) > 0 {
		w.nodeEvent(corev1.EventTypeWarning, "EvictionThresholdMet", "Attempting to reclaim %s", crossed[0].Signal.Starved())
	}
	if now.Sub(w.collected) >= imagesEvery || diskShort(crossed) {
		errs = append(errs, w.collect(ctx, now, readings, diskShort(crossed)))
		if w.collected = now; diskShort(crossed) {
			readings = w.read(ctx)
			crossed = w.tracker.Due(w.tracker.Observe(w.cfg.Eviction, readings, now), now)
		}
	}
	if len(crossed) > 0 && !w.ending(now) {
		errs = append(errs, w.reclaim(ctx, crossed[0], readings)) // decide, act
	}
	return errors.Join(errs...)
}

func diskShort(crossed []pressure.Threshold) bool {
	return slices.ContainsFunc(crossed, func(t pressure.Threshold) bool { return t.Signal.Condition() == corev1.NodeDiskPressure })
}

// read asks the machine what is left.
func (w *watcher) read(ctx context.Context) map[pressure.Signal]pressure.Reading {
	if w.imagefs == "" {
		if res, err := w.cfg.Runtime.Images.ImageFsInfo(ctx, &cri.ImageFsInfoRequest{}); err == nil {
			for _, fs := range res.ImageFilesystems {
				w.imagefs = fs.GetFsId().GetMountpoint()
			}
		}
	}
	return w.cfg.left(w.cfg.Dir, w.imagefs)
}

// ending says that a pod that has to go is still there: what it frees is not known yet. One that does not end is not waited for.
func (w *watcher) ending(now time.Time) bool {
	for _, p := range w.pods() {
		if v := w.evict.get(p.UID); v != nil && !core.Terminal(p) && now.Before(v.until) {
			return true
		}
	}
	return false
}

// tell sets the conditions of the Node, and lets no pods in that they keep out.
func (w *watcher) tell(ctx context.Context, short []corev1.NodeConditionType) error {
	before := w.evict.shortage(short)
	if slices.Equal(before, short) {
		return nil
	}
	for _, c := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		if is := slices.Contains(short, c); is != slices.Contains(before, c) {
			p := pressureTexts[c]
			reason := "NodeHas" + strings.TrimPrefix(p.calm, "KubeletHas")
			if is {
				reason = "NodeHas" + strings.TrimPrefix(p.pressed, "KubeletHas")
			}
			w.nodeEvent(corev1.EventTypeNormal, reason, "Node %s status is now: %s", w.cfg.Name, reason)
		}
	}
	return w.node.writeStatus(ctx)
}

// reclaim has the pod end whose end helps most.
func (w *watcher) reclaim(ctx context.Context, t pressure.Threshold, readings map[pressure.Signal]pressure.Reading) error {
	pods, err := w.uses(ctx, t.Signal.Condition() == corev1.NodeDiskPressure)
	if err != nil {
		return err
	}
	pressure.Rank(t.Signal.Starved(), pods)
	for _, u := range pods {
		text := pressure.Text(t, readings[t.Signal], u)
		if w.end(u.Pod, &eviction{message: text, grace: w.graceOf(u.Pod, t), disruption: text}) {
			w.meter.Evicted(string(t.Signal))
			return nil
		}
	}
	w.log.Warn("no pod is left that could be evicted", "signal", t.Signal)
	return nil
}

// hardGrace is the time of a pod that goes at once, in seconds.
const hardGrace = 1

// graceOf is the number of seconds that a pod has to end: with a soft threshold its own time, as far as the node lets it.
func (w *watcher) graceOf(p *corev1.Pod, t pressure.Threshold) int64 {
	if t.Grace == 0 {
		return hardGrace
	}
	return max(min(graceOf(p, nil), w.cfg.EvictionMaxGrace), hardGrace)
}

// end evicts a pod. false: it is going already.
func (w *watcher) end(p *corev1.Pod, v *eviction) bool {
	v.reason = "Evicted"
	if !w.evict.put(p, v) {
		return false
	}
	w.event(p, "", corev1.EventTypeWarning, v.reason, "%s", v.message)
	return true
}

// uses asks what the pods use that may be evicted: neither static nor critical ones. Local volumes are only looked at for the disk.
func (w *watcher) uses(ctx context.Context, disk bool) (list []pressure.Use, err error) {
	res, err := w.cfg.Runtime.Containers.ListContainerStats(ctx, &cri.ListContainerStatsRequest{})
	if err != nil {
		return nil, fmt.Errorf("ask the runtime what containers use: %w", err)
	}
	of := map[string]map[string]map[corev1.ResourceName]int64{}
	for _, s := range res.Stats {
		l := s.GetAttributes().GetLabels()
		uid, name := l[labelUID], l[labelContainer]
		if of[uid] == nil {
			of[uid] = map[string]map[corev1.ResourceName]int64{}
		}
		of[uid][name] = map[corev1.ResourceName]int64{
			corev1.ResourceMemory:           int64(s.GetMemory().GetWorkingSetBytes().GetValue()),
			corev1.ResourceEphemeralStorage: int64(s.GetWritableLayer().GetUsedBytes().GetValue()),
			"inodes":                        int64(s.GetWritableLayer().GetInodesUsed().GetValue()),
		}
	}
	for _, p := range w.pods() {
		if critical(p) || core.Terminal(p) || p.DeletionTimestamp != nil || w.evict.get(p.UID) != nil {
			continue
		}
		u := pressure.Use{Pod: p, Containers: of[string(p.UID)], Volumes: map[corev1.ResourceName]int64{}}
		if disk {
			w.walk(&u)
		}
		list = append(list, u)
	}
	return list, nil
}

// walk adds what a pod's emptyDirs and logs use, and returns the bytes of each emptyDir.
func (w *watcher) walk(u *pressure.Use) map[string]int64 {
	volumes := map[string]int64{}
	for i := range u.Pod.Spec.Volumes {
		v := &u.Pod.Spec.Volumes[i]
		if v.EmptyDir == nil || v.EmptyDir.Medium != "" {
			continue
		}
		size, files := pressure.Walk(filepath.Join(w.podDir(u.Pod.UID), "volumes", "kubernetes.io~empty-dir", v.Name))
		volumes[v.Name] = size
		u.Volumes[corev1.ResourceEphemeralStorage] += size
		u.Volumes["inodes"] += files
	}
	size, files := pressure.Walk(w.logDir(u.Pod))
	u.Volumes[corev1.ResourceEphemeralStorage] += size
	u.Volumes["inodes"] += files
	return volumes
}

// limits ends pods that use more of the disk than their own limits say, whether the node is short of it or not.
func (w *watcher) limits(ctx context.Context) error {
	if !slices.ContainsFunc(w.pods(), limitsDisk) {
		return nil
	}
	pods, err := w.uses(ctx, false)
	if err != nil {
		return err
	}
	for _, u := range pods {
		if limitsDisk(u.Pod) {
			if text := pressure.Exceeds(u, w.walk(&u)); text != "" {
				if w.end(u.Pod, &eviction{message: text, grace: hardGrace}) { // its own fault: it is not disrupted
					w.meter.Evicted(limitSignal(text))
				}
			}
		}
	}
	return nil
}

// limitSignal is the kubelet's name for the limit that a pod exceeded.
func limitSignal(text string) string {
	switch {
	case strings.HasPrefix(text, "Usage of EmptyDir"):
		return "emptydirfs.limit"
	case strings.HasPrefix(text, "Pod"):
		return "ephemeralpodfs.limit"
	}
	return "ephemeralcontainerfs.limit"
}

// limitsDisk says that a pod bounds what it may use of the disk.
func limitsDisk(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
		return v.EmptyDir != nil && v.EmptyDir.Medium == "" && v.EmptyDir.SizeLimit != nil
	}) || slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool {
		_, ok := c.Resources.Limits[corev1.ResourceEphemeralStorage]
		return ok
	})
}
