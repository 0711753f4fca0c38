package engine

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/resource"
)

// A Forecast says what a loop would do with an object, as the world is now.
type Forecast struct {
	Steps   []string      // in the order in which they would come; those of the world too
	Takes   time.Duration // in which they come at best: pauses between passes, as if steps took no time
	Settled bool          // nothing would be missing then
	Unknown string        // why no more is known; "": the forecast is whole
}

// foreseen bounds the steps of a forecast: a Model that gets nowhere must end.
const foreseen = 200

// Foresee says what the loop would do with an object: it reads the world once, and does nothing. With a Model it goes on until nothing is
// missing; without, it ends with the steps that are missing now. It looks at no Target.
func (l Loop[T, W]) Foresee(ctx context.Context, obj T) (Forecast, error) {
	l.fill()
	ctx, cancel := context.WithTimeout(ctx, l.Deadline)
	defer cancel()
	world, err := l.Observe(ctx, obj)
	if err != nil {
		return Forecast{}, fmt.Errorf("observe: %w", err)
	}
	var f Forecast
	for {
		steps := l.Plan(obj, world)
		switch {
		case len(steps) == 0:
			f.Settled = true
			return f, nil
		case l.Model == nil:
			for _, s := range steps[:min(len(steps), foreseen)] {
				f.Steps = append(f.Steps, s.Name)
			}
			f.Unknown = "what follows is not known: the loop has no Model"
			return f, nil
		case len(f.Steps) >= foreseen:
			f.Unknown = fmt.Sprintf("after %d steps there is still no end of it", len(f.Steps))
			return f, nil
		}
		some := steps[:1]
		if steps[0].Do == nil {
			f.Takes += l.Poll
		} else if some = l.now(steps); len(f.Steps) > 0 {
			f.Takes += max(l.Every, busyPause)
		}
		for _, s := range some {
			f.Steps = append(f.Steps, s.Name)
			world = l.Model(obj, world, s)
		}
	}
}

// warnings returns the words of a dry run for this object; none: nothing is missing.
func (l Loop[T, W]) warnings(ctx context.Context, t *targets, obj T) []string {
	mode := obj.GetAnnotations()[ModeAnnotation]
	if mode == ModePause {
		return []string{l.Name + " would not look at it: it is paused"}
	}
	l.fill()
	ctx, cancel := context.WithTimeout(ctx, min(l.Deadline, patience))
	defer cancel()
	name := string(obj.GetUID())
	if l.Target != nil {
		name = l.Target(obj)
	}
	leave, err := t.await(ctx, name)
	if err != nil {
		return []string{fmt.Sprintf("%s: the target %s is busy or rests: what would be done is not known", l.Name, name)}
	}
	defer func() { leave(time.Now()) }()
	f, err := l.Foresee(ctx, obj)
	switch {
	case err != nil:
		return []string{fmt.Sprintf("%s: what would be done is not known: %v", l.Name, err)}
	case len(f.Steps) == 0:
		return nil
	}
	text := l.Name + " would: "
	if mode == ModeObserve {
		text = l.Name + " would do nothing, and report as missing: "
	}
	text += list(f.Steps)
	if f.Settled && f.Takes >= time.Second {
		text += fmt.Sprintf("; in %s at least", f.Takes.Round(time.Second))
	}
	if f.Unknown != "" && l.Model != nil {
		text += "; " + f.Unknown
	}
	return []string{text}
}

// patience bounds how long a dry run waits for a target and for the world.
const patience = 10 * time.Second

// await enters a target as soon as it can be had.
func (t *targets) await(ctx context.Context, name string) (leave func(time.Time), err error) {
	for {
		wait, leave := t.enter(name, time.Now())
		if leave != nil {
			return leave, nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
	}
}

// foretell returns a plugin: a dry run, as by kubectl apply --dry-run=server, tells in warnings of the steps. It refuses nothing.
func foretell(runners []*runner) admission.Plugin {
	return admission.Plugin{Name: "Forecast", Validate: func(ctx context.Context, r *admission.Request) error {
		if !r.DryRun || r.Sub != "" || r.Warn == nil {
			return nil
		}
		obj := r.Object
		if r.Op == admission.Delete {
			obj = leaving(r.Old)
		}
		if obj == nil {
			return nil
		}
		for _, run := range runners {
			if run.kind != r.Kind.Info().GVK.GroupKind() {
				continue
			}
			for _, text := range run.foretell(ctx, obj) {
				r.Warn(oneLine(text))
			}
		}
		return nil
	}}
}

// leaving returns an object in the state after its deletion was asked for.
func leaving(old resource.Object) resource.Object {
	if old == nil || len(old.GetFinalizers()) == 0 {
		return nil
	}
	obj := resource.Clone(old)
	now := metav1.Now()
	obj.SetDeletionTimestamp(&now)
	return obj
}

// oneLine makes a text fit for a header.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
