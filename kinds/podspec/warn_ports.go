package podspec

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ports warns of ports of a pod that are named twice or may clash, and of names that stand for two.
func (w *warner) ports(s *corev1.PodSpec, spec *field.Path) {
	type place struct {
		at   *field.Path
		port corev1.ContainerPort
	}
	if !anyPorts(s) {
		return // most pods have none, and paths cost something
	}
	before, names := map[string][]place{}, map[string]*field.Path{}
	eachContainer(s, spec, func(c *corev1.Container, spot spot) {
		starts := isInit(s, c) && c.RestartPolicy == nil // and is gone when services look
		for i, p := range c.Ports {
			at := spot.path().Child("ports").Index(i)
			if p.HostIP != "" && p.HostPort == 0 {
				w.warn(at, "hostIP set without hostPort: %+v", p)
			}
			key := fmt.Sprint(p.ContainerPort, "/", p.Protocol)
			for _, o := range before[key] {
				switch {
				case p.HostIP == o.port.HostIP && p.HostPort == o.port.HostPort:
					w.warn(at, "duplicate port definition with %s", o.at)
				case p.HostPort == 0 || o.port.HostPort == 0:
					w.warn(at, "overlapping port definition with %s", o.at)
				case p.HostPort == o.port.HostPort && (p.HostIP == "") != (o.port.HostIP == ""):
					w.warn(at, "dangerously ambiguous port definition with %s", o.at)
				}
			}
			before[key] = append(before[key], place{at, p})
			if p.Name == "" || starts {
				continue
			}
			if first := names[p.Name]; first != nil {
				w.warn(at, "duplicate port name %q with %s, services and probes that select ports by name will use %s", p.Name, first, first)
			} else {
				names[p.Name] = at
			}
		}
	})
}

func anyPorts(s *corev1.PodSpec) bool {
	has := func(c corev1.Container) bool { return len(c.Ports) > 0 }
	return slices.ContainsFunc(s.InitContainers, has) || slices.ContainsFunc(s.Containers, has) ||
		slices.ContainsFunc(s.EphemeralContainers, func(c corev1.EphemeralContainer) bool { return len(c.Ports) > 0 })
}

// isInit says whether the container is one of the init containers.
func isInit(s *corev1.PodSpec, c *corev1.Container) bool {
	for i := range s.InitContainers {
		if &s.InitContainers[i] == c {
			return true
		}
	}
	return false
}
