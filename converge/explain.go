package converge

import (
	"cmp"
	"slices"
	"strings"

	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// What bounds an explanation.
const (
	MaxDepth    = 8
	MaxBranches = 3  // different causes below one object
	MaxLooks    = 24 // objects looked at below one object
)

// A Step is an object that is not what it should be, why, and what lies below it.
type Step struct {
	Finding
	Cause  string
	Object convergence.Object
	Health Health
	Below  []*Step
	Others int // further objects beside this one in the same situation
}

// Explain says why an object is not what it should be; nil when it is.
func (w *World) Explain(k resource.Kind, obj resource.Object) *Step {
	l := &Look{World: w, Kind: k, Obj: obj, Owner: OwnerOf(k)}
	l.Judged = w.Health(k, obj)
	if l.Judged.Converged() {
		return l.troubled()
	}
	s := &Step{Object: l.Object(), Health: l.Judged}
	for _, sit := range w.situations(k) {
		if f := sit.See(l); f != nil {
			s.Cause, s.Finding = sit.Name, *f
			break
		}
	}
	l.fill(s.Cause, &s.Finding)
	s.Below = w.Below(loop.KeyOf(k, obj), s.Finding.Below)
	l.complete(&s.Finding, len(s.Below) > 0)
	return s
}

// troubled explains an object that is as it should be, as far as its status tells, though its loop keeps failing at it.
func (l *Look) troubled() *Step {
	r, ok := l.Record(l.Owner, l.Kind, l.Obj)
	if !ok || r.Fails < 2 {
		return nil
	}
	l.Judged = Health{Says: "is not what the loop " + l.Owner + " wants to make of it", Since: r.FirstFail}
	s := &Step{Object: l.Object(), Health: l.Judged, Cause: "LoopFails"}
	for _, sit := range l.Rules.Refusals {
		if f := sit.See(l); f != nil {
			s.Cause, s.Finding = sit.Name, *f
			break
		}
	}
	l.fill(s.Cause, &s.Finding)
	l.complete(&s.Finding, false)
	return s
}

// Below explains what a cause lies in, and groups what is alike.
func (w *World) Below(from loop.Key, list []Ref) (steps []*Step) {
	if len(w.path) >= MaxDepth {
		return nil
	}
	w.path = append(w.path, from)
	defer func() { w.path = w.path[:len(w.path)-1] }()
	for i, r := range list {
		if i == MaxLooks {
			if len(steps) > 0 {
				steps[0].Others += len(list) - i
			}
			break
		}
		s := w.Step(r)
		if s == nil {
			continue
		}
		if at := slices.IndexFunc(steps, func(o *Step) bool { return alike(o, s) }); at >= 0 {
			steps[at].Others++
			continue
		}
		steps = append(steps, s)
	}
	slices.SortStableFunc(steps, func(a, b *Step) int { return cmp.Compare(rank(a), rank(b)) })
	return steps[:min(len(steps), MaxBranches)]
}

// rank puts what is stuck before what merely takes its time, and what many share before what few do.
func rank(s *Step) int {
	r := -s.Others
	if s.Deepest().State == Progressing {
		r += 1 << 20
	}
	return r
}

// Step explains one object of a cause; nil when it is no cause after all.
func (w *World) Step(r Ref) *Step {
	key := loop.Key{Kind: r.Kind, Namespace: r.NS, Name: r.Name}
	if !r.Kind.Info().Namespaced {
		key.Namespace = ""
	}
	if slices.Contains(w.path, key) {
		return nil
	}
	obj := w.Read.Lookup(r.Kind, key.Namespace, key.Name)
	if obj == nil && !w.Sees(r.Kind, key.Namespace) {
		o, says := Named(r.Kind, r.NS, r.Name), "could not be seen: its kind may not be read"
		return &Step{Object: o, Cause: "NotSeen", Health: Health{Says: says}, Finding: Finding{Says: says, Owner: Person, State: Waiting,
			Waits: On("Object", r, ""), Next: Does(Person, "asks somebody who may read %s", r.Kind.Info().Plural)}}
	}
	if obj == nil {
		o, says := Named(r.Kind, r.NS, r.Name), "does not exist"
		if o.Namespace != "" && len(w.path) > 0 && o.Namespace != w.path[0].Namespace {
			says += " in namespace " + o.Namespace
		}
		s := &Step{Object: o, Cause: "NotFound", Health: Health{Says: says}, Finding: Finding{Says: says,
			Owner: Person, State: Blocked, Waits: On("Object", r, ""), Next: Does(Person, "creates %s", o.Short())}}
		if near := w.NearTo(s.Waits); near != "" {
			s.Advice = []string{near}
		}
		if n := len(w.path); n > 0 { // who asks may need what another one is to make
			from := w.path[n-1]
			l := &Look{World: w, Kind: from.Kind, Obj: w.Read.Lookup(from.Kind, from.Namespace, from.Name)}
			l.byMaker(&s.Finding)
			s.Below = w.Below(key, s.Finding.Below)
			if l.rename(&s.Finding); len(s.Advice) > 0 {
				l.complete(&s.Finding, len(s.Below) > 0)
			}
		}
		return s
	}
	return w.Explain(r.Kind, obj)
}

// alike says that two steps tell the same story of different objects.
func alike(a, b *Step) bool {
	if a.Cause != b.Cause || a.Object.Kind != b.Object.Kind || a.State != b.State || len(a.Below) != len(b.Below) {
		return false
	}
	for i := range a.Below {
		if !alike(a.Below[i], b.Below[i]) {
			return false
		}
	}
	return true
}

// Deepest is the step where the first chain of causes ends: whose owner makes the next move.
func (s *Step) Deepest() *Step {
	for len(s.Below) > 0 {
		s = s.Below[0]
	}
	return s
}

// Gap is the explanation as an object of the API.
func (s *Step) Gap() *convergence.Gap {
	d := s.Deepest()
	g := &convergence.Gap{Object: s.Object, Says: s.Health.Says, Want: s.Health.Want, Have: s.Health.Have,
		Cause: d.Cause, Owner: d.Owner, State: d.State, Waits: d.Waits, Next: d.Next, Error: d.Error, Advice: d.Advice,
		NoCommand: d.NoCommand}
	if g.Error == nil {
		g.Error = s.Error
	}
	if s.Error != nil && d != s {
		g.Detail = s.Says
	}
	for at := s; len(g.Advice) == 0 && len(at.Below) > 0; at = at.Below[0] {
		g.Advice, g.NoCommand = at.Advice, cmp.Or(g.NoCommand, at.NoCommand)
	}
	also := s.Also
	if d != s {
		also = append(slices.Clip(d.Also), s.Also...)
	}
	for _, a := range also { // what it says may have been said below
		if at := strings.LastIndex(a, ": kubectl "); at < 0 || !strings.Contains(strings.Join(g.Advice, "\n")+"\n", a[at:]+"\n") {
			g.Advice = append(slices.Clip(g.Advice), a)
		}
	}
	g.Advise(g.Advice)
	for _, aside := range []string{s.Aside, d.Aside} {
		if aside != "" && !strings.Contains(g.Detail, aside) {
			g.Detail = strings.TrimPrefix(g.Detail+"; "+aside, "; ")
		}
	}
	g.Since.Time = s.Health.Since
	g.Namespace, g.Name = s.Object.Namespace, GapName(s.Object)
	if g.Namespace == "" {
		g.Namespace = "default"
	}
	g.CreationTimestamp = g.Since
	g.Labels = map[string]string{"convergence.kloop.dev/cause": d.Cause, "convergence.kloop.dev/kind": s.Object.Kind}
	g.Because = s.because()
	g.Verdict = s.Object.Short() + " " + s.Health.Says
	switch _, more := s.repeats(); {
	case more:
		g.Verdict += ": " + g.Because
	case g.Because != "":
		g.Verdict += " because " + g.Because
	}
	if told := words.OneLine(cmp.Or(s.Told, d.Told)); told != "" && !strings.Contains(g.Verdict, told) {
		g.Verdict += "; its controller last said of it: " + told
	}
	s.Links(g, 1)
	return g
}

// GapName is the name of an object's gap.
func GapName(o convergence.Object) string { return o.Resource + ":" + o.Name }

// because tells the cause in words.
func (s *Step) because() string {
	d := s.Deepest()
	switch {
	case d != s && d.Cause == "NotSeen":
		at := s
		for at.Below[0] != d {
			at = at.Below[0]
		}
		who := "it "
		if at != s {
			who = at.Object.Short() + " "
		}
		return who + at.Says + "; " + d.Object.Short() + " " + d.Says
	case d != s && d.Says != "":
		if gone := "was deleted and is still there"; d.Health.Says == gone && s.Health.Says != gone {
			return d.Object.Short() + " was deleted and " + d.Says
		}
		return d.Object.Short() + " " + d.Says
	case s.Says == s.Health.Says || s.Says == "":
		return ""
	}
	if rest, ok := s.repeats(); ok {
		return rest
	}
	return "it " + s.Says
}

// repeats says that the cause is the gap itself with more to it, and what: "is not ready" and "is not ready: no address".
func (s *Step) repeats() (rest string, ok bool) {
	if s.Deepest() != s {
		return "", false
	}
	if rest, ok = strings.CutPrefix(s.Says, s.Health.Says+": "); !ok {
		rest, ok = strings.CutPrefix(s.Says, s.Health.Says+"; ")
	}
	return rest, ok
}

// Links adds the steps below to the chain of a gap.
func (s *Step) Links(g *convergence.Gap, depth int32) {
	for _, b := range s.Below {
		g.Chain = append(g.Chain, convergence.Link{Depth: depth, Object: b.Object, Says: cmp.Or(b.Says, b.Health.Says),
			Cause: b.Cause, Owner: b.Owner, State: b.State, Error: b.Error, Others: int32(b.Others)})
		b.Links(g, depth+1)
	}
}
