package plan

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/internal/coldsort"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// Options bound a plan. The zero value is the common case.
type Options struct {
	For time.Duration // how far to look, in simulated time; 0: an hour
}

// The usual bounds in simulated time.
const (
	usualSpan  = time.Hour
	longestLet = 20 * time.Minute // that the fork is given to come to rest before the change
	ripens     = 3 * time.Second  // until a gap is spoken of: a loop that has just looked again may seem to have a new one
)

// Run tells what follows from a change to a cluster. It returns an error when it can't: the target does not exist, ctx ended, or
// what was forked can't be run. What the front door refuses is no error but part of the report. It may be called by many goroutines
// at once, with the same fork too.
func Run(ctx context.Context, f *Fork, c Change, o Options) (*Report, error) {
	return forecast(ctx, f, c, o, func(*world) {})
}

// forecast is Run; see is shown the world at the end.
func forecast(ctx context.Context, f *Fork, c Change, o Options, see func(*world)) (*Report, error) {
	s, err := f.grow()
	if err != nil {
		return nil, err
	}
	own := *s // notes are added
	own.notes = slices.Clone(s.notes)
	var out *Report
	err = simulate(f.At, func() (err error) {
		bubble, stop := context.WithCancel(context.WithoutCancel(ctx))
		var w *world
		defer func() {
			stop()
			if w != nil {
				w.wg.Wait()
			}
		}()
		luck := luckOf(f, s, c)
		if w, err = newWorld(bubble, &own, luck, newTurns(luck)); err != nil {
			return err
		}
		w.ended = ctx.Err
		if out, err = w.play(bubble, f, c, cmp.Or(o.For, usualSpan)); err == nil {
			see(w)
		}
		return err
	})
	return out, err
}

// luckOf makes the dice follow from what is asked: the same fork and change give the same answer.
func luckOf(f *Fork, s *seed, c Change) uint64 {
	sum := fnv.New64a()
	for _, wr := range s.writes {
		_, _ = sum.Write([]byte(wr.Key))
		_, _ = sum.Write(wr.Value)
	}
	_, _ = sum.Write([]byte(f.At.Format(time.RFC3339) + c.key))
	return sum.Sum64()
}

// play lets the world come to rest, makes the change, lets it come to rest again, and compares.
func (w *world) play(ctx context.Context, f *Fork, c Change, span time.Duration) (*Report, error) {
	let := w.begun.Add(longestLet)
	if err := w.pass(let, (&calm{w: w, horizon: let}).reached); err != nil {
		return nil, err
	}
	if !time.Now().Before(let) {
		w.seed.notes = append(w.seed.notes, fmt.Sprintf("the cluster was not at rest: the change was made after %s of its going on", longestLet))
	}
	before := w.view.Snapshot()
	gapsBefore, err := w.gaps(ctx)
	if err != nil {
		return nil, err
	}
	clear(w.asked)
	track, begun := follow(before), time.Now()
	w.look, w.news, w.changed = track.see, begun, begun
	a := &author{w: w, end: begun.Add(span)}
	if err := c.make(ctx, a); err != nil {
		return nil, err
	}
	rest := &calm{w: w, horizon: a.end}
	atRest := false
	if err := w.pass(a.end, func() bool { atRest = rest.reached(); return atRest }); err != nil {
		return nil, err
	}
	lasted := time.Since(begun)
	if err := w.pass(time.Now().Add(ripens), func() bool { return false }); err != nil {
		return nil, err
	}
	after := w.view.Snapshot()
	gapsAfter, err := w.gaps(ctx)
	if err != nil {
		return nil, err
	}
	r := w.report(f, before, after)
	r.Change, r.AtRest, r.Refused, r.Warnings, r.Webhooks = c.Text, atRest, a.refused, a.told, sortedCounts(w.asked)
	if atRest {
		r.Lasts = Duration(max(0, w.news.Sub(begun)))
	} else {
		r.Lasts = Duration(lasted)
	}
	r.Gaps, r.Still, r.Closed = compareGaps(gapsBefore, gapsAfter)
	for i := range r.Gaps {
		r.Gaps[i].Asked = a.asked(r.Gaps[i].Object, after)
	}
	r.Workloads, r.Preemptions = track.finish(after, w.news), track.victims
	r.Evictions = append(a.evicted, track.taints...)
	coldsort.Func(r.Evictions, func(a, b Eviction) int { return cmp.Or(cmp.Compare(a.After, b.After), compare(a.Object, b.Object)) })
	if r.Steps = track.film.steps; track.film.cut {
		r.Unknown = append(r.Unknown, fmt.Sprintf("what happened after the first %d steps of pods: the film ends there", filmSteps))
	}
	r.judge()
	return r, nil
}

