package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// outcome holds the result of a pass.
type outcome[W any] struct {
	world *W // as it was read last; nil: it could not be read
	ready metav1.Condition
	again time.Duration // after which the object is looked at again, if there is no error
	err   error         // the pass failed, and is tried again after longer and longer pauses
}

// Pass does with an object what the loop does in one pass, and writes Status into it. It returns the condition Ready and after which time
// the loop would look again; with an error it would try again after longer and longer pauses. It needs no plane, so a loop can be tested
// by itself, in simulated time too. It looks at no Target, and makes no events.
func (l Loop[T, W]) Pass(ctx context.Context, obj T) (ready metav1.Condition, again time.Duration, err error) {
	l.fill()
	o := l.once(ctx, obj, func(string, string, string) {})
	if o.world != nil && l.Status != nil {
		l.Status(obj, *o.world)
	}
	return o.ready, o.again, o.err
}

// fill sets the times that are not set.
func (l *Loop[T, W]) fill() {
	if l.Poll <= 0 {
		l.Poll = time.Minute
	}
	if l.Deadline <= 0 {
		l.Deadline = 30 * time.Second
	}
}

// once observes, plans and acts.
func (l *Loop[T, W]) once(ctx context.Context, obj T, event func(typ, reason, text string)) outcome[W] {
	ctx, cancel := context.WithTimeout(ctx, l.Deadline)
	defer cancel()
	world, err := l.Observe(ctx, obj)
	if err != nil {
		err = fmt.Errorf("observe: %w", err)
		return outcome[W]{ready: failed("ObserveFailed", err), err: err}
	}
	steps := l.Plan(obj, world)
	switch {
	case len(steps) == 0:
		return outcome[W]{world: &world, ready: metav1.Condition{Status: metav1.ConditionTrue, Reason: "AsWanted"}, again: l.Poll}
	case obj.GetAnnotations()[ModeAnnotation] == ModeObserve:
		return outcome[W]{world: &world, again: l.Poll,
			ready: failed("Drift", fmt.Errorf("%s is only to be observed; missing: %s", obj.GetName(), names(steps)))}
	case steps[0].Do == nil:
		return outcome[W]{world: &world, again: l.Poll, ready: waits(steps)}
	}
	return l.act(ctx, obj, steps, event)
}

// now returns the steps of one pass.
func (l *Loop[T, W]) now(steps []Step) []Step {
	if l.OneByOne {
		return steps[:1]
	}
	if i := slices.IndexFunc(steps, func(s Step) bool { return s.Do == nil }); i > 0 {
		return steps[:i]
	}
	return steps
}

// act does the steps up to the first that only the world can do, and looks whether they helped.
func (l *Loop[T, W]) act(ctx context.Context, obj T, steps []Step, event func(typ, reason, text string)) outcome[W] {
	some := l.now(steps)
	for _, s := range some {
		if err := s.Do(ctx); err != nil {
			err = fmt.Errorf("%s: %w", s.Name, err)
			event(corev1.EventTypeWarning, "StepFailed", err.Error())
			return outcome[W]{ready: failed("StepFailed", err), err: err}
		}
		event(corev1.EventTypeNormal, "Step", s.Name)
	}
	world, err := l.Observe(ctx, obj)
	if err != nil {
		err = fmt.Errorf("observe: %w", err)
		return outcome[W]{ready: failed("ObserveFailed", err), err: err}
	}
	o := outcome[W]{world: &world, ready: metav1.Condition{Status: metav1.ConditionTrue, Reason: "AsWanted"}, again: l.Poll}
	switch left := l.Plan(obj, world); {
	case len(left) == 0:
	case left[0].Do == nil:
		o.ready = waits(left)
	case (l.OneByOne || len(some) < len(steps)) && !slices.EqualFunc(left, steps, func(a, b Step) bool { return a.Name == b.Name }):
		o.ready, o.again = failed("Progressing", fmt.Errorf("after %s follows: %s", names(some), names(left))), max(l.Every, busyPause)
	default:
		o.err = fmt.Errorf("after %s the world still lacks: %s", names(some), names(left))
		o.ready = failed("NotSettled", o.err)
	}
	return o
}

// waits is the condition of an object that waits for the world.
func waits(steps []Step) metav1.Condition {
	return failed("Waiting", errors.New("waiting for: "+names(steps)))
}
