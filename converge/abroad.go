package converge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/resource"
)

// What is known of controllers where nobody tells who is connected: a cluster that is read from outside. Leases and workloads tell of
// some that they do not run; of the others it is said that it is not known.

// outside says that the cluster is read from outside: nothing tells who watches, nor what loops do.
func (w *World) outside() bool { return w.Callers == nil && w.Loops == nil }

// unknowable ends a sentence about somebody of whom nothing tells whether they run.
const unknowable = "; whether it runs is not known here"

// runsAbroad adds whether the program of a name seems to run: drivers' programs elect a leader by a lease that has it, with dashes.
func (l *look) runsAbroad(f *Finding, name string) {
	if !l.outside() {
		return
	}
	var newest *coordinationv1.Lease
	dashed := strings.NewReplacer(".", "-", "/", "-").Replace(name)
	for _, lease := range resource.List(l.Read, kinds.Leases, "") {
		if lease.Spec.RenewTime != nil && (strings.Contains(lease.Name, dashed) || strings.Contains(lease.Name, name)) &&
			(newest == nil || newest.Spec.RenewTime.Before(lease.Spec.RenewTime)) {
			newest = lease
		}
	}
	switch {
	case newest == nil:
		f.Says += unknowable
	case l.Now.Sub(newest.Spec.RenewTime.Time) > max(leaseLife(newest), time.Minute):
		f.State, f.Next = Missing, does(f.Next.Who, "%s when it runs", f.Next.What)
		f.Says += fmt.Sprintf("; it seems not to run: its lease %s/%s was renewed last %s ago", newest.Namespace, newest.Name,
			ago(l.Now.Sub(newest.Spec.RenewTime.Time)))
	}
}

// finalizerAbroad adds whether who has to remove a finalizer seems to run, and how to do without them.
func (l *look) finalizerAbroad(f *Finding, name, who string) {
	f.Advice = append(f.Advice,
		"if it will never run again, remove the finalizer by hand; what it was to clean up stays behind: "+l.without(name))
	k, obj, off := l.programOf(who, nil)
	if obj == nil {
		f.Says += unknowable
		return
	}
	at := new(objectOf(k, obj)).Short() + " in namespace " + obj.GetNamespace()
	f.State, f.Says = Missing, f.Says+", and "+at+", which set it, does not run"
	if off {
		f.Says = strings.TrimSuffix(f.Says, "does not run") + "is scaled to 0"
	} else {
		f.Below = []Ref{refTo(k, obj)}
	}
}

// untold explains an object of a kind that users defined whose status nobody ever wrote, though its definition has one: it can't be said
// to be what it should be. Many kinds have a status that nobody writes, so only a question for the object itself comes to this.
func (w *World) untold(k resource.Kind, obj resource.Object) *convergence.Gap {
	tree, custom := content(obj)
	status, _ := tree["status"].(map[string]any)
	if !custom || !w.outside() || len(status) > 0 || obj.GetDeletionTimestamp() != nil || !w.hasStatus(k) {
		return nil
	}
	gr := k.Info().GR().String()
	says := "has a status that nobody has written yet"
	told, all := 0, 0
	for other := range w.Read.Each(k, "") {
		tree, _ := content(other)
		if status, _ := tree["status"].(map[string]any); len(status) > 0 {
			told++
		}
		all++
	}
	if told > 0 {
		says += fmt.Sprintf(", though %d of %s have one", told, count(all, k.Info().Singular))
	}
	who := "the controller of " + gr
	s := &Step{Object: objectOf(k, obj), Cause: "NotKnown", Health: Health{Says: says, Since: obj.GetCreationTimestamp().Time},
		Finding: Finding{Says: says, Owner: who, State: Resting, Waits: on("Field", refTo(k, obj), "status"),
			Next:   does(who, "writes its status, if it runs and writes one"),
			Advice: []string{"look whether its controller runs, and at its log: kubectl get pods -A"}}}
	g := s.Gap()
	g.Verdict = s.Object.Short() + " " + says + ", so whether it is what it should be is not known; neither is whether a controller watches " +
		gr
	return g
}

// hasStatus says that the kind's definition gives its objects a status of their own: somebody means to write it.
func (w *World) hasStatus(k resource.Kind) bool {
	obj := w.Read.Lookup(kinds.CustomResourceDefinitions, "", k.Info().GR().String())
	if obj == nil {
		return false
	}
	def := resource.Outline[*apiextensionsv1.CustomResourceDefinition](obj)
	return slices.ContainsFunc(def.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return v.Subresources != nil && v.Subresources.Status != nil
	})
}
