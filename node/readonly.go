package node

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// noteReadOnly is the annotation of a container that lists, by their paths and with colons, its mounts that are read-only with all that is
// mounted below (KEP-3857): it depends on the runtime, and the status tells of it.
const noteReadOnly = "kloop.dev/read-only-throughout"

// readOnlyThroughout says whether a mount is to be read-only with all that is mounted below, and refuses one that must be so and can't.
func (sb *sandboxes) readOnlyThroughout(ctx context.Context, pod *corev1.Pod, m *corev1.VolumeMount) (bool, error) {
	if m.RecursiveReadOnly == nil || *m.RecursiveReadOnly == corev1.RecursiveReadOnlyDisabled {
		return false, nil
	}
	handler, err := sb.handler(ctx, pod)
	if err != nil {
		return false, err
	}
	can, err := sb.features(ctx, handler)
	if err != nil {
		return false, fmt.Errorf("ask the runtime for recursive read-only mounts: %w", err)
	}
	if !can.GetRecursiveReadOnlyMounts() && *m.RecursiveReadOnly == corev1.RecursiveReadOnlyEnabled {
		return false, fmt.Errorf("failed to resolve recursive read-only mode: volume %q requested recursive read-only mode, "+
			"but it is not supported by the runtime", m.Name)
	}
	return can.GetRecursiveReadOnlyMounts(), nil
}

// noteThroughout writes down which mounts of a container are read-only throughout.
func noteThroughout(conf *cri.ContainerConfig) {
	var paths []string
	for _, m := range conf.Mounts {
		if m.RecursiveReadOnly {
			paths = append(paths, m.ContainerPath)
		}
	}
	if len(paths) > 0 {
		conf.Annotations[noteReadOnly] = strings.Join(paths, ":")
	}
}

// mountStatuses are the mounts of a container, which has the notes if it was made.
func mountStatuses(spec *corev1.Container, notes map[string]string) (list []corev1.VolumeMountStatus) {
	throughout := strings.Split(notes[noteReadOnly], ":")
	for _, m := range spec.VolumeMounts {
		s := corev1.VolumeMountStatus{Name: m.Name, MountPath: m.MountPath, ReadOnly: m.ReadOnly}
		if m.ReadOnly {
			s.RecursiveReadOnly = new(corev1.RecursiveReadOnlyDisabled)
			if slices.Contains(throughout, m.MountPath) {
				s.RecursiveReadOnly = new(corev1.RecursiveReadOnlyEnabled)
			}
		}
		list = append(list, s)
	}
	return list
}
