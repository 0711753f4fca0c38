package cluster

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/resource"
)

// A veil is the state of a cluster as one reader may see it. Of other namespaces than those of the gaps it shows only
// objects that are asked for by name: a reader may have rights in thousands, and each is a question.
type veil struct {
	resource.Reader // all there is
	kinds           []resource.Kind
	sees            func(k resource.Kind, ns, name string) bool
	spaces          map[string]bool
	home            string // the namespace of the gap that is being told
	words           map[[2]string]bool
	world           *converge.World
}

// world has the facts that explanations are made of, as far as the reader may see them, for a gap in the namespace.
func (s *sight) world(ctx context.Context, all *converge.World, home string) *converge.World {
	if s.veil == nil {
		v := &veil{Reader: all.Read, kinds: all.Kinds.All(), spaces: s.spaces, words: map[[2]string]bool{},
			sees: func(k resource.Kind, ns, name string) bool {
				return s.sees(ctx, convergence.Object{Resource: k.Info().GR().String(), Namespace: ns, Name: name})
			}}
		s.veil = v
	}
	if v := s.veil; v.world == nil || !v.spaces[home] {
		v.spaces[home] = true // and what a world remembers is of fewer
		v.world = &converge.World{Read: v, Kinds: all.Kinds, Loops: all.Loops, Callers: all.Callers, Now: all.Now, Rules: all.Rules,
			Unseen: all.Unseen, Veil: v}
	}
	s.veil.home = home
	return s.veil.world
}

// Sees implements converge.Veil.
func (v *veil) Sees(k resource.Kind, ns, name string) bool { return v.sees(k, ns, name) }

// Tells implements converge.Veil: no word in the text names an object, in the namespace of the gap or in none, that the reader may not see,
// unless it sees another one of that name.
func (v *veil) Tells(text string) bool {
	for _, word := range strings.FieldsFunc(text, func(r rune) bool {
		return r != '-' && r != '.' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}) {
		if word = strings.Trim(word, ".-"); word != "" && word != v.home && !v.open(word) {
			return false
		}
	}
	return true
}

func (v *veil) open(word string) bool {
	open, known := v.words[[2]string{v.home, word}]
	if known {
		return open
	}
	hidden := false
	for _, k := range v.kinds {
		ns := ""
		if k.Info().Namespaced {
			ns = v.home
		}
		if k.Info().Virtual || v.Reader.Lookup(k, ns, word) == nil {
			continue
		}
		if open = v.sees(k, ns, word); open {
			break
		}
		hidden = true
	}
	open = open || !hidden
	v.words[[2]string{v.home, word}] = open
	return open
}

// Lookup implements resource.Reader.
func (v *veil) Lookup(k resource.Kind, ns, name string) resource.Object {
	obj := v.Reader.Lookup(k, ns, name)
	if obj == nil || !v.sees(k, ns, name) {
		return nil
	}
	return obj
}

// seen are the objects of a sequence that the reader may see.
func (v *veil) seen(k resource.Kind, all iter.Seq[resource.Object]) iter.Seq[resource.Object] {
	if v.sees(k, "", "") {
		return all
	}
	may := map[string]bool{"": false}
	for ns := range v.spaces {
		may[ns] = k.Info().Namespaced && v.sees(k, ns, "")
	}
	return func(yield func(resource.Object) bool) {
		for obj := range all {
			if may[obj.GetNamespace()] && !yield(obj) {
				return
			}
		}
	}
}

// Each implements resource.Reader. Of all namespaces it goes through those alone that the reader may see, however many there are.
func (v *veil) Each(k resource.Kind, ns string) iter.Seq[resource.Object] {
	if ns != "" || v.sees(k, "", "") {
		return v.seen(k, v.Reader.Each(k, ns))
	}
	return func(yield func(resource.Object) bool) {
		if !k.Info().Namespaced {
			return
		}
		for _, ns := range slices.Sorted(maps.Keys(v.spaces)) {
			if !v.sees(k, ns, "") {
				continue
			}
			for obj := range v.Reader.Each(k, ns) {
				if !yield(obj) {
					return
				}
			}
		}
	}
}

// ByOwner implements resource.Reader.
func (v *veil) ByOwner(k resource.Kind, uid string) iter.Seq[resource.Object] {
	return v.seen(k, v.Reader.ByOwner(k, uid))
}

// ByField implements resource.Reader.
func (v *veil) ByField(k resource.Kind, label, value string) iter.Seq[resource.Object] {
	return v.seen(k, v.Reader.ByField(k, label, value))
}

// ByLabel implements resource.Reader.
func (v *veil) ByLabel(k resource.Kind, ns, label, value string) iter.Seq[resource.Object] {
	return v.seen(k, v.Reader.ByLabel(k, ns, label, value))
}

var _ converge.Veil = (*veil)(nil)
