package operator

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/examples/postgres/api/v1alpha1"
)

// A World is a cluster as one pass sees it. Some of it may be old: what is decided must hold all the same.
type World struct {
	Cluster *v1alpha1.PostgresCluster
	Pods    map[string]*corev1.Pod // of the cluster's instances, by name
	Claims  map[string]*corev1.PersistentVolumeClaim
	Lease   *coordinationv1.Lease // nil: there is none

	LastBackup *metav1.Time             // when the newest that is complete was; nil: there is none
	LastEnded  *v1alpha1.PostgresBackup // the newest that is complete or has failed; nil: none is

	// By the operator's own clock, since it first saw the present value.
	LeaseAge    time.Duration // of the Lease without a renewal
	ElectionAge time.Duration
	Patience    Patience
	Now         time.Time // for status alone
}

func (w World) report(instance string) v1alpha1.Report {
	if p := w.Pods[instance]; p != nil {
		if r := v1alpha1.ReadReport(p.Annotations); r != nil {
			return *r
		}
	}
	return v1alpha1.Report{}
}

// holder is the instance whose pod of today holds the Lease; empty if none does.
func (w World) holder() string {
	if w.Lease == nil || w.Lease.Spec.HolderIdentity == nil {
		return ""
	}
	name := v1alpha1.HolderName(*w.Lease.Spec.HolderIdentity)
	if p := w.Pods[name]; p != nil && *w.Lease.Spec.HolderIdentity == v1alpha1.Holder(name, string(p.UID)) {
		return name
	}
	return ""
}

// leads says whether the target primary is primary.
func (w World) leads() bool {
	target := w.Cluster.Status.TargetPrimary
	return target != "" && w.holder() == target && !w.silent() && w.report(target).Role == v1alpha1.Primary
}

// names lists the instances that should be, from the first.
func (w World) names() (list []string) {
	for i := range w.Cluster.Instances() {
		list = append(list, w.Cluster.InstanceName(i+1))
	}
	return list
}

// stays says whether a pod is there and meant to remain.
func stays(p *corev1.Pod) bool {
	return p != nil && p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodFailed && p.Status.Phase != corev1.PodSucceeded
}

// memory remembers since when something has been as it is. It is lost with the process: what is timed then takes longer.
type memory map[string]stamp

type stamp struct {
	value string
	since time.Time
}

func (m memory) age(key, value string) time.Duration {
	s, ok := m[key]
	if !ok || s.value != value {
		s = stamp{value, time.Now()}
		m[key] = s
	}
	return time.Since(s.since)
}
