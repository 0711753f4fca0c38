package causes

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/internal/pattern"
)

// A pod that has ended and that nobody makes is started by nobody again: it is made anew, with more of what it lacked.

var (
	// overStorage finds the words by which a pod wrote more than its containers may, or one of them did.
	overStorage = pattern.New(`local storage usage exceeds the total limit of containers|` +
		`Container (\S+) exceeded its local ephemeral storage limit`)
	// overSize finds the emptyDir that holds more than it may.
	overSize = pattern.New(`EmptyDir volume "([^"]+)" exceeds the limit "?([0-9]\w*)"?`)
)

// moreStorage advises to let a pod write twice as much as it may, where its node ended it for having written more: in the one container
// that has a limit, or that did, or in an emptyDir.
func moreStorage(l *converge.Look, p *corev1.Pod) (advice []string) {
	if m := overSize.FindStringSubmatch(p.Status.Message); m != nil {
		limit, err := resource.ParseQuantity(m[2])
		if err != nil {
			return nil
		}
		limit.Add(limit)
		return []string{retemplate(l, "let that emptyDir hold twice as much", converge.JSON(map[string]any{"volumes": []any{map[string]any{
			"name": m[1], "emptyDir": map[string]any{"sizeLimit": limit.String()}}}}))}
	}
	m := overStorage.FindStringSubmatch(p.Status.Message)
	if m == nil {
		return nil
	}
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		if limit := c.Resources.Limits[corev1.ResourceEphemeralStorage]; !limit.IsZero() && (m[1] == "" || m[1] == c.Name) {
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
