package scheduler

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/kinds/core"
)

// stage is where a pod stands.
type stage uint8

const (
	placed  stage = iota // on a node, or finished with being ours
	active               // to be decided next
	resting              // tried in vain, due again at a time
	parked               // fits nowhere; waits for a change that could help
	gated                // held back by its own gates
	binding              // decided; the write is on its way
)

// A task is a pod as the scheduler sees it.
type task struct {
	pod   *corev1.Pod
	class *class
	need  *need // the class's, unless the pod is being resized

	stage   stage
	slot    int  // where it is counted; -1: nowhere
	at      int  // in the slot's list
	counted bool // in the tallies of living pods
	gone    bool // deleted while its write was on its way
	nominee int  // the slot that it waits for after preemption; -1: none

	since    time.Time // in the queue
	seq      int64     // breaks ties of since
	due      time.Time // when resting
	strict   bool      // rests after an error: not to be tried before it is due
	index    int       // in its heap
	attempts int
	failed   plugin  // what refused it when parked
	said     string  // what was last to be written into its status
	writing  bool    // its status is being written
	naming   bool    // its nomination is to be written
	then     func()  // what waits for that
	next     *remark // to be written after that
	evicting bool    // is being removed to make room
	parkedAt time.Time
	plan     *volumePlan
	devices  *devicePlan
	bindBy   time.Time // when waiting for volumes
}

type key = types.NamespacedName

func keyOf(p *corev1.Pod) key { return key{Namespace: p.Namespace, Name: p.Name} }

// finished tells the pods that need nothing more from a node.
func finished(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// template is the pod's part that decides where it can run, as a string: pods with equal ones are alike.
func (st *state) template(p *corev1.Pod) string {
	s := &p.Spec
	q := corev1.Pod{}
	q.Namespace, q.Labels = p.Namespace, p.Labels
	for _, o := range p.OwnerReferences {
		if o.Controller != nil && *o.Controller {
			q.OwnerReferences = append(q.OwnerReferences, o)
		}
	}
	q.Spec = corev1.PodSpec{Hostname: st.featuresOf(p).String(), SchedulerName: s.SchedulerName, NodeSelector: s.NodeSelector, Affinity: s.Affinity, Tolerations: s.Tolerations, Overhead: s.Overhead,
		TopologySpreadConstraints: s.TopologySpreadConstraints, Priority: s.Priority, PreemptionPolicy: s.PreemptionPolicy,
		Resources: s.Resources, ResourceClaims: s.ResourceClaims, InitContainers: bare(s.InitContainers), Containers: bare(s.Containers)}
	for _, c := range core.ClaimNames(p) {
		q.Spec.Volumes = append(q.Spec.Volumes, corev1.Volume{Name: c})
	}
	q.Status.ResourceClaimStatuses = p.Status.ResourceClaimStatuses
	data, err := q.Marshal()
	if err != nil {
		return string(p.UID) // can't be; then it is like no other
	}
	return string(data)
}

func bare(list []corev1.Container) []corev1.Container {
	out := make([]corev1.Container, len(list))
	for i := range list {
		c := &list[i]
		out[i] = corev1.Container{Image: c.Image, RestartPolicy: c.RestartPolicy, Resources: corev1.ResourceRequirements{Requests: c.Resources.Requests}}
		for _, p := range c.Ports {
			if p.HostPort != 0 {
				out[i].Ports = append(out[i].Ports, corev1.ContainerPort{HostPort: p.HostPort, HostIP: p.HostIP, Protocol: p.Protocol})
			}
		}
	}
	return out
}
