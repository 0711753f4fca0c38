package node

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// run is a container that ended at the time, when it had run for so long.
func run(name string, end time.Time, ran time.Duration, restarts int32) *container {
	return &container{name: name, began: end.Add(-ran), done: end, restarts: restarts}
}

func TestPauses(t *testing.T) {
	p := newBackoffs()
	at := noon
	for i, want := range []time.Duration{0, 10, 20, 40, 80, 160, 300, 300} {
		at = at.Add(time.Second)
		p.ended("u", run("a", at, time.Second, 0), at)
		p.ended("u", run("a", at, time.Second, 0), at)               // told twice
		p.ended("u", run("a", at.Add(-time.Hour), time.Hour, 0), at) // an older one, told later
		if left, length := p.left("u", "a", at); left != want*time.Second || length != want*time.Second {
			t.Errorf("end %d: left %v of %v, want %vs", i, left, length, int(want))
		}
	}
	if left, _ := p.left("u", "a", at.Add(299*time.Second)); left != time.Second {
		t.Errorf("a second before its end the pause has %v left", left)
	}
	if left, _ := p.left("u", "a", at.Add(time.Hour)); left != 0 {
		t.Errorf("after its end the pause has %v left", left)
	}
	p.ended("u", run("a", at.Add(time.Hour), 11*time.Minute, 0), at)
	if left, _ := p.left("u", "a", at.Add(time.Hour)); left != 0 {
		t.Errorf("one that ran for eleven minutes waits %v", left)
	}
	p.failed("u", "pull x", noon, 0)
	if left, _ := p.left("u", "pull x", noon); left != firstPause {
		t.Errorf("a failed pull waits %v", left)
	}
	p.clear("u", "pull x")
	p.forget("u")
	if len(p.of) != 0 {
		t.Errorf("forgotten back-offs stay: %v", p.of)
	}
}

// TestShorterPauses has a node on which crash loops go on sooner, and other attempts do not.
func TestShorterPauses(t *testing.T) {
	p, at := newBackoffs(), time.Unix(1000, 0)
	p.restart = 4 * time.Second
	for i := range int32(4) {
		at = at.Add(time.Minute)
		p.ended("u", run("c", at, time.Second, i), at)
		p.failed("u", "pull", at, 0)
	}
	if left, _ := p.left("u", "c", at); left != 4*time.Second {
		t.Errorf("a crash loop waits %s", left)
	}
	if left, _ := p.left("u", "pull", at); left != 80*time.Second {
		t.Errorf("a pull waits %s", left)
	}
	p.ended("v", run("c", at, time.Second, 9), at) // by an agent that starts anew
	if left, _ := p.left("v", "c", at); left != 4*time.Second {
		t.Errorf("after a restart of the agent it waits %s", left)
	}
}

// A clock that is set back makes no pause longer, nor leaves any out.
func TestPausesOfAClockSetBack(t *testing.T) {
	simulate(t, func(r *rig) {
		r.rt.ahead = 48 * time.Hour
		r.pod("p", nil, "a")
		r.reaches("p", corev1.PodRunning)
		var took []time.Duration
		for i, back := range []time.Duration{0, 0, 24 * time.Hour, 48 * time.Hour, 48 * time.Hour} {
			r.rests(time.Second)
			r.rt.mu.Lock()
			r.rt.ahead = 48*time.Hour - back // of this machine's clock, which was set back by so much in all
			r.rt.mu.Unlock()
			r.rt.exit("a", 1)
			began := time.Now()
			r.until("it runs again", func() bool {
				s := r.get("p").Status.ContainerStatuses[0]
				return s.RestartCount == int32(i+1) && s.State.Running != nil
			})
			took = append(took, time.Since(began).Round(10*time.Second))
		}
		if got, want := fmt.Sprint(took), "[0s 10s 20s 40s 1m20s]"; got != want {
			t.Errorf("they took %s, want %s", got, want)
		}
	})
}

// A container with another image starts at once, and its pauses from the first.
func TestPausesOfAnImage(t *testing.T) {
	simulate(t, func(r *rig) {
		r.pod("p", nil, "a")
		r.reaches("p", corev1.PodRunning)
		restarts := int32(0)
		next := func(change func()) time.Duration {
			t.Helper()
			r.rests(time.Second)
			change()
			began := time.Now()
			restarts++
			r.until("it runs again", func() bool {
				s := r.get("p").Status.ContainerStatuses[0]
				return s.RestartCount == restarts && s.State.Running != nil
			})
			return time.Since(began).Round(10 * time.Second)
		}
		image := func(name string) { r.edit("p", func(p *corev1.Pod) { p.Spec.Containers[0].Image = name }) }
		ends := func() { r.rt.exit("a", 1) }
		var took []time.Duration
		for range 4 {
			took = append(took, next(ends))
		}
		took = append(took, next(func() { // while it runs
			image("img:2")
		}), next(ends), next(ends), next(func() { // while it waits
			ends()
			r.rests(time.Second)
			image("img:3")
		}), next(ends))
		if got, want := fmt.Sprint(took), "[0s 10s 20s 40s 0s 0s 10s 0s 0s]"; got != want {
			t.Errorf("they took %s, want %s", got, want)
		}
	})
}
