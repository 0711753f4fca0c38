// Package backends holds what the loops that publish the pods behind services share: which pods those are, at which
// ports, and which services a pod's change concerns.
package backends

import (
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/controllers/internal/pods"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/resource"
)

// Selects says whether the service picks its backends by labels; the endpoints of others are somebody else's.
func Selects(s *corev1.Service) bool {
	return len(s.Spec.Selector) > 0 && s.Spec.Type != corev1.ServiceTypeExternalName
}

// Headless says whether the service has no address of its own.
func Headless(s *corev1.Service) bool { return s.Spec.ClusterIP == corev1.ClusterIPNone }

// Of returns the pods behind a service that have an address and have not ended, by name. Terminating ones are
// among them. Those that have ended, and are not ready any more, are in ended.
func Of(read resource.Reader, s *corev1.Service) (list, ended []*corev1.Pod) {
	key := slices.Min(slices.Collect(maps.Keys(s.Spec.Selector)))
	sel := labels.SelectorFromSet(s.Spec.Selector)
	for obj := range read.ByLabel(kinds.Pods, s.Namespace, key, s.Spec.Selector[key]) {
		switch p := obj.(*corev1.Pod); {
		case len(s.Spec.Selector) > 1 && !sel.Matches(labels.Set(p.Labels)):
		case reachable(p):
			list = append(list, p)
		case core.Terminal(p) && !pods.Ready(p):
			ended = append(ended, p)
		}
	}
	return list, ended
}

func reachable(p *corev1.Pod) bool {
	return !core.Terminal(p) && (p.Status.PodIP != "" || len(p.Status.PodIPs) > 0)
}

// IPs returns the pod's addresses.
func IPs(p *corev1.Pod) (list []string) {
	for _, ip := range p.Status.PodIPs {
		list = append(list, ip.IP)
	}
	if len(list) == 0 && p.Status.PodIP != "" {
		list = append(list, p.Status.PodIP)
	}
	return list
}

// Port returns the number at which the pod serves a service's port; ok is false when the pod has no port of that name.
func Port(p *corev1.Pod, sp *corev1.ServicePort) (n int32, ok bool) {
	if sp.TargetPort.Type == intstr.Int {
		return sp.TargetPort.IntVal, true
	}
	find := func(list []corev1.Container, sidecars bool) {
		for i := range list {
			if ok || sidecars && !podspec.Sidecar(&list[i]) {
				continue
			}
			for _, cp := range list[i].Ports {
				if !ok && cp.Name == sp.TargetPort.StrVal && cp.Protocol == sp.Protocol {
					n, ok = cp.ContainerPort, true
				}
			}
		}
	}
	find(p.Spec.Containers, false)
	find(p.Spec.InitContainers, true)
	return n, ok
}

// Hostname is the name under which DNS knows the pod of a headless service; "": none.
func Hostname(p *corev1.Pod, s *corev1.Service) string {
	if p.Spec.Subdomain == s.Name {
		return p.Spec.Hostname
	}
	return ""
}

// Concerned wakes the services whose backends a pod's change may alter.
func Concerned(c client.Change, read resource.Reader, wake func(ns, name string)) {
	old, _ := c.Old.(*corev1.Pod)
	next, _ := c.New.(*corev1.Pod)
	if old != nil && next != nil && sameBackend(old, next) {
		return
	}
	// Without an address, before and after, a pod is nobody's backend.
	if (old == nil || !reachable(old)) && (next == nil || !reachable(next)) {
		return
	}
	ns := c.Object().GetNamespace()
	for obj := range read.Each(kinds.Services, ns) {
		s := obj.(*corev1.Service)
		if Selects(s) && (matches(s, old) || matches(s, next)) {
			wake(ns, s.Name)
		}
	}
}

func matches(s *corev1.Service, p *corev1.Pod) bool {
	if p == nil {
		return false
	}
	for k, v := range s.Spec.Selector {
		if have, ok := p.Labels[k]; !ok || have != v {
			return false
		}
	}
	return true
}

// sameBackend says that nothing changed that endpoints tell.
func sameBackend(a, b *corev1.Pod) bool {
	return a.UID == b.UID && (a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) &&
		reachable(a) == reachable(b) && pods.Ready(a) == pods.Ready(b) && a.Spec.NodeName == b.Spec.NodeName &&
		a.Status.PodIP == b.Status.PodIP && slices.Equal(a.Status.PodIPs, b.Status.PodIPs) && maps.Equal(a.Labels, b.Labels)
}

// PortHash gives the ports of an endpoint upstream's order: FNV-1a of the port as it is printed there, in hexadecimal.
func PortHash(format string, args ...any) string {
	sum := fnv.New128a()
	_, _ = fmt.Fprintf(sum, format, args...) // a hash takes everything
	return hex.EncodeToString(sum.Sum(nil))
}

// OrNil prints an optional text.
func OrNil(text *string) string {
	if text == nil {
		return "<nil>"
	}
	return *text
}

// Trigger notes since when the network has something to learn: the time at which the first of the pods that changed became ready, or
// not ready, and in a first object that at which the service was made. Nothing is noted when it is something else that changed.
func Trigger(meta *metav1.ObjectMeta, s *corev1.Service, first bool, changed []*corev1.Pod) {
	var at time.Time
	for _, p := range changed {
		if t := readyChanged(p); at.IsZero() || t.Before(at) && !t.IsZero() {
			at = t
		}
	}
	switch {
	case first:
		at = s.CreationTimestamp.Time
	case at.IsZero():
		delete(meta.Annotations, corev1.EndpointsLastChangeTriggerTime)
		return
	}
	metav1.SetMetaDataAnnotation(meta, corev1.EndpointsLastChangeTriggerTime, at.UTC().Format(time.RFC3339Nano))
}

func readyChanged(p *corev1.Pod) time.Time {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}
