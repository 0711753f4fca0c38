package volume

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/podspec"
)

func (f *filling) downward(ctx context.Context, items []corev1.DownwardAPIVolumeFile, mode fs.FileMode) error {
	for _, it := range items {
		var text string
		var err error
		switch {
		case it.FieldRef != nil:
			text, err = fieldText(f.pod, it.FieldRef.FieldPath)
		case it.ResourceFieldRef != nil:
			text, err = f.resourceText(ctx, it.ResourceFieldRef)
		}
		if err != nil {
			return err
		}
		m := mode
		if it.Mode != nil {
			m = modeOf(it.Mode)
		}
		f.files[it.Path] = file{data: []byte(text), mode: m, user: -1}
	}
	return nil
}

// fieldText is a field of the pod as a file shows it.
func fieldText(pod *corev1.Pod, path string) (string, error) {
	for _, m := range []struct {
		name   string
		values map[string]string
	}{{"metadata.labels", pod.Labels}, {"metadata.annotations", pod.Annotations}} {
		if path == m.name {
			return mapText(m.values), nil
		}
		if key, ok := strings.CutPrefix(path, m.name+"['"); ok {
			return m.values[strings.TrimSuffix(key, "']")], nil
		}
	}
	switch path {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	}
	return "", fmt.Errorf("field %q is not supported in volumes", path)
}

func mapText(m map[string]string) string {
	var lines []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		lines = append(lines, k+"="+strconv.Quote(m[k]))
	}
	return strings.Join(lines, "\n")
}

// resourceText is a request or limit of a container, in units of the divisor and rounded up. A limit that is not
// set returns the node's amount.
func (f *filling) resourceText(ctx context.Context, ref *corev1.ResourceFieldSelector) (string, error) {
	c := podspec.ContainerNamed(&f.pod.Spec, ref.ContainerName)
	if c == nil {
		return "", fmt.Errorf("container %s not found", ref.ContainerName)
	}
	kind, name, _ := strings.Cut(ref.Resource, ".")
	res := corev1.ResourceName(name)
	q := c.Resources.Requests[res]
	if kind == "limits" {
		var set bool
		if q, set = Limit(f.pod, c, res); !set {
			node, err := read(ctx, f.m, kinds.Nodes, "", f.m.cfg.Node)
			if err != nil {
				return "", err
			}
			q = node.Status.Allocatable[res]
		}
	}
	return units(res, q, ref.Divisor), nil
}

// Limit is a container's limit as the downward API shows it: its own, or that of the whole pod. Huge pages are not handed down.
func Limit(pod *corev1.Pod, c *corev1.Container, res corev1.ResourceName) (q resource.Quantity, set bool) {
	q, set = c.Resources.Limits[res]
	switch res {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
	default:
		return q, true
	}
	if whole := pod.Spec.Resources; q.IsZero() && whole != nil {
		q, set = whole.Limits[res]
	}
	return q, set && !q.IsZero()
}

func units(res corev1.ResourceName, q, divisor resource.Quantity) string {
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	n, by := q.Value(), divisor.Value()
	if res == corev1.ResourceCPU {
		n, by = q.MilliValue(), divisor.MilliValue()
	}
	if by > 1 {
		n = n/by + min(1, n%by)
	}
	return strconv.FormatInt(n, 10)
}