// report compares the states before and after the change.
func (w *world) report(f *Fork, before, after resource.Reader) *Report {
	r := &Report{}
	r.Cluster = Cluster{Server: f.Server, Version: f.Version, Rules: "1." + fmt.Sprint(w.seed.on.Minor()), At: f.At, Objects: f.Count(),
		Nodes: len(resource.List(w.first, kinds.Nodes, "")), Pods: len(resource.List(w.first, kinds.Pods, ""))}
	d, anyway := between(w.set, before, after), between(w.set, w.first, before)
	r.Made, r.Changed, r.Removed, r.Status = d.made, d.changed, d.removed, d.status
	for verb, list := range map[string][]Effect{"made": anyway.made, "changed": anyway.changed, "removed": anyway.removed} {
		for _, e := range list {
			e.Verb = verb
			r.Anyway = append(r.Anyway, e)
		}
	}
	coldsort.Func(r.Anyway, func(a, b Effect) int { return cmp.Or(compare(a.Object, b.Object), cmp.Compare(a.Verb, b.Verb)) })
	r.Unfit, r.Unknown = unfit(before, after), unknown(f, w.seed.notes)
	return r
}

// asked says that the author asked for a gap: a node that is lost, and pods that it can't let go.
func (a *author) asked(o Object, read resource.Reader) bool {
	switch o.Kind {
	case "Node":
		return a.lost[o.Name]
	case "Pod":
		p := resource.Get(read, kinds.Pods, o.Namespace, o.Name)
		return p != nil && a.lost[p.Spec.NodeName]
	}
	return false
}

// unfit are the pods that wait for a node at the end and did not before, by owner and reason.
func unfit(before, after resource.Reader) (list []Unfit) {
	for _, p := range resource.List(after, kinds.Pods, "") {
		if !pending(p) {
			continue
		}
		if old := resource.Get(before, kinds.Pods, p.Namespace, p.Name); old != nil && old.UID == p.UID && pending(old) {
			continue
		}
		u := Unfit{Object: objectOf(kinds.Pods, p), Count: 1, Owner: controllerOf(p)}
		if p.GenerateName != "" {
			u.Name = ""
		}
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
				u.Why = c.Message
			}
		}
		same := func(o Unfit) bool { return o.Object == u.Object && o.Owner == u.Owner && o.Why == u.Why }
		if at := slices.IndexFunc(list, same); at >= 0 && u.Name == "" {
			list[at].Count++
			continue
		}
		list = append(list, u)
	}
	coldsort.Func(list, func(a, b Unfit) int {
		return cmp.Or(compare(a.Object, b.Object), cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Why, b.Why))
	})
	return list
}

// unknown lists the limits of the plan's knowledge, in words.
func unknown(f *Fork, notes []string) (list []string) {
	list = append(append(list, f.Unseen...), notes...)
	scaled := 0
	for range each(f, kinds.HorizontalPodAutoscalers) {
		scaled++
	}
	if scaled > 0 {
		list = append(list, fmt.Sprintf("what %s would do: metrics are not known, so sizes stay as they are within the bounds", plural(scaled,
			"HorizontalPodAutoscaler")))
	}
	for _, gr := range loopsOutside(f) {
		list = append(list, fmt.Sprintf("what the controller of %s would do: it is not part of Kubernetes", gr))
	}
	for s := range each(f, kinds.Services) {
		if s.Spec.Type == corev1.ServiceTypeLoadBalancer {
			list = append(list, "which addresses Services of type LoadBalancer get: their controller is not part of Kubernetes")
			break
		}
	}
	return list
}

// judge sums the report up.
func (r *Report) judge() {
	stays := 0
	for _, e := range r.Evictions {
		if e.Stays {
			stays++
		}
	}
	worst := ""
	for _, w := range r.Workloads {
		if w.None > 0 && w.Before > 0 {
			worst = fmt.Sprintf("%s has no available pod for %s", w.Object, w.None)
			break
		}
	}
	gaps := 0
	for _, g := range r.Gaps {
		if !g.Asked {
			gaps++
		}
	}
	r.Stuck = len(r.Refused) > 0 || gaps > 0 || stays > 0
	switch {
	case len(r.Refused) > 0:
		r.Verdict = "refused: " + r.Refused[0].String() + ": " + r.Refused[0].Message
	case stays > 0:
		r.Verdict = fmt.Sprintf("does not end: %s may not be evicted", plural(stays, "pod"))
	case gaps == 1:
		r.Verdict = "stuck: one gap remains that is not there today"
	case gaps > 0:
		r.Verdict = fmt.Sprintf("stuck: %d gaps remain that are not there today", gaps)
	case worst != "":
		r.Verdict = "ends well after " + r.Lasts.String() + ", but " + worst
	default:
		r.Verdict = "ends well after " + r.Lasts.String()
	}
}
