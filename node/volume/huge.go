package volume

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/resource"
)

// hugePages is the size in bytes of the pages that an emptyDir of such a medium has: the one that the medium names, or the only one that
// the pod's containers request. A size that no container requests is refused: the kernel would let no process use a page of it.
func hugePages(medium corev1.StorageMedium, pod *corev1.Pod) (int64, error) {
	requested := map[int64]bool{}
	note := func(r corev1.ResourceRequirements) {
		for name := range r.Requests {
			text, ok := strings.CutPrefix(string(name), corev1.ResourceHugePagesPrefix)
			if size, err := resource.ParseQuantity(text); ok && err == nil {
				requested[size.Value()] = true
			}
		}
	}
	for _, c := range pod.Spec.InitContainers {
		note(c.Resources)
	}
	for _, c := range pod.Spec.Containers {
		note(c.Resources)
	}
	if pod.Spec.Resources != nil {
		note(*pod.Spec.Resources)
	}
	if medium != corev1.StorageMediumHugePages {
		size, err := resource.ParseQuantity(strings.TrimPrefix(string(medium), string(corev1.StorageMediumHugePagesPrefix)))
		if err != nil {
			return 0, fmt.Errorf("medium %q: %w", medium, err)
		}
		if !requested[size.Value()] {
			return 0, fmt.Errorf("medium %q: no container requests huge pages of this size", medium)
		}
		return size.Value(), nil
	}
	switch len(requested) {
	case 0:
		return 0, errors.New("medium HugePages: no container requests huge pages")
	case 1:
		for size := range requested {
			return size, nil
		}
	}
	return 0, errors.New("medium HugePages: containers request huge pages of several sizes; name one, as HugePages-2Mi")
}
