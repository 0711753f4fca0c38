package server

import (
	"iter"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

// newest is the state at the time of each read, kind by kind: a snapshot of all at every write would cost the view copies of what
// changed. A single object is read without one.
type newest struct{ view *view.View }

var _ resource.Reader = newest{}

// Revision implements resource.Reader.
func (n newest) Revision(k resource.Kind) int64 { return view.SnapshotOf(n.view, k).Revision(k) }

// Lookup implements resource.Reader.
func (n newest) Lookup(k resource.Kind, ns, name string) resource.Object {
	return n.view.Entry(k, ns, name).Found()
}

// Each implements resource.Reader.
func (n newest) Each(k resource.Kind, ns string) iter.Seq[resource.Object] {
	return view.SnapshotOf(n.view, k).Each(k, ns)
}

// Count returns how many objects of the kind there are; it costs less than Each.
func (n newest) Count(k resource.Kind, ns string) int { return view.SnapshotOf(n.view, k).Count(k, ns) }

// ByOwner implements resource.Reader.
func (n newest) ByOwner(k resource.Kind, uid string) iter.Seq[resource.Object] {
	return view.SnapshotOf(n.view, k).ByOwner(k, uid)
}

// ByField implements resource.Reader.
func (n newest) ByField(k resource.Kind, label, value string) iter.Seq[resource.Object] {
	return view.SnapshotOf(n.view, k).ByField(k, label, value)
}

// ByLabel implements resource.Reader.
func (n newest) ByLabel(k resource.Kind, ns, label, value string) iter.Seq[resource.Object] {
	return view.SnapshotOf(n.view, k).ByLabel(k, ns, label, value)
}
