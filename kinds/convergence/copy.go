package convergence

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// DeepCopyObject implements runtime.Object.
func (g *Gap) DeepCopyObject() runtime.Object {
	out := *g
	g.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	if g.Waits != nil {
		w := *g.Waits
		w.On = clone(w.On)
		out.Waits = &w
	}
	out.Next.At = clone(g.Next.At)
	out.Error = g.Error.copy()
	out.Commands = slices.Clone(g.Commands)
	out.Advice, out.Chain = slices.Clone(g.Advice), slices.Clone(g.Chain)
	for i := range out.Chain {
		out.Chain[i].Error = g.Chain[i].Error.copy()
	}
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *Loop) DeepCopyObject() runtime.Object {
	out := *l
	l.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.LastSuccess, out.LastError, out.Writes = clone(l.LastSuccess), l.LastError.copy(), slices.Clone(l.Writes)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (f *Fight) DeepCopyObject() runtime.Object {
	out := *f
	f.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Managers, out.Values = slices.Clone(f.Managers), slices.Clone(f.Values)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (r *Report) DeepCopyObject() runtime.Object {
	out := *r
	r.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Loops, out.Records, out.Watches, out.Refused = slices.Clone(r.Loops), slices.Clone(r.Records), slices.Clone(r.Watches),
		slices.Clone(r.Refused)
	if r.Server != nil {
		s := *r.Server
		s.Silent, s.Ending = slices.Clone(s.Silent), slices.Clone(s.Ending)
		out.Server = &s
	}
	for i := range out.Loops {
		out.Loops[i] = *r.Loops[i].DeepCopyObject().(*Loop)
	}
	for i := range out.Refused {
		out.Refused[i].Error = *r.Refused[i].Error.copy()
	}
	return &out
}

func (f *Failure) copy() *Failure {
	if f == nil {
		return nil
	}
	return &Failure{Message: f.Message, Count: f.Count, First: clone(f.First), Last: clone(f.Last)}
}

func clone[T Object | metav1.Time](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}
