package general

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/mentions"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// queues and works are phases of what waits for its turn, and of what somebody is at.
var (
	queues = pattern.New(`(?i)^(new|queued|[a-z]*pending|waiting[a-z]*|scheduling|submitted)$`)
	works  = pattern.New(`(?i)^(in-?progress|progressing|provisioning|initializing|creating|starting|restoring|deploying|updating|` +
		`prepared|preparing|finalizing|` +
		`upgrading|bootstrapping|registering|validating|applyingchanges|reconciling|configuring|installing|resizing|migrating)$`)
)

// How long an object may say that it waits for its turn, and that it is worked on, until somebody should look. Backups take hours.
const longQueue, longWork = 30 * time.Minute, 12 * time.Hour

// lingers judges an object that says for long that it waits or is at work. One whose controller warns of it meanwhile is given less time.
func lingers(w *converge.World, obj resource.Object, status map[string]any) converge.Health {
	for _, field := range []string{"phase", "state", "status", "currentState"} {
		word, limit := words.String(status, field), longWork
		first, _, _ := strings.Cut(word, " ") // Provisioning initial users
		switch {
		case queues.MatchString(first):
			limit = longQueue
		case !works.MatchString(first) && !(strings.EqualFold(first, "running") && runsOut(obj, status)):
			continue
		}
		if NewestWarning((&converge.Look{World: w, Obj: obj})) != nil {
			limit = SlowStart
		}
		if since := begun(obj, status); !w.Early(since.Add(limit)) {
			return converge.Health{Says: "has been in phase " + word + " for " + words.Ago(w.Now.Sub(since)),
				Want: "status." + field + " another word",
				Have: "status." + field + "=" + word, Since: since}
		}
	}
	return converge.Health{}
}

// errands are kinds of what is done once, and ends of times by which a status says that it was.
var (
	errands = pattern.New(`(Backup|Restore|Migration|Export|Import|Run|Job|Task)$`)
	ended   = []string{"stoppedAt", "completedAt", "finishedAt", "completionTime", "completionTimestamp", "endTime"}
)

// runsOut says that an object is done once, was begun, and has not ended.
func runsOut(obj resource.Object, status map[string]any) bool {
	tree, _ := words.Tree(obj)
	return errands.MatchString(words.String(tree, "kind")) && words.String(status, "startedAt")+words.String(status, "startTimestamp") != "" &&
		!slices.ContainsFunc(ended, func(field string) bool { return words.String(status, field) != "" })
}

// abandoned names the pod that a status says was at it, if that was started after it began.
func abandoned(l *converge.Look, status map[string]any) string {
	parts := []map[string]any{status}
	for _, field := range slices.Sorted(maps.Keys(status)) {
		part, _ := status[field].(map[string]any)
		parts = append(parts, part)
	}
	for _, part := range parts {
		p := resource.Get(l.Read, core.Pods, l.Obj.GetNamespace(), words.String(part, "podName"))
		if p != nil && p.Status.StartTime != nil && p.Status.StartTime.After(begun(l.Obj, status)) {
			return p.Name
		}
	}
	return ""
}

// begun is the newest time of those that a status has for what it does now.
func begun(obj resource.Object, status map[string]any) time.Time {
	at := obj.GetCreationTimestamp().Time
	times := []string{words.String(status, "lastTransitionTime"), words.String(status, "startTimestamp"),
		words.String(status, "startTime"), words.String(status, "startedAt")}
	for _, c := range words.ConditionsIn(status) {
		times = append(times, c.At)
	}
	for _, s := range times {
		if t, err := time.Parse(time.RFC3339, s); err == nil && t.After(at) {
			at = t
		}
	}
	return at
}

// belied judges an object that says that it is well while a part of its status does not, and its controller warns of it: two witnesses.
func belied(w *converge.World, obj resource.Object, status map[string]any) converge.Health {
	if !words.SaysWell(status) || NewestWarning((&converge.Look{World: w, Obj: obj})) == nil {
		return converge.Health{}
	}
	c := words.WithinStatus(status, 1, words.PastFields)
	return converge.Health{Says: c.Says, Want: c.Want, Have: c.Have, Since: c.Since}
}

// fewer says that a status counts fewer that are ready than there are to be, as readyInstances of instances, whatever it says of the whole.
func fewer(tree map[string]any) bool {
	spec, _ := tree["spec"].(map[string]any)
	status, _ := tree["status"].(map[string]any)
	for _, field := range slices.Sorted(maps.Keys(status)) {
		what, is := strings.CutPrefix(field, "ready")
		have, counts := status[field].(int64)
		if !is || !counts || what == "" {
			continue
		}
		for _, from := range []map[string]any{spec, status} {
			if want, is := from[strings.ToLower(what[:1])+what[1:]].(int64); is && have < want {
				return true
			}
		}
	}
	return false
}

// TakesLong: nothing is known but that it is said for long.
func TakesLong(l *converge.Look, status map[string]any) *converge.Finding {
	if h := lingers(l.World, l.Obj, status); h.Converged() || h.Have != l.Judged.Have || NewestWarning(l) != nil {
		return nil
	}
	who, says := l.Keeper(), ": either it takes so long, or nobody is at it any more"
	tree, _ := words.Tree(l.Obj)
	s := mentions.Of(l)
	s.Mentions(tree)
	f := &converge.Finding{Words: l.Judged.Have, Owner: who, State: converge.Waiting, Waits: converge.ForName("Controller", who),
		Next: converge.Does(who, "goes on with it, if it is at it"), Advice: []string{LogOf(l, who)}}
	for _, m := range s.Found {
		if m.Obj != nil && !l.Health(m.Kind, m.Obj).Converged() {
			f.Says, f.Below, f.Waits = l.Judged.Says, []converge.Ref{m.Ref}, m.Wait()
			return f
		}
	}
	for _, m := range s.Gone {
		says = ": it goes by " + strings.TrimPrefix(m.Says(l.Obj.GetNamespace()), "names ")
	}
	if pod := abandoned(l, status); pod != "" {
		says = ": pod/" + pod + ", which was at it, was started anew since, so nobody is any more"
		f.State, f.Next = converge.Missing, converge.PersonDoes("makes it anew")
		f.Advice = []string{"delete it, and have it made anew: kubectl delete " + l.Kind.Info().GR().String() + " " + converge.Called(l)}
	}
	f.Says = l.Judged.Says + says
	return f
}

// failing finds words by which something was tried, and why it failed.
var failing = pattern.New(`(?i)\b(?:failed|error|denied|refused)\b.*: `)

// besideIt adds what an object says of itself beside its complaint: after that, where it is why, and only what came of it stands first;
// then it returns it.
func besideIt(l *converge.Look, f *converge.Finding, tree map[string]any, complaint string, telling bool) (why string) {
	for _, r := range Besides(mentions.Of(l), tree) {
		if complaint != "" && !strings.Contains(r.Says, words.OneLine(complaint)) {
			f.Aside = "it " + r.Says
			break
		}
	}
	if telling || !strings.HasPrefix(f.Aside, "it says ") || !failing.MatchString(f.Aside) ||
		strings.Contains(f.Aside, "exceeded quota") { // the quota's own step says more
		return ""
	}
	why, f.Aside = f.Aside, ""
	f.Says += "; " + why
	return " " + why
}
