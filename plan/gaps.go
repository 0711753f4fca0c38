package plan

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/gaps"
	"github.com/kloop-dev/kloop/converge/rules"
	"github.com/kloop-dev/kloop/internal/coldsort"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/resource"
)

// A wall is the store of a cache of gaps.
type wall struct{ gaps map[Object]Gap }

// Watched implements gaps.Store.
func (*wall) Watched() bool { return false }

// Change implements gaps.Store.
func (w *wall) Change(_ context.Context, _ resource.Kind, put, _ []resource.Object) error {
	for _, obj := range put {
		if g, ok := obj.(*convergence.Gap); ok {
			o := Object{g.Object.Kind, g.Object.Namespace, g.Object.Name}
			w.gaps[o] = Gap{Object: o, Verdict: g.Verdict, Cause: g.Cause, Owner: g.Owner, State: g.State, Advice: g.Advice,
				NoCommand: g.NoCommand}
		}
	}
	return nil
}

// gaps explains what is not what it should be now.
func (w *world) gaps(ctx context.Context) (map[Object]Gap, error) {
	out := &wall{gaps: map[Object]Gap{}}
	b := &gaps.Cache{Rules: rules.All(), Client: w.admin(), Store: out,
		Loops: &converge.Processes{Here: &w.loops, Kinds: w.set, Read: w.admin().Read, Now: time.Now}}
	if err := b.Refresh(ctx, convergence.Gaps); err != nil {
		return nil, err
	}
	for o, g := range out.gaps {
		switch {
		case o.Kind == "HorizontalPodAutoscaler": // its loop does not run here
			delete(out.gaps, o)
		case g.Cause == "OperatorBehind": // nor does the operator: what it would do is not known
			delete(out.gaps, o)
		}
		if o.Kind != "Service" {
			continue
		}
		s := resource.Get(w.view.Snapshot(), kinds.Services, o.Namespace, o.Name)
		if s != nil && s.Spec.Type == corev1.ServiceTypeLoadBalancer && len(s.Status.LoadBalancer.Ingress) == 0 {
			delete(out.gaps, o) // who gives addresses is outside, and knows how
		}
	}
	foldRuns(w.view.Snapshot(), out.gaps)
	return out.gaps, nil
}

// foldRuns has one gap of a cron job in place of those of its jobs, that of the first one: a cron job whose jobs get stuck makes more of
// them as time goes on, whatever is changed.
func foldRuns(read resource.Reader, gaps map[Object]Gap) {
	first := map[Object]Object{} // by cron job
	for o := range gaps {
		if o.Kind != "Job" {
			continue
		}
		j := resource.Get(read, kinds.Jobs, o.Namespace, o.Name)
		if j == nil {
			continue
		}
		if owner := metav1.GetControllerOfNoCopy(j); owner != nil && owner.Kind == "CronJob" {
			of := Object{owner.Kind, o.Namespace, owner.Name}
			had, is := first[of]
			switch {
			case !is:
				first[of] = o
			case o.Name < had.Name:
				first[of] = o
				delete(gaps, had)
			default:
				delete(gaps, o)
			}
		}
	}
	for of, o := range first {
		g := gaps[o]
		delete(gaps, o)
		if _, has := gaps[of]; !has {
			g.Object = of
			gaps[of] = g
		}
	}
}

// compareGaps tells new gaps from old ones, and those that are closed.
func compareGaps(was, is map[Object]Gap) (fresh, still, closed []Gap) {
	for o, g := range is {
		if _, old := was[o]; old {
			still = append(still, g)
		} else {
			fresh = append(fresh, g)
		}
	}
	for o, g := range was {
		if _, there := is[o]; !there {
			closed = append(closed, g)
		}
	}
	for _, list := range [][]Gap{fresh, still, closed} {
		coldsort.Func(list, func(a, b Gap) int { return compare(a.Object, b.Object) })
	}
	return fresh, still, closed
}
