package cli

import (
	"fmt"
	"net"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// standing says whether a workload is as it should be, and how far it is, in words. An error says that it never will be. It is pure.
func standing(obj resource.Object) (done bool, words string, err error) {
	switch o := obj.(type) {
	case *appsv1.Deployment:
		st, want := o.Status, *o.Spec.Replicas
		done = st.ObservedGeneration >= o.Generation && st.AvailableReplicas == want && st.UpdatedReplicas == want && st.Replicas == want
		return done, progress(st.AvailableReplicas, want, "available"), nil
	case *appsv1.StatefulSet:
		st, want := o.Status, *o.Spec.Replicas
		done = st.ObservedGeneration >= o.Generation && st.ReadyReplicas == want && st.Replicas == want &&
			(st.UpdatedReplicas == want || st.CurrentRevision == st.UpdateRevision)
		return done, progress(st.ReadyReplicas, want, "ready"), nil
	case *appsv1.DaemonSet:
		st, want := o.Status, o.Status.DesiredNumberScheduled
		done = st.ObservedGeneration >= o.Generation && st.NumberAvailable == want && st.UpdatedNumberScheduled == want
		return done, progress(st.NumberAvailable, want, "available"), nil
	case *appsv1.ReplicaSet:
		st, want := o.Status, *o.Spec.Replicas
		return st.ObservedGeneration >= o.Generation && st.ReadyReplicas == want &&
			st.Replicas == want, progress(st.ReadyReplicas, want, "ready"), nil
	case *batchv1.Job:
		return jobStanding(o)
	case *batchv1.CronJob:
		return false, fmt.Sprintf("%d jobs run now", len(o.Status.Active)), nil
	case *corev1.Pod:
		return podStanding(o)
	}
	return true, "it is there", nil
}

func progress(have, want int32, what string) string {
	if have == want {
		return fmt.Sprintf("%d %s", have, what)
	}
	return fmt.Sprintf("%d of %d %s", have, want, what)
}

func jobStanding(j *batchv1.Job) (bool, string, error) {
	for _, c := range j.Status.Conditions {
		switch {
		case c.Status != corev1.ConditionTrue:
		case c.Type == batchv1.JobComplete:
			return true, fmt.Sprintf("%d succeeded", j.Status.Succeeded), nil
		case c.Type == batchv1.JobFailed:
			return true, "it failed", fmt.Errorf("job/%s failed: %s: %s", j.Name, c.Reason, c.Message)
		}
	}
	return false, fmt.Sprintf("%d pods run, %d succeeded, %d failed", j.Status.Active, j.Status.Succeeded, j.Status.Failed), nil
}

func podStanding(p *corev1.Pod) (bool, string, error) {
	switch p.Status.Phase {
	case corev1.PodSucceeded:
		return true, "it succeeded", nil
	case corev1.PodFailed:
		return true, "it failed", fmt.Errorf("pod/%s failed: %s %s", p.Name, p.Status.Reason, p.Status.Message)
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return true, "ready", nil
		}
	}
	return false, fmt.Sprintf("it is %s and not ready", p.Status.Phase), nil
}

// template has the labels of a workload's pods; nil: none are served.
func template(obj resource.Object) labels.Set {
	switch o := resource.Opened(obj).(type) {
	case *appsv1.Deployment:
		return o.Spec.Template.Labels
	case *appsv1.StatefulSet:
		return o.Spec.Template.Labels
	case *appsv1.DaemonSet:
		return o.Spec.Template.Labels
	case *appsv1.ReplicaSet:
		return o.Spec.Template.Labels
	case *corev1.Pod:
		return o.Labels
	}
	return nil
}

// services select the pods of a workload.
func (s *story) services(read resource.Reader, root resource.Object) (list []*corev1.Service) {
	pods := template(root)
	for _, svc := range resource.List(read, kinds.Services, s.ns) {
		if pods != nil && len(svc.Spec.Selector) > 0 && labels.SelectorFromSet(svc.Spec.Selector).Matches(pods) {
			list = append(list, svc)
		}
	}
	return list
}

// serves says that a service selects the pods; without one there are no endpoints to wait for.
func (s *story) serves(read resource.Reader, root resource.Object) bool {
	return len(s.services(read, root)) > 0
}

// addresses tells where the services of a workload are reached from nodes and pods.
func (s *story) addresses(read resource.Reader, root resource.Object) {
	for _, svc := range s.services(read, root) {
		if svc.Spec.ClusterIP == "" || svc.Spec.ClusterIP == corev1.ClusterIPNone {
			continue
		}
		for _, p := range svc.Spec.Ports {
			scheme := ""
			if p.Name == "http" || p.Port == 80 || p.AppProtocol != nil && *p.AppProtocol == "http" {
				scheme = "http://"
			}
			s.say("  service/"+svc.Name, "at %s%s", scheme, net.JoinHostPort(svc.Spec.ClusterIP, strconv.Itoa(int(p.Port))))
		}
	}
}
