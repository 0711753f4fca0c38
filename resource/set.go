package resource

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/internal/coldsort"
)

// A Set holds the kinds that a server serves. What is added or taken out costs the same however many there are. The zero
// value is empty and ready for use.
type Set struct {
	mu     sync.RWMutex
	byGR   map[schema.GroupResource]Kind
	byGVR  map[schema.GroupVersionResource]Kind
	byGVK  map[schema.GroupVersionKind]Kind
	byGK   map[schema.GroupKind]Kind
	prefix map[string]Kind
	all    []Kind // by group, then plural; nil: to be made

	features *features.Set
	hidden   func(schema.GroupVersionResource) bool // nil: nothing is
}

// NewSet returns a set of the given kinds. It panics when two claim the same name: that is a bug in a table.
func NewSet(list ...Kind) *Set {
	s := &Set{}
	if err := s.Put(list...); err != nil {
		panic(err)
	}
	return s
}

// For returns a set of the given kinds, for a cluster where this is on. What hidden says is not served: it is in the set, for
// what the cluster does itself, but no client finds it by Resource, and Served leaves it out. It is asked of subresources, too: their
// resource is as in discovery, pods/log. nil hides nothing.
func For(on *features.Set, hidden func(schema.GroupVersionResource) bool, list ...Kind) *Set {
	s := NewSet(list...)
	s.features, s.hidden = on, hidden
	return s
}

// Features says what is on in the cluster that the set is of.
func (s *Set) Features() *features.Set { return s.features }

// Served returns every group, version and kind under which the kind is served here, the hub first if it is one of them.
func (s *Set) Served(k Kind) []schema.GroupVersionKind {
	i := k.Info()
	served := i.Served()
	if s.hidden == nil {
		return served
	}
	return slices.DeleteFunc(served, func(gvk schema.GroupVersionKind) bool {
		return s.hidden(gvk.GroupVersion().WithResource(i.Plural))
	})
}

// Subs are the subresources of a kind that a version of it has here.
func (s *Set) Subs(i *Info, gv schema.GroupVersion) []SubInfo {
	if s == nil || s.hidden == nil {
		return i.Subs
	}
	return slices.DeleteFunc(slices.Clone(i.Subs), func(sub SubInfo) bool { return s.hides(i, gv, sub.Name) })
}

// Sub is one of them; every request for one asks.
func (s *Set) Sub(i *Info, gv schema.GroupVersion, name string) (SubInfo, bool) {
	sub, ok := i.Sub(name)
	return sub, ok && !s.hides(i, gv, name)
}

func (s *Set) hides(i *Info, gv schema.GroupVersion, sub string) bool {
	return s.hidden != nil && s.hidden(gv.WithResource(i.Plural+"/"+sub))
}

// free fails when a name of the kind is taken. It needs mu.
func (s *Set) free(kind Kind) error {
	i := kind.Info()
	for _, gvk := range i.Served() {
		gvr := gvk.GroupVersion().WithResource(i.Plural)
		if _, taken := s.byGR[gvr.GroupResource()]; taken {
			return fmt.Errorf("resource %s is declared twice", gvr.GroupResource())
		}
		if _, taken := s.byGVR[gvr]; taken {
			return fmt.Errorf("resource %s is declared twice", gvr)
		}
	}
	return nil
}

// add needs mu, and names that are free.
func (s *Set) add(kind Kind) {
	if s.byGR == nil {
		s.byGR, s.byGVR, s.byGVK = map[schema.GroupResource]Kind{}, map[schema.GroupVersionResource]Kind{}, map[schema.GroupVersionKind]Kind{}
		s.byGK, s.prefix = map[schema.GroupKind]Kind{}, map[string]Kind{}
	}
	i := kind.Info()
	for _, gvk := range i.Served() {
		gvr := gvk.GroupVersion().WithResource(i.Plural)
		s.byGR[gvr.GroupResource()], s.byGVR[gvr], s.byGVK[gvk], s.byGK[gvk.GroupKind()] = kind, kind, kind, kind
	}
	if i.Prefix != "" {
		s.prefix[i.Prefix] = kind
	}
	s.all = nil
}

