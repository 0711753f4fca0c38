package node

import (
	"testing"
	"time"
)

func TestPauses(t *testing.T) {
	p := newPauses()
	at := noon
	for i, want := range []time.Duration{0, 10, 20, 40, 80, 160, 300, 300} {
		at = at.Add(time.Second)
		p.ended("u", "a", at, time.Second, 0)
		p.ended("u", "a", at, time.Second, 0)               // told twice
		p.ended("u", "a", at.Add(-time.Hour), time.Hour, 0) // an older one, told later
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
	p.ended("u", "a", at.Add(time.Hour), 11*time.Minute, 0)
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
		t.Errorf("forgotten pauses stay: %v", p.of)
	}
}

// TestShorterPauses has a node on which crash loops go on sooner, and other attempts do not.
func TestShorterPauses(t *testing.T) {
	p, at := newPauses(), time.Unix(1000, 0)
	p.restart = 4 * time.Second
	for i := range int32(4) {
		at = at.Add(time.Minute)
		p.ended("u", "c", at, time.Second, i)
		p.failed("u", "pull", at, 0)
	}
	if left, _ := p.left("u", "c", at); left != 4*time.Second {
		t.Errorf("a crash loop waits %s", left)
	}
	if left, _ := p.left("u", "pull", at); left != 80*time.Second {
		t.Errorf("a pull waits %s", left)
	}
	p.ended("v", "c", at, time.Second, 9) // by an agent that starts anew
	if left, _ := p.left("v", "c", at); left != 4*time.Second {
		t.Errorf("after a restart of the agent it waits %s", left)
	}
}
