// Package authtest holds a resource.Reader over a plain list of objects, for tests.
package authtest

import (
	"iter"
	"slices"
	"strings"

	"github.com/kloop-dev/kloop/resource"
)

// A Cluster is a state of the cluster for tests: objects by kind. The zero value is empty. It is not safe for
// use while it is being changed.
type Cluster struct {
	rev  int64
	objs map[string][]resource.Object // by kind, in order
}

// Of returns a cluster that holds the objects of one kind; Put adds further ones.
func Of[T resource.Object](d *resource.Def[T], objs ...T) *Cluster {
	return Put(&Cluster{}, d, objs...)
}

// Put adds objects, or replaces those of the same name.
func Put[T resource.Object](c *Cluster, d *resource.Def[T], objs ...T) *Cluster {
	for _, o := range objs {
		c.Add(d, o)
	}
	return c
}

// Add adds an object, or replaces the one of the same name.
func (c *Cluster) Add(k resource.Kind, o resource.Object) {
	c.Remove(k, o.GetNamespace(), o.GetName())
	gr := k.Info().GR().String()
	c.objs[gr] = append(c.objs[gr], o)
	slices.SortFunc(c.objs[gr], func(a, b resource.Object) int {
		return strings.Compare(a.GetNamespace()+"/"+a.GetName(), b.GetNamespace()+"/"+b.GetName())
	})
}

// Remove takes an object out.
func (c *Cluster) Remove(k resource.Kind, ns, name string) {
	if c.objs == nil {
		c.objs = map[string][]resource.Object{}
	}
	c.rev++
	gr := k.Info().GR().String()
	c.objs[gr] = slices.DeleteFunc(slices.Clone(c.objs[gr]), func(o resource.Object) bool {
		return o.GetNamespace() == ns && o.GetName() == name
	})
}

// Revision implements resource.Reader.
func (c *Cluster) Revision(resource.Kind) int64 { return c.rev }

// Lookup implements resource.Reader.
func (c *Cluster) Lookup(k resource.Kind, ns, name string) resource.Object {
	for o := range c.Each(k, ns) {
		if o.GetNamespace() == ns && o.GetName() == name {
			return o
		}
	}
	return nil
}

// Each implements resource.Reader.
func (c *Cluster) Each(k resource.Kind, ns string) iter.Seq[resource.Object] {
	return c.filter(k, func(o resource.Object) bool { return ns == "" || o.GetNamespace() == ns })
}

// ByOwner implements resource.Reader.
func (c *Cluster) ByOwner(k resource.Kind, uid string) iter.Seq[resource.Object] {
	return c.filter(k, func(o resource.Object) bool {
		for _, r := range o.GetOwnerReferences() {
			if string(r.UID) == uid {
				return true
			}
		}
		return false
	})
}

// ByField implements resource.Reader.
func (c *Cluster) ByField(k resource.Kind, label, value string) iter.Seq[resource.Object] {
	resource.MustIndex(k, label)
	return c.filter(k, func(o resource.Object) bool { return k.Field(o, label) == value })
}

// ByLabel implements resource.Reader.
func (c *Cluster) ByLabel(k resource.Kind, ns, label, value string) iter.Seq[resource.Object] {
	return c.filter(k, func(o resource.Object) bool {
		return (ns == "" || o.GetNamespace() == ns) && o.GetLabels()[label] == value
	})
}

func (c *Cluster) filter(k resource.Kind, ok func(resource.Object) bool) iter.Seq[resource.Object] {
	return func(yield func(resource.Object) bool) {
		for _, o := range c.objs[k.Info().GR().String()] {
			if ok(o) && !yield(o) {
				return
			}
		}
	}
}
