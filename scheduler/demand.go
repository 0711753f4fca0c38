package scheduler

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ndf "k8s.io/component-helpers/nodedeclaredfeatures"
)

// A demand is the part of a pod that decides where it can run. Its encoding is the key of the pod's equivalence class, and it is
// all of the pod that filters and scores see: none can read a field that is not in the key.
type demand struct {
	pod      *corev1.Pod // all fields that don't matter are zero; nil: folded
	features ndf.FeatureSet
	key      string
}

// demandOf reduces a pod to what matters of it. The reduced pod is memory that the next call uses again: most pods are of a class that
// is there. A caller that keeps a demand clones it.
func (st *state) demandOf(p *corev1.Pod) demand {
	st.reduced = corev1.Pod{}
	d := demand{pod: &st.reduced, features: st.featuresOf(p)}
	q, s := d.pod, &p.Spec
	q.Namespace, q.Labels = p.Namespace, p.Labels
	if ref := metav1.GetControllerOfNoCopy(p); ref != nil {
		q.OwnerReferences = []metav1.OwnerReference{*ref}
	}
	q.Spec = localSpec(s)
	q.Spec.Affinity, q.Spec.TopologySpreadConstraints = s.Affinity, s.TopologySpreadConstraints
	q.Spec.PreemptionPolicy, q.Spec.ResourceClaims = s.PreemptionPolicy, s.ResourceClaims
	q.Status.ResourceClaimStatuses = p.Status.ResourceClaimStatuses
	for i := range s.Volumes {
		v := &s.Volumes[i]
		if v.PersistentVolumeClaim == nil && v.Ephemeral == nil {
			continue
		}
		reduced := corev1.Volume{Name: v.Name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: v.PersistentVolumeClaim}}
		if v.Ephemeral != nil {
			reduced.Ephemeral = &corev1.EphemeralVolumeSource{}
		}
		q.Spec.Volumes = append(q.Spec.Volumes, reduced)
	}
	if len(s.ResourceClaims) > 0 || len(ephemeral(p)) > 0 {
		q.Name, q.UID = p.Name, p.UID // claims are made and reserved for one pod
	}
	d.key = st.keyOf(q, d.features, p)
	return d
}

// clone is the demand with a pod of its own.
func (d demand) clone() *demand {
	pod := *d.pod
	d.pod = &pod
	return &d
}

// fold lets go of the pod: the key says all of it.
func (d *demand) fold() {
	if strings.LastIndexByte(d.key, keyEnd) >= 0 {
		d.pod = nil
	}
}

// unfold has the pod again.
func (d *demand) unfold() {
	if d.pod != nil {
		return
	}
	d.pod = &corev1.Pod{}
	if err := d.pod.Unmarshal([]byte(d.key[:strings.LastIndexByte(d.key, keyEnd)])); err != nil {
		panic("an equivalence class can't read its own key: " + err.Error())
	}
}

// localDemand is the part on which verdicts about a node by itself depend: no other pods, volumes or devices. Its pod is memory that
// the next call uses again.
func (st *state) localDemand(d *demand) demand {
	st.local = corev1.Pod{Spec: localSpec(&d.pod.Spec)}
	if a := affinityOf(d.pod); a != nil {
		st.local.Spec.Affinity = &corev1.Affinity{NodeAffinity: a}
	}
	return demand{pod: &st.local, features: d.features, key: st.keyOf(&st.local, d.features, d.pod)}
}

// localSpec keeps the fields that verdicts about a node by itself read, node affinity aside.
func localSpec(s *corev1.PodSpec) corev1.PodSpec {
	return corev1.PodSpec{SchedulerName: s.SchedulerName, NodeSelector: s.NodeSelector, Tolerations: s.Tolerations, Overhead: s.Overhead,
		Priority: s.Priority, Resources: s.Resources, InitContainers: reducedContainers(s.InitContainers),
		Containers: reducedContainers(s.Containers)}
}

func (st *state) keyOf(q *corev1.Pod, features ndf.FeatureSet, p *corev1.Pod) string {
	size := q.Size()
	st.text = slices.Grow(st.text[:0], size)
	if _, err := q.MarshalToSizedBuffer(st.text[:size]); err != nil {
		return string(p.UID) // can't be; then it is like no other
	}
	return string(st.text[:size]) + string(keyEnd) + features.String()
}

// keyEnd ends the pod in a key. Names of features, which follow, have none.
const keyEnd = '\x00'

func reducedContainers(list []corev1.Container) []corev1.Container {
	out := make([]corev1.Container, len(list))
	for i := range list {
		c := &list[i]
		out[i] = corev1.Container{Image: c.Image, RestartPolicy: c.RestartPolicy,
			Resources: corev1.ResourceRequirements{Requests: c.Resources.Requests, Limits: c.Resources.Limits}}
		for _, p := range c.Ports {
			if p.HostPort != 0 {
				out[i].Ports = append(out[i].Ports, corev1.ContainerPort{HostPort: p.HostPort, HostIP: p.HostIP, Protocol: p.Protocol})
			}
		}
	}
	return out
}
