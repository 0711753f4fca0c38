package converge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds/apiextensions"
	"github.com/kloop-dev/kloop/kinds/coordination"
	"github.com/kloop-dev/kloop/resource"
)

// What is known of controllers where nobody tells who is connected: a cluster that is read from outside. Leases and workloads tell of
// some that they do not run; of the others it is said that it is not known.

// Outside says that the cluster is read from outside: nothing tells who watches, nor what loops do.
func (w *World) Outside() bool { return w.Callers == nil && w.Loops == nil }

// Unknowable ends a sentence about somebody of whom nothing tells whether they run.
const Unknowable = "; whether it runs is not known here"

// RunsAbroad adds whether the program of a name seems to run: drivers' programs elect a leader by a lease that has it, with dashes.
func (l *Look) RunsAbroad(f *Finding, name string) {
	if !l.Outside() {
		return
	}
	var newest *coordinationv1.Lease
	dashed := strings.NewReplacer(".", "-", "/", "-").Replace(name)
	for _, lease := range resource.List(l.Read, coordination.Leases, "") {
		if lease.Spec.RenewTime != nil && (strings.Contains(lease.Name, dashed) || strings.Contains(lease.Name, name)) &&
			(newest == nil || newest.Spec.RenewTime.Before(lease.Spec.RenewTime)) {
			newest = lease
		}
	}
	switch {
	case newest == nil:
		f.Says += Unknowable
	case l.Now.Sub(newest.Spec.RenewTime.Time) > max(LeaseLife(newest), time.Minute):
		f.State, f.Next = Missing, Does(f.Next.Who, "%s when it runs", f.Next.What)
		f.Says += fmt.Sprintf("; it seems not to run: its lease %s/%s was renewed last %s ago", newest.Namespace, newest.Name,
			words.Ago(l.Now.Sub(newest.Spec.RenewTime.Time)))
	}
}

// HasStatus says that the kind's definition gives its objects a status of their own: somebody means to write it.
func (w *World) HasStatus(k resource.Kind) bool {
	obj := w.Read.Lookup(apiextensions.CustomResourceDefinitions, "", k.Info().GR().String())
	if obj == nil {
		return false
	}
	def := resource.Outline[*apiextensionsv1.CustomResourceDefinition](obj)
	return slices.ContainsFunc(def.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return v.Subresources != nil && v.Subresources.Status != nil
	})
}
