package scheduler

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/loop"
)

// What the scheduler counts of its work, under upstream's names.
var (
	perProfile   = []string{"profile", "result"}
	attemptCount = &loop.Figure{Name: "scheduler_schedule_attempts_total", Help: "Looks at pods without a node.", Labels: perProfile}
	attemptsTook = &loop.Figure{Name: "scheduler_scheduling_attempt_duration_seconds", Labels: perProfile,
		Help: "How long decisions took, the write of the binding excluded.", Bounds: loop.Doubling(0.001, 15)}
	attemptsOfPod = &loop.Figure{Name: "scheduler_pod_scheduling_attempts", Help: "Looks that it took until a pod had a node.",
		Bounds: loop.Doubling(1, 5)}
	preemptions = &loop.Figure{Name: "scheduler_preemption_attempts_total", Help: "Looks for pods that could make room."}
	victims     = &loop.Figure{Name: "scheduler_preemption_victims", Help: "Pods that make room for one.", Bounds: loop.Doubling(1, 7)}
	incoming    = &loop.Figure{Name: "scheduler_queue_incoming_pods_total",
		Help: "Pods that came to a part of the queue, and why. WildCardEvent is any change that may help.", Labels: []string{"queue", "event"}}
	pointTook = &loop.Figure{Name: "scheduler_framework_extension_point_duration_seconds",
		Help:   "How long parts of decisions took. Filter is the choice of a node, its scores among them.",
		Labels: []string{"extension_point", "status", "profile"}, Bounds: loop.Doubling(0.0001, 12)}
)

// meter keeps the series that are counted for every pod.
type meter struct {
	figures   *loop.Figures
	tries     *loop.Series
	preempted *loop.Series
	victims   *loop.Series
	of        map[outcomeOf]outcome
	came      map[arrival]*loop.Series
}

type (
	outcomeOf struct{ profile, result string }
	outcome   struct{ count, took, filter *loop.Series }
	arrival   struct{ queue, event string }
)

func newMeter(f *loop.Figures) *meter {
	if f == nil {
		return nil
	}
	return &meter{figures: f, tries: f.Series(attemptsOfPod), preempted: f.Series(preemptions), victims: f.Series(victims),
		of: map[outcomeOf]outcome{}, came: map[arrival]*loop.Series{}}
}

// The results of a look at a pod.
const (
	scheduled     = "scheduled"
	unschedulably = "unschedulable"
	inError       = "error"
)

// looked counts a look at a pod.
func (m *meter) looked(p *corev1.Pod, result string, took time.Duration) {
	if m == nil {
		return
	}
	key := outcomeOf{p.Spec.SchedulerName, result}
	o, known := m.of[key]
	if !known {
		status := map[string]string{scheduled: "Success", unschedulably: "Unschedulable", inError: "Error"}[result]
		o = outcome{m.figures.Series(attemptCount, key.profile, result), m.figures.Series(attemptsTook, key.profile, result),
			m.figures.Series(pointTook, "Filter", status, key.profile)}
		m.of[key] = o
	}
	o.count.Add(1)
	o.took.Add(took.Seconds())
	o.filter.Add(took.Seconds())
}

// chosen counts the looks that a pod needed.
func (m *meter) chosen(attempts int) {
	if m != nil {
		m.tries.Add(float64(attempts))
	}
}

// made counts a look for pods that could make room, and those that were found.
func (m *meter) made(p *corev1.Pod, c *candidate, took time.Duration) {
	if m == nil {
		return
	}
	m.preempted.Add(1)
	status := "Unschedulable"
	if c != nil {
		status = "Success"
		m.victims.Add(float64(len(c.victims)))
	}
	m.figures.Series(pointTook, "PostFilter", status, p.Spec.SchedulerName).Add(took.Seconds())
}

// bound counts the write of a binding; it may be called from anywhere.
func (m *meter) bound(p *corev1.Pod, err error, took time.Duration) {
	if m == nil {
		return
	}
	status := "Success"
	if err != nil {
		status = "Error"
	}
	m.figures.Series(pointTook, "Bind", status, p.Spec.SchedulerName).Add(took.Seconds())
}

// arrived counts a pod that came to a part of the queue.
func (m *meter) arrived(queue, event string) {
	if m == nil {
		return
	}
	s, known := m.came[arrival{queue, event}]
	if !known {
		s = m.figures.Series(incoming, queue, event)
		m.came[arrival{queue, event}] = s
	}
	s.Add(1)
}
