package mentions

import (
	"maps"
	"slices"
	"strings"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/internal/coldsort"
	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/resource"
)

// Projects have people name their objects on those of others by annotations and labels: konghq.com/plugins, cert-manager.io/cluster-issuer,
// kueue.x-k8s.io/queue-name. The key has the project's domain and the end of the kind.

// named finds the name of an object, and its namespace before a slash.
var named = pattern.New(`^(?:([a-z0-9][a-z0-9-]*)/)?([a-z0-9][a-z0-9.-]*)$`)

// Noted are the objects that annotations and labels name and that are not there.
func (s *Search) Noted() (gone []Mention) {
	for path, notes := range map[string]map[string]string{"metadata.annotations.": s.Obj.GetAnnotations(),
		"metadata.labels.": s.Obj.GetLabels()} {
		for _, key := range slices.Sorted(maps.Keys(notes)) {
			of := s.kindsOfKey(key, path == "metadata.labels.")
			for part := range strings.SplitSeq(notes[key], ",") {
				m := named.FindStringSubmatch(strings.TrimSpace(part))
				if len(of) == 0 || m == nil || s.anyOf(of, m[1], m[2]) {
					continue
				}
				ns := s.Obj.GetNamespace()
				if m[1] != "" {
					ns = m[1]
				}
				if !of[0].Info().Namespaced {
					ns = ""
				}
				gone = append(gone, Mention{Ref: converge.Ref{Kind: of[0], NS: ns, Name: m[2]}, Field: path + key})
			}
		}
	}
	coldsort.Func(gone, func(a, b Mention) int { return strings.Compare(a.Field+a.Name, b.Field+b.Name) })
	return gone
}

// kindsOfKey are the kinds that a key of an annotation or label may mean, those with namespaces first.
func (s *Search) kindsOfKey(key string, label bool) (list []resource.Kind) {
	prefix, stem, is := strings.Cut(key, "/")
	if !is || !label && strings.HasSuffix(stem, "-name") { // a controller's own note
		return nil
	}
	own := words.Domain(prefix)
	stem = strings.TrimSuffix(strings.ReplaceAll(strings.TrimSuffix(stem, "-name"), "-", ""), "s")
	for _, k := range s.Kinds.All() {
		i := k.Info()
		kind := strings.ToLower(i.GVK.Kind)
		switch {
		case !i.Custom || words.Domain(i.GVK.Group) != own || len(stem) < 5 || !strings.HasSuffix(kind, stem):
		case kind == stem:
			return []resource.Kind{k}
		case i.Namespaced:
			list = slices.Insert(list, 0, k)
		default:
			list = append(list, k)
		}
	}
	if len(list) == 0 && label && (stem == "cluster" || stem == "instance") {
		return s.roots(own, key)
	}
	return list
}

// roots are the kinds of a project of which there are objects beside this one that have not its label themselves: those that it may name,
// as strimzi.io/cluster names a Kafka.
func (s *Search) roots(domain, key string) (list []resource.Kind) {
	for _, k := range s.Kinds.All() {
		if i := k.Info(); !i.Custom || !i.Namespaced || k == s.Kind || words.Domain(i.GVK.Group) != domain {
			continue
		}
		for obj := range s.Read.Each(k, s.Obj.GetNamespace()) {
			if _, has := obj.GetLabels()[key]; !has {
				list = append(list, k)
				break
			}
		}
	}
	return list
}

// anyOf says that an object of one of the kinds is there, or that this can't be known.
func (s *Search) anyOf(of []resource.Kind, ns, name string) bool {
	if ns == "" {
		ns = s.Obj.GetNamespace()
	}
	for _, k := range of {
		in := ns
		if !k.Info().Namespaced {
			in = ""
		} else if in == "" {
			return true
		}
		if !s.Sees(k, in) || s.Read.Lookup(k, in, name) != nil {
			return true
		}
	}
	return false
}
