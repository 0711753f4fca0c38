package podspec

import (
	"maps"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/features"
)

// gated are the fields of a pod spec that only clusters with a feature have, beside those whose rules look at it
// themselves. visit calls yield for each place where the field is set, with what takes it out.
var gated = []struct {
	on    func(*features.Set) bool
	visit func(s *corev1.PodSpec, yield func(clear func()))
}{
	{gate("GenericWorkload"), func(s *corev1.PodSpec, yield func(func())) { unset(&s.SchedulingGroup, yield) }},
	{gate("EvictionRequestAPI"), func(s *corev1.PodSpec, yield func(func())) {
		if s.EvictionResponders != nil {
			yield(func() { s.EvictionResponders = nil })
		}
	}},
	{gate("ContainerStopSignals"), func(s *corev1.PodSpec, yield func(func())) {
		everyContainer(s, func(c *corev1.Container) {
			if l := c.Lifecycle; l != nil && l.StopSignal != nil {
				yield(func() {
					if l.StopSignal = nil; *l == (corev1.Lifecycle{}) {
						c.Lifecycle = nil
					}
				})
			}
		})
	}},
	{gate("VolumeBindMountOptions"), func(s *corev1.PodSpec, yield func(func())) {
		everyContainer(s, func(c *corev1.Container) {
			for i := range c.VolumeMounts {
				if m := &c.VolumeMounts[i]; m.BindMountOptions != nil {
					yield(func() { m.BindMountOptions = nil })
				}
			}
		})
	}},
	{gate("H2CContainerProbe"), func(s *corev1.PodSpec, yield func(func())) {
		protocol := func(h *corev1.HTTPGetAction) {
			if h != nil {
				unset(&h.Protocol, yield)
			}
		}
		eachProbe(s, func(p *corev1.ProbeHandler) { protocol(p.HTTPGet) })
		everyContainer(s, func(c *corev1.Container) {
			if l := c.Lifecycle; l != nil {
				for _, h := range []*corev1.LifecycleHandler{l.PostStart, l.PreStop} {
					if h != nil {
						protocol(h.HTTPGet)
					}
				}
			}
		})
	}},
	{gate("GRPCContainerProbeTLS"), func(s *corev1.PodSpec, yield func(func())) {
		eachProbe(s, func(p *corev1.ProbeHandler) {
			if p.GRPC != nil {
				unset(&p.GRPC.Mode, yield)
			}
		})
	}},
	{gate("EmptyDirVolumeMode"), func(s *corev1.PodSpec, yield func(func())) {
		for i := range s.Volumes {
			if d := s.Volumes[i].EmptyDir; d != nil {
				unset(&d.Mode, yield)
			}
		}
	}},
	{gate("AtomicWriteVolumeUserFields"), visitUsers},
	{since37("ClusterTrustBundleProjection"), func(s *corev1.PodSpec, yield func(func())) {
		eachProjection(s, func(p *corev1.VolumeProjection) { unset(&p.ClusterTrustBundle, yield) })
	}},
	{since37("PodCertificateRequest"), func(s *corev1.PodSpec, yield func(func())) {
		eachProjection(s, func(p *corev1.VolumeProjection) { unset(&p.PodCertificate, yield) })
	}},
}

func gate(name string) func(*features.Set) bool {
	return func(on *features.Set) bool { return on.On(name) }
}

// since37 is for what every 1.37 has and older ones behind a gate.
func since37(name string) func(*features.Set) bool {
	return func(on *features.Set) bool { return on.AtLeast(37) || on.On(name) }
}

// DropDisabled takes fields of features that are off out of s, unless old, the stored spec or nil, has them too: then it
// came from a cluster where they were on.
func DropDisabled(on *features.Set, s, old *corev1.PodSpec) {
	used, visit := false, gated[0].visit
	use := func(func()) { used = true }
	drop := func(clear func()) {
		if used = false; old != nil {
			visit(old, use)
		}
		if !used {
			clear()
		}
	}
	for i := range gated {
		if visit = gated[i].visit; !gated[i].on(on) {
			visit(s, drop)
		}
	}
}

// DropAnnotations takes out annotations that once stood for the init containers of a pod. The map may be shared.
func DropAnnotations(at *map[string]string) {
	for _, key := range initContainers {
		if _, there := (*at)[key]; there {
			*at = maps.Clone(*at)
			delete(*at, key)
		}
	}
}

var initContainers = []string{"pod.beta.kubernetes.io/init-containers", "pod.alpha.kubernetes.io/init-containers",
	"pod.beta.kubernetes.io/init-container-statuses", "pod.alpha.kubernetes.io/init-container-statuses"}

// unset yields a pointer that is set.
func unset[T any](at **T, yield func(func())) {
	if *at != nil {
		yield(func() { *at = nil })
	}
}

func eachProbe(s *corev1.PodSpec, do func(*corev1.ProbeHandler)) {
	everyContainer(s, func(c *corev1.Container) {
		for _, p := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
			if p != nil {
				do(&p.ProbeHandler)
			}
		}
	})
}

func eachProjection(s *corev1.PodSpec, do func(*corev1.VolumeProjection)) {
	for i := range s.Volumes {
		if p := s.Volumes[i].Projected; p != nil {
			for k := range p.Sources {
				do(&p.Sources[k])
			}
		}
	}
}

// visitUsers yields whom the files of a volume belong to.
func visitUsers(s *corev1.PodSpec, yield func(func())) {
	keys := func(list []corev1.KeyToPath) {
		for i := range list {
			unset(&list[i].User, yield)
		}
	}
	files := func(list []corev1.DownwardAPIVolumeFile) {
		for i := range list {
			unset(&list[i].User, yield)
		}
	}
	for i := range s.Volumes {
		v := &s.Volumes[i]
		if v.Secret != nil {
			unset(&v.Secret.DefaultUser, yield)
			keys(v.Secret.Items)
		}
		if v.ConfigMap != nil {
			unset(&v.ConfigMap.DefaultUser, yield)
			keys(v.ConfigMap.Items)
		}
		if v.DownwardAPI != nil {
			unset(&v.DownwardAPI.DefaultUser, yield)
			files(v.DownwardAPI.Items)
		}
		if v.Projected != nil {
			unset(&v.Projected.DefaultUser, yield)
		}
	}
	eachProjection(s, func(p *corev1.VolumeProjection) {
		switch {
		case p.Secret != nil:
			keys(p.Secret.Items)
		case p.ConfigMap != nil:
			keys(p.ConfigMap.Items)
		case p.DownwardAPI != nil:
			files(p.DownwardAPI.Items)
		case p.ServiceAccountToken != nil:
			unset(&p.ServiceAccountToken.User, yield)
		case p.ClusterTrustBundle != nil:
			unset(&p.ClusterTrustBundle.User, yield)
		case p.PodCertificate != nil:
			unset(&p.PodCertificate.User, yield)
		}
	})
}