// remove takes a kind out, and returns it: nil when there is none. It needs mu.
func (s *Set) remove(gr schema.GroupResource) Kind {
	kind := s.byGR[gr]
	if kind == nil || kind.Info().GR() != gr {
		return nil
	}
	i := kind.Info()
	for _, gvk := range i.Served() {
		gvr := gvk.GroupVersion().WithResource(i.Plural)
		drop(s.byGR, gvr.GroupResource(), kind)
		drop(s.byGVR, gvr, kind)
		drop(s.byGVK, gvk, kind)
		drop(s.byGK, gvk.GroupKind(), kind)
	}
	drop(s.prefix, i.Prefix, kind)
	s.all = nil
	return kind
}

// drop deletes what a name stands for, if that is the kind.
func drop[K comparable](m map[K]Kind, key K, kind Kind) {
	if m[key] == kind {
		delete(m, key)
	}
}

// All returns every kind, ordered by group and plural. The slice must not be changed; it is another one when the set is.
func (s *Set) All() []Kind {
	s.mu.RLock()
	all := s.all
	s.mu.RUnlock()
	if all != nil {
		return all
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = make([]Kind, 0, len(s.byGR))
		for gr, k := range s.byGR {
			if k.Info().GR() == gr {
				s.all = append(s.all, k)
			}
		}
		coldsort.Func(s.all, func(a, b Kind) int {
			x, y := a.Info(), b.Info()
			return cmp.Or(strings.Compare(x.GVK.Group, y.GVK.Group), strings.Compare(x.Plural, y.Plural))
		})
	}
	return s.all
}

// Resource finds a kind by a group, version and resource that it serves, as that version has it.
func (s *Set) Resource(gvr schema.GroupVersionResource) (Kind, schema.GroupVersionKind, bool) {
	k, ok := find(s, func() map[schema.GroupVersionResource]Kind { return s.byGVR }, gvr)
	if !ok || s.hidden != nil && s.hidden(gvr) {
		return nil, schema.GroupVersionKind{}, false
	}
	i := k.Info()
	gvk := i.GVK
	for _, also := range i.Also {
		if also.GroupVersion() == gvr.GroupVersion() {
			gvk = also
		}
	}
	k, ok = In(k, gvk)
	return k, gvk, ok
}

// find looks a name up.
func find[K comparable](s *Set, in func() map[K]Kind, key K) (Kind, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	k, ok := in()[key]
	return k, ok
}

// Kind finds a kind by a group, version and kind that it serves.
func (s *Set) Kind(gvk schema.GroupVersionKind) (Kind, bool) {
	return find(s, func() map[schema.GroupVersionKind]Kind { return s.byGVK }, gvk)
}

// GR finds a kind by its group and resource, or those of another group that serves it.
func (s *Set) GR(gr schema.GroupResource) (Kind, bool) {
	return find(s, func() map[schema.GroupResource]Kind { return s.byGR }, gr)
}

// GroupKind finds a kind by group and kind, in whatever version it is served.
func (s *Set) GroupKind(gk schema.GroupKind) (Kind, bool) {
	return find(s, func() map[schema.GroupKind]Kind { return s.byGK }, gk)
}

// ByKey takes a storage key apart; ok is false for keys of no kind in the set.
func (s *Set) ByKey(key string) (k Kind, ns, name string, ok bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for end := len("/registry/"); end < len(key); end++ {
		slash := strings.IndexByte(key[end:], '/')
		if slash < 0 {
			return nil, "", "", false
		}
		end += slash
		if k, ok = s.prefix[key[:end+1]]; !ok {
			continue
		}
		name = key[end+1:]
		if k.Info().Namespaced {
			ns, name, ok = strings.Cut(name, "/")
		}
		return k, ns, name, ok && name != ""
	}
	return nil, "", "", false
}

// Put adds kinds or replaces those of the same groups and resources: all of them or, with an error, none.
func (s *Set) Put(list ...Kind) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var gone []Kind
	for _, kind := range list {
		if old := s.remove(kind.Info().GR()); old != nil {
			gone = append(gone, old)
		}
	}
	for n, kind := range list {
		err := s.free(kind)
		if err == nil {
			s.add(kind)
			continue
		}
		for _, new := range list[:n] {
			s.remove(new.Info().GR())
		}
		for _, old := range gone {
			s.add(old)
		}
		return err
	}
	return nil
}

// Remove takes a kind out.
func (s *Set) Remove(gr schema.GroupResource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(gr)
}

// Groups returns the group names in use, sorted.
func (s *Set) Groups() []string {
	groups := map[string]bool{}
	for _, k := range s.All() {
		for _, gvk := range s.Served(k) {
			groups[gvk.Group] = true
		}
	}
	return slices.Sorted(maps.Keys(groups))
}
