package node

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/node/image"
	"github.com/kloop-dev/kloop/node/pressure"
	"github.com/kloop-dev/kloop/node/runtime"
)

// imageUses remembers when images came and when a container had them last, by their ids. An agent that starts anew counts anew.
type imageUses map[string]*pressure.Image

// note looks at what there is, and forgets what is gone.
func (u *imageUses) note(images []*cri.Image, containers []*cri.Container, pods []*corev1.Pod, now time.Time) (list []pressure.Image) {
	used := map[string]bool{image.PauseRef: true} // no container has it: it is the sandboxes', and nothing starts without
	for _, c := range containers {
		used[c.ImageId], used[c.ImageRef], used[c.GetImage().GetImage()] = true, true, true
	}
	for _, p := range pods {
		for i := range p.Spec.Volumes {
			if v := p.Spec.Volumes[i].Image; v != nil && !core.Terminal(p) {
				name, _ := runtime.FullName(v.Reference) // of what is no name there is no image
				used[name] = true
			}
		}
	}
	next := imageUses{}
	for _, i := range images {
		known := (*u)[i.Id]
		if known == nil {
			known = &pressure.Image{ID: i.Id, Seen: now}
		}
		known.Bytes = int64(i.Size)
		inUse := used[i.Id]
		for _, name := range slices.Concat(i.RepoTags, i.RepoDigests) {
			inUse = inUse || used[name]
		}
		if inUse {
			known.Active = now
		}
		known.Kept = inUse || i.Pinned
		next[i.Id] = known
		list = append(list, *known)
	}
	*u = next
	return list
}

// collect removes images that no container has: all that the node may remove when its disk is short, else those that bring the disk
// of images back under its mark.
func (w *watcher) collect(ctx context.Context, now time.Time, readings map[pressure.Signal]pressure.Reading, short bool) error {
	images, err := w.cfg.Runtime.Images.ListImages(ctx, &cri.ListImagesRequest{})
	if err != nil {
		return fmt.Errorf("list the images: %w", err)
	}
	containers, err := w.cfg.Runtime.Containers.ListContainers(ctx, &cri.ListContainersRequest{})
	if err != nil {
		return fmt.Errorf("list the containers: %w", err)
	}
	list := w.images.note(images.Images, containers.Containers, w.pods(), now)
	var ids []string
	for _, i := range list {
		ids = append(ids, i.ID)
	}
	if err := w.pulled.Prune(ids, now); err != nil {
		w.log.Warn("forget images that are gone", "err", err)
	}
	if age := w.cfg.ImageMaxAge; age > 0 {
		idle := pressure.Idle(list, age, now)
		w.removeImages(ctx, idle)
		list = slices.DeleteFunc(list, func(i pressure.Image) bool { return slices.Contains(idle, i) })
	}
	disk := readings[pressure.ImagefsAvailable]
	want := pressure.Excess(disk, w.cfg.ImageGCHigh, w.cfg.ImageGCLow)
	if short {
		want = disk.Capacity
	}
	if want <= 0 {
		return nil
	}
	freed := w.removeImages(ctx, pressure.Unused(list, want, cmp.Or(w.cfg.ImageAge, pressure.ImageAge), now))
	if !short && freed < want {
		w.nodeEvent(corev1.EventTypeWarning, "FreeDiskSpaceFailed", "Failed to garbage collect required amount of images. "+
			"Attempted to free %d bytes, but only found %d bytes eligible to free.", want, freed)
	}
	return nil
}

// removeImages returns how many bytes became free.
func (w *watcher) removeImages(ctx context.Context, list []pressure.Image) (freed int64) {
	for _, i := range list {
		if _, err := w.cfg.Runtime.Images.RemoveImage(ctx, &cri.RemoveImageRequest{Image: &cri.ImageSpec{Image: i.ID}}); err != nil {
			w.log.Warn("remove an image that nobody uses", "image", i.ID, "err", err)
			continue
		}
		w.log.Info("removed an image that nobody uses", "image", i.ID, "bytes", i.Bytes)
		freed += i.Bytes
	}
	return freed
}
