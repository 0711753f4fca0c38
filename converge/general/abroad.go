package general

import (
	"strings"

	"github.com/kloop-dev/kloop/converge"
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
