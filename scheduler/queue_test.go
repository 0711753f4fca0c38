package scheduler

import (
	"strings"
	"testing"
	"time"
)

// TestBackoff tries pods whose backoff ends in the same second by priority, early if a change may have helped them and nobody else is due;
// those that an error stopped are not tried early, and keep nobody from it.
func TestBackoff(t *testing.T) {
	st, noon := site(node("n1", "", "")), time.Unix(1e9, 0)
	for _, c := range []struct {
		name string
		at   time.Duration
		want string
	}{{"early", 0, "high low later"}, {"in time", time.Second, "high low failed later"}, {"late", 3 * time.Second, "later high low failed"}} {
		t.Run(c.name, func(t *testing.T) {
			q := newQueue()
			add := func(name, priority string, after time.Duration) *task {
				task := st.task(pod(name, "", "", "priority: "+priority))
				task.attempts, task.queuedAt, task.stage = 1, noon, placed
				q.seq++
				task.seq = q.seq
				if name != "failed" {
					q.addUnschedulable(task, noon.Add(after))
					q.activate(task, noon.Add(after))
				} else {
					q.addBackoff(task, noon.Add(after))
				}
				return task
			}
			add("failed", "0", 0)
			add("low", "1", 0)
			add("high", "5", 300*time.Millisecond)
			add("later", "9", time.Second)
			var got []string
			for {
				task := q.pop(noon.Add(c.at))
				if task == nil {
					break
				}
				got = append(got, task.pod.Name)
			}
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("tried %s, want %s", s, c.want)
			}
		})
	}
}

// TestRetry leaves alone a pod that went, or got a node, while something was done for it: it would be given a node a second time.
func TestRetry(t *testing.T) {
	st, q, noon := site(node("n1", "", "")), newQueue(), time.Unix(1e9, 0)
	p := st.task(pod("p", "", "", ""))
	p.stage = placed
	if q.retry(p, noon); q.pop(noon.Add(time.Hour)) != nil {
		t.Error("a pod that waits for nothing is tried")
	}
	q.addUnschedulable(p, noon)
	if q.retry(p, noon); q.pop(noon.Add(time.Hour)) != p {
		t.Error("a pod that waits is not tried")
	}
}
