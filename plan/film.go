package plan

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds/core"
)

// filmSteps bounds the steps that a report tells.
const filmSteps = 5000

// The words of steps.
const (
	stepMade    = "made"
	stepBound   = "bound"
	stepReady   = "ready"
	stepUnready = "unready"
	stepEnded   = "ended"
	stepLeaving = "leaving" // it is being deleted
	stepGone    = "gone"
)

// A Step is a moment in the life of a pod that the change touches.
type Step struct {
	After Duration `json:"after"` // the change
	Object
	Owner     string `json:"owner"` // the workload that it counts for: deployment/web
	What      string `json:"what"`  // made, bound, ready, unready, ended, leaving or gone
	Node      string `json:"node,omitempty"`
	Available int    `json:"available"` // pods of the workload, from now on
}

// A film is the steps in the order in which they came.
type film struct {
	from  time.Time
	steps []Step
	cut   bool // there were more than are kept
}

// shoot notes what happened to a pod of a workload that has so many available pods now.
func (f *film) shoot(was, is *corev1.Pod, owner Object, now int) {
	p := is
	if p == nil {
		p = was
	}
	for _, what := range moments(was, is) {
		if len(f.steps) == filmSteps {
			f.cut = true
			return
		}
		f.steps = append(f.steps, Step{After: Duration(time.Since(f.from)), Object: Object{"Pod", p.Namespace, p.Name}, Owner: owner.String(),
			What: what, Node: p.Spec.NodeName, Available: now})
	}
}

// moments are the words for the difference between two states of a pod; nil: it is not there.
func moments(was, is *corev1.Pod) (list []string) {
	none := &corev1.Pod{}
	if is == nil {
		return []string{stepGone}
	}
	if was == nil {
		list, was = append(list, stepMade), none
	}
	if was.Spec.NodeName == "" && is.Spec.NodeName != "" {
		list = append(list, stepBound)
	}
	switch {
	case core.Terminal(is) && !core.Terminal(was):
		list = append(list, stepEnded)
	case is.DeletionTimestamp != nil && was.DeletionTimestamp == nil:
		list = append(list, stepLeaving)
	case available(is) && !available(was):
		list = append(list, stepReady)
	case available(was) && !available(is):
		list = append(list, stepUnready)
	}
	return list
}
