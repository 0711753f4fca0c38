package general

import (
	"strings"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/words"
)

// finalizerAbroad adds whether who has to remove a finalizer seems to run, and how to do without them.
func finalizerAbroad(l *converge.Look, f *converge.Finding, name, who string) {
	f.Advice = append(f.Advice,
		"if it will never run again, remove the finalizer by hand; what it was to clean up stays behind: "+without(l, name))
	k, obj, off := programOf(l, who, nil)
	if obj == nil && l.Kind.Info().Custom {
		if k, obj = KeeperDown(l.World, l.Kind); obj != nil {
			want, _ := l.Workloads().Copies(obj)
			off = want == 0
		}
	}
	if obj == nil {
		if _, runs := programAt(l.World, l.Kind, who); runs == nil && l.Kind.Info().Custom && seesPrograms(l.World) {
			f.Says += "; no workload here has its name"
			f.Advice[0] = "if it runs under another name, or elsewhere, look at its log; if it was taken away, install it again: kubectl get pods -A"
			return
		}
		f.Says += converge.Unknowable
		return
	}
	at := new(converge.ObjectOf(k, obj)).Short() + " in namespace " + obj.GetNamespace()
	f.State, f.Says = converge.Missing, f.Says+", and "+at+", which set it, does not run"
	if off {
		f.Says = strings.TrimSuffix(f.Says, "does not run") + "is scaled to 0"
		f.Advice = append([]string{"scale it up: kubectl scale " + new(converge.ObjectOf(k, obj)).Short() + " --replicas=1 -n " +
			obj.GetNamespace()}, f.Advice...)
	} else {
		f.Below = []converge.Ref{converge.RefTo(k, obj)}
	}
}

// seesPrograms says that who asks may see all workloads in which controllers run, and that there are any.
func seesPrograms(w *converge.World) bool {
	any := false
	for _, k := range w.Served(Deployments, StatefulSets, daemonSetsOf) {
		if !w.Sees(k, "") {
			return false
		}
		for range w.Read.Each(k, "") {
			any = true
			break
		}
	}
	return any
}

// toldByHolder adds what the last words of the program that set a finalizer lead to, as those of any controller do: what they name that is
// not there or not well, and the step that helps.
func toldByHolder(l *converge.Look, f *converge.Finding) {
	tree, custom := words.Tree(l.Obj)
	if f.Told == "" || len(f.Below) > 0 || f.State == converge.Missing || !words.Faulty.MatchString(f.Told) {
		return
	}
	if by := (&converge.Finding{Owner: f.Owner, State: converge.Waiting}); custom {
		named(l, by, tree, f.Told)
		f.Says += by.Says
		if f.Below = by.Below; by.Waits != nil {
			f.Waits, f.Next = by.Waits, by.Next
		}
		f.Advice = append(by.Advice, f.Advice...)
		if len(by.Advice) > 0 || by.Waits != nil {
			return
		}
	}
	if s, ok := words.Meaning(words.Overheard, strings.ToLower(f.Told)); ok {
		f.Advice = append([]string{converge.Filled(l, s.Advice())}, f.Advice...)
	}
}
