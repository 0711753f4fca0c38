package causes

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/internal/pattern"
)

// A pod that has ended and that nobody makes is started by nobody again: it is made anew, with more of what it lacked.

// overStorage finds the words by which a pod wrote more than its containers may.
var overStorage = pattern.New(`local storage usage exceeds the total limit of containers`)

// moreStorage advises to give the one container that has a limit of what it may write twice that.
func moreStorage(l *converge.Look, p *corev1.Pod) (advice []string) {
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		if limit := c.Resources.Limits[corev1.ResourceEphemeralStorage]; !limit.IsZero() {
			twice := limit.DeepCopy()
			twice.Add(limit)
			advice = append(advice, resources(l, "let container "+c.Name+" write twice as much, or have less written beside its volumes", c.Name,
				"", "ephemeral-storage="+twice.String()))
		}
	}
	if len(advice) > 1 {
		return nil
	}
	return advice
}

// unstarted is said of a pod that has ended and that nobody makes.
const unstarted = "nothing starts a pod without a controller again: let a Deployment or a Job make it"

// startedAnew advises what starts a pod again that has ended and that nobody makes.
func startedAnew(l *converge.Look, p *corev1.Pod) string {
	if _, obj := l.LastingTop(); obj == nil || obj.GetUID() != p.UID {
		return unstarted
	}
	return unstarted + ", or make it anew as it was: kubectl get pod " + p.Name + " -n " + p.Namespace +
		" -o yaml | sed '/nodeName:/d' | kubectl replace --force -f -"
}
