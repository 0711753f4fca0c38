package resource

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Set holds the kinds that a server serves. Reads take no lock and see a consistent set; Put and Remove
// swap it. The zero value is empty and ready for use.
type Set struct {
	mu    sync.Mutex
	state atomic.Pointer[kinds]
}

type kinds struct {
	byGR   map[schema.GroupResource]Kind
	byGVR  map[schema.GroupVersionResource]Kind
	byGVK  map[schema.GroupVersionKind]Kind
	prefix map[string]Kind
	all    []Kind // by group, then plural
}

// NewSet returns a set of the given kinds. It panics when two claim the same name: that is a bug in a table.
func NewSet(list ...Kind) *Set {
	s := &Set{}
	k := build(nil)
	for _, kind := range list {
		if err := k.add(kind); err != nil {
			panic(err)
		}
	}
	k.sort()
	s.state.Store(k)
	return s
}

func build(from []Kind) *kinds {
	k := &kinds{byGR: map[schema.GroupResource]Kind{}, byGVR: map[schema.GroupVersionResource]Kind{},
		byGVK: map[schema.GroupVersionKind]Kind{}, prefix: map[string]Kind{}}
	for _, kind := range from {
		_ = k.add(kind) // they were together before
	}
	return k
}

func (k *kinds) add(kind Kind) error {
	i := kind.Info()
	for _, gvk := range i.Served() {
		gvr := gvk.GroupVersion().WithResource(i.Plural)
		if other, taken := k.byGR[gvr.GroupResource()]; taken && other != kind {
			return fmt.Errorf("resource %s is declared twice", gvr.GroupResource())
		}
		if _, taken := k.byGVR[gvr]; taken {
			return fmt.Errorf("resource %s is declared twice", gvr)
		}
		k.byGR[gvr.GroupResource()], k.byGVR[gvr], k.byGVK[gvk] = kind, kind, kind
	}
	if i.Prefix != "" {
		k.prefix[i.Prefix] = kind
	}
	k.all = append(k.all, kind)
	return nil
}

func (k *kinds) sort() {
	slices.SortFunc(k.all, func(a, b Kind) int {
		x, y := a.Info(), b.Info()
		if c := strings.Compare(x.GVK.Group, y.GVK.Group); c != 0 {
			return c
		}
		return strings.Compare(x.Plural, y.Plural)
	})
}

func (s *Set) load() *kinds {
	if k := s.state.Load(); k != nil {
		return k
	}
	return &kinds{}
}

// All returns every kind, ordered by group and plural. The slice must not be changed.
func (s *Set) All() []Kind { return s.load().all }

// Resource finds a kind by a group, version and resource that it serves, as that version has it.
func (s *Set) Resource(gvr schema.GroupVersionResource) (Kind, schema.GroupVersionKind, bool) {
	k, ok := s.load().byGVR[gvr]
	if !ok {
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

// Kind finds a kind by a group, version and kind that it serves.
func (s *Set) Kind(gvk schema.GroupVersionKind) (Kind, bool) {
	k, ok := s.load().byGVK[gvk]
	return k, ok
}

// GR finds a kind by its group and resource, or those of another group that serves it.
func (s *Set) GR(gr schema.GroupResource) (Kind, bool) {
	k, ok := s.load().byGR[gr]
	return k, ok
}

// GroupKind finds a kind by group and kind, in whatever version it is served.
func (s *Set) GroupKind(gk schema.GroupKind) (Kind, bool) {
	for _, k := range s.load().all {
		for _, gvk := range k.Info().Served() {
			if gvk.GroupKind() == gk {
				return k, true
			}
		}
	}
	return nil, false
}

// ByKey takes a storage key apart; ok is false for keys of no kind in the set.
func (s *Set) ByKey(key string) (k Kind, ns, name string, ok bool) {
	prefixes := s.load().prefix
	for end := len("/registry/"); end < len(key); end++ {
		slash := strings.IndexByte(key[end:], '/')
		if slash < 0 {
			return nil, "", "", false
		}
		end += slash
		if k, ok = prefixes[key[:end+1]]; !ok {
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
	var gone []schema.GroupResource
	for _, kind := range list {
		gone = append(gone, kind.Info().GR())
	}
	next := build(without(s.All(), gone...))
	for _, kind := range list {
		if err := next.add(kind); err != nil {
			return err
		}
	}
	next.sort()
	s.state.Store(next)
	return nil
}

// Remove takes a kind out.
func (s *Set) Remove(gr schema.GroupResource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Store(build(without(s.All(), gr)))
}

func without(all []Kind, grs ...schema.GroupResource) []Kind {
	gone := make(map[schema.GroupResource]bool, len(grs))
	for _, gr := range grs {
		gone[gr] = true
	}
	return slices.DeleteFunc(slices.Clone(all), func(k Kind) bool { return gone[k.Info().GR()] })
}

// Groups returns the group names in use, sorted.
func (s *Set) Groups() []string {
	groups := map[string]bool{}
	for _, k := range s.All() {
		for _, gvk := range k.Info().Served() {
			groups[gvk.Group] = true
		}
	}
	return slices.Sorted(maps.Keys(groups))
}
