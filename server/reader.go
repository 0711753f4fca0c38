package server

import (
	"iter"
	"sync"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

// newest is the state at its first use, for those who may not need it: a snapshot after every write costs the
// view copies of what changed. A single object is read without one, as it is now.
type newest struct {
	view *view.View
	once sync.Once
	snap *view.Snapshot
}

var _ resource.Reader = (*newest)(nil)

func (n *newest) read() *view.Snapshot {
	n.once.Do(func() { n.snap = n.view.Snapshot() })
	return n.snap
}

// Revision implements resource.Reader.
func (n *newest) Revision(k resource.Kind) int64 { return n.read().Revision(k) }

// Lookup implements resource.Reader.
func (n *newest) Lookup(k resource.Kind, ns, name string) resource.Object {
	return n.view.Entry(k, ns, name).Found()
}

// Each implements resource.Reader.
func (n *newest) Each(k resource.Kind, ns string) iter.Seq[resource.Object] {
	return n.read().Each(k, ns)
}

// Count returns how many objects of the kind there are; it costs less than Each.
func (n *newest) Count(k resource.Kind, ns string) int { return n.read().Count(k, ns) }

// ByOwner implements resource.Reader.
func (n *newest) ByOwner(k resource.Kind, uid string) iter.Seq[resource.Object] {
	return n.read().ByOwner(k, uid)
}

// ByField implements resource.Reader.
func (n *newest) ByField(k resource.Kind, label, value string) iter.Seq[resource.Object] {
	return n.read().ByField(k, label, value)
}

// ByLabel implements resource.Reader.
func (n *newest) ByLabel(k resource.Kind, ns, label, value string) iter.Seq[resource.Object] {
	return n.read().ByLabel(k, ns, label, value)
}
