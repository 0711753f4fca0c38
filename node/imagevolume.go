package node

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// imageVolumes has the images there that the container mounts as volumes (KEP-4639), by the names of the volumes. nil: not yet, look
// again after a while, or when a pull wakes the pod. The runtime mounts them; nothing of them lies in the pod's directory.
func (st *starter) imageVolumes(ctx context.Context, w world, c *corev1.Container) (list map[string]*cri.ImageSpec,
	again time.Duration, err error) {
	list = map[string]*cri.ImageSpec{}
	for i := range c.VolumeMounts {
		src := imageSource(w.pod, c.VolumeMounts[i].Name)
		if src == nil {
			continue
		}
		if err := st.mountsImages(ctx); err != nil {
			again, err := st.images.refuse(w.pod, c.Name, "CreateContainerError", err)
			return nil, again, err
		}
		name := c.VolumeMounts[i].Name
		image, again, err := st.images.pull(ctx, w, wanted{c.Name, name, src.Reference, src.PullPolicy})
		if err != nil || image == "" {
			return nil, again, err
		}
		list[name] = &cri.ImageSpec{Image: image, UserSpecifiedImage: src.Reference}
	}
	return list, 0, nil
}

func imageSource(pod *corev1.Pod, volume string) *corev1.ImageVolumeSource {
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Name == volume {
			return pod.Spec.Volumes[i].Image
		}
	}
	return nil
}

// mountsImages says that the runtime can mount images. An older containerd would look for them on the host instead.
func (st *starter) mountsImages(ctx context.Context) error {
	v, err := st.cfg.Runtime.Containers.Version(ctx, &cri.VersionRequest{})
	if err != nil {
		return fmt.Errorf("ask the runtime for its version: %w", err)
	}
	if v.RuntimeName == "containerd" && olderThan(v.RuntimeVersion, 2, 1) {
		return fmt.Errorf("containerd %s can't mount images as volumes: it takes 2.1 or newer", v.RuntimeVersion)
	}
	return nil
}

// olderThan compares a version like 1.6.20~ds1 or v2.1.0-beta.0. A text that is no version is not older.
func olderThan(version string, major, minor int) bool {
	var a, b int
	if _, err := fmt.Sscanf(strings.TrimPrefix(version, "v"), "%d.%d", &a, &b); err != nil {
		return false
	}
	return a < major || a == major && b < minor
}

// imageMount mounts an image, or a part of it. Nobody can write there, whatever the mount says.
func imageMount(m *corev1.VolumeMount, image *cri.ImageSpec, sub string, throughout bool) *cri.Mount {
	return &cri.Mount{ContainerPath: m.MountPath, Image: image, ImageSubPath: sub, Readonly: true, Propagation: propagation(m),
		RecursiveReadOnly: throughout}
}
