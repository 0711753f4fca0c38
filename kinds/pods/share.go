package pods

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/internal/intern"
)

// alike are parts of pods. Those of one template have nearly all of them in common.
var alike intern.Pool

// Letters of the parts.
const (
	metaPart      = 'm'
	specPart      = 's'
	containerPart = 'c'
	volumePart    = 'v'
	resourcesPart = 'r'
	textPart      = 't'
)

// parts is room for the forms of parts while they are looked for.
type parts struct {
	meta      metav1.ObjectMeta
	spec      corev1.PodSpec
	container corev1.Container
	volume    corev1.VolumeSource
	resources corev1.ResourceRequirements
}

var room = sync.Pool{New: func() any { return new(parts) }}

// sharePod has a pod that is kept share with others what they have alike.
func sharePod(p *corev1.Pod) {
	x := room.Get().(*parts)
	x.shareMeta(&p.ObjectMeta)
	x.shareSpec(&p.Spec)
	x.shareStatuses(&p.Status.InitContainerStatuses)
	x.shareStatuses(&p.Status.ContainerStatuses)
	*x = parts{}
	room.Put(x)
}

func (x *parts) shareMeta(m *metav1.ObjectMeta) {
	if len(m.Labels)+len(m.Annotations)+len(m.OwnerReferences) == 0 {
		return
	}
	x.meta = metav1.ObjectMeta{Labels: m.Labels, Annotations: m.Annotations, OwnerReferences: m.OwnerReferences}
	known := alike.Same(metaPart, &x.meta, func() any { return new(x.meta) }).(*metav1.ObjectMeta)
	m.Labels, m.Annotations, m.OwnerReferences = known.Labels, known.Annotations, known.OwnerReferences
}

// shareSpec leaves a pod its node, its name, and the names of its volumes: each pod's token has a volume called otherwise.
func (x *parts) shareSpec(s *corev1.PodSpec) {
	x.shareContainers(&s.InitContainers)
	x.shareContainers(&s.Containers)
	x.shareVolumes(&s.Volumes)
	x.spec = *s
	x.spec.InitContainers, x.spec.Containers, x.spec.EphemeralContainers, x.spec.Volumes = nil, nil, nil, nil
	x.spec.NodeName, x.spec.Hostname = "", ""
	known := *alike.Same(specPart, &x.spec, func() any { return new(x.spec) }).(*corev1.PodSpec)
	known.InitContainers, known.Containers, known.EphemeralContainers = s.InitContainers, s.Containers, s.EphemeralContainers
	known.Volumes, known.NodeName, known.Hostname = s.Volumes, s.NodeName, s.Hostname
	*s = known
}

func (x *parts) shareContainers(list *[]corev1.Container) {
	shareEach(list, func(c corev1.Container) corev1.Container {
		x.container = c
		x.container.Name, x.container.VolumeMounts = "", nil
		known := *alike.Same(containerPart, &x.container, func() any { return new(x.container) }).(*corev1.Container)
		known.Name, known.VolumeMounts = c.Name, c.VolumeMounts
		return known
	})
}

func (x *parts) shareVolumes(list *[]corev1.Volume) {
	shareEach(list, func(v corev1.Volume) corev1.Volume {
		x.volume = v.VolumeSource
		v.VolumeSource = *alike.Same(volumePart, &x.volume, func() any { return new(x.volume) }).(*corev1.VolumeSource)
		return v
	})
}

func (x *parts) shareStatuses(list *[]corev1.ContainerStatus) {
	shareEach(list, func(c corev1.ContainerStatus) corev1.ContainerStatus {
		c.Image, c.ImageID = alike.Text(textPart, c.Image), alike.Text(textPart, c.ImageID)
		if all := c.Resources; all != nil {
			c.Resources = alike.Same(resourcesPart, all, func() any { return all }).(*corev1.ResourceRequirements)
		}
		if c.AllocatedResources != nil {
			x.resources = corev1.ResourceRequirements{Requests: c.AllocatedResources}
			known := alike.Same(resourcesPart, &x.resources, func() any { return new(x.resources) }).(*corev1.ResourceRequirements)
			c.AllocatedResources = known.Requests
		}
		return c
	})
}

// shareEach puts what share returns of each element in its place, in a copy of the list if that makes a difference: the list may be that
// of the pod's last version, which others read.
func shareEach[T any](list *[]T, share func(T) T) {
	own := false
	for i := range *list {
		known := share((*list)[i])
		if intern.Identical(&known, &(*list)[i]) {
			continue
		}
		if !own {
			*list, own = slices.Clone(*list), true
		}
		(*list)[i] = known
	}
}
