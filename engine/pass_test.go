package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A line is a world of marks that are set in order; some set themselves.
type line struct {
	have   []string
	looked int
	broken bool
}

// loop wants the marks a, b and c; b comes by itself.
func (l *line) loop() Loop[*lamp, []string] {
	return Loop[*lamp, []string]{Name: "line", OneByOne: true, Poll: time.Minute,
		Observe: func(context.Context, *lamp) ([]string, error) {
			l.looked++
			return slices.Clone(l.have), nil
		},
		Plan: func(_ *lamp, have []string) (steps []Step) {
			for _, m := range []string{"a", "b", "c"} {
				switch {
				case slices.Contains(have, m):
				case m == "b":
					steps = append(steps, Step{Name: m})
				default:
					steps = append(steps, Step{Name: m, Do: func(context.Context) error { return l.mark(m) }})
				}
			}
			return steps
		},
		Status: func(o *lamp, have []string) { o.Status.On = len(have) == 3 },
	}
}

func (l *line) mark(m string) error {
	if l.broken {
		return errors.New("out of chalk")
	}
	l.have = append(l.have, m)
	return nil
}

// TestOneByOne: a pass does one step, waits for what the world does, and says what it waits for.
func TestOneByOne(t *testing.T) {
	l, o := &line{}, &lamp{}
	loop := l.loop()
	pass := func() (metav1.Condition, time.Duration, error) { return loop.Pass(t.Context(), o) }
	ready, again, err := pass()
	if err != nil || ready.Reason != "Waiting" || ready.Message != "waiting for: b, c" || again != time.Minute {
		t.Errorf("after a: %v, again %v, %v", ready, again, err)
	}
	looked := l.looked
	if ready, _, _ = pass(); len(l.have) != 1 || l.looked != looked+1 || ready.Reason != "Waiting" {
		t.Errorf("while it waits: %v, %v", l.have, ready)
	}
	l.have, l.broken = append(l.have, "b"), true
	if _, _, err = pass(); err == nil || !strings.Contains(err.Error(), "out of chalk") {
		t.Errorf("a step that fails: %v", err)
	}
	l.broken = false
	if ready, again, err = pass(); err != nil || ready.Status != metav1.ConditionTrue || again != time.Minute || !o.Status.On {
		t.Errorf("at the end: %v, again %v, %v, %+v", ready, again, err, o.Status)
	}
}

// TestProgress: a step that brings the plan forward is no failure; one that changes nothing is.
func TestProgress(t *testing.T) {
	l, o := &line{have: []string{"b"}}, &lamp{}
	loop := l.loop()
	ready, again, err := loop.Pass(t.Context(), o)
	if err != nil || ready.Reason != "Progressing" || again > time.Second || len(l.have) != 2 {
		t.Errorf("after one of two: %v, again %v, %v", ready, again, err)
	}
	loop.Observe = func(context.Context, *lamp) ([]string, error) { return []string{"b"}, nil }
	if ready, _, err = loop.Pass(t.Context(), o); err == nil || ready.Reason != "NotSettled" {
		t.Errorf("after a step without effect: %v, %v", ready, err)
	}
	o.Annotations = map[string]string{ModeAnnotation: ModeObserve}
	had := len(l.have)
	if ready, _, err = loop.Pass(t.Context(), o); err != nil || ready.Reason != "Drift" || len(l.have) != had ||
		!strings.Contains(ready.Message, "a, c") {
		t.Errorf("while it only observes: %v, %v, %v", ready, err, l.have)
	}
}
