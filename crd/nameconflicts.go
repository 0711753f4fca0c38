package crd

import (
	"slices"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/kloop-dev/kloop/resource"
)

// Names knows which names the definitions have, so that a question for one need not look at all definitions. It hears of
// every definition as it is read from the state of the cluster. The zero value is ready for use.
type Names struct {
	mu    sync.Mutex
	known map[string]*named  // by the definition's name
	in    map[name][]string  // the names of the definitions that have it, seldom more than one
	want  map[string]waiting // the definitions that were refused names, by group
}

type waiting = map[string]bool

// A name is one that something in a group has: resources and kinds do not get into each other's way.
type name struct {
	group string
	of    nameOf
	text  string
}

type nameOf bool

const (
	resourceName nameOf = false
	kindName     nameOf = true
)

// named holds the names of one definition.
type named struct {
	rev   int64
	group string
	names []name
}

// Note tells of a definition. What is older than what is known counts for nothing.
func (n *Names) Note(def *apiextensionsv1.CustomResourceDefinition) {
	n.mu.Lock()
	defer n.mu.Unlock()
	rev := resource.Revision(def)
	if was := n.known[def.Name]; was != nil {
		if rev <= was.rev && rev != 0 {
			return
		}
		n.forget(def.Name)
	}
	n.set(def.Name, &named{rev, def.Spec.Group, namesIn(def.Spec.Group, &def.Status.AcceptedNames)})
	if c := find(def.Status.Conditions, apiextensionsv1.NamesAccepted); c != nil && c.Status != apiextensionsv1.ConditionTrue {
		if n.want == nil {
			n.want = map[string]waiting{}
		}
		if n.want[def.Spec.Group] == nil {
			n.want[def.Spec.Group] = waiting{}
		}
		n.want[def.Spec.Group][def.Name] = true
	}
}

// reserve notes names that a definition is about to have, beside those that it has. It needs mu.
func (n *Names) reserve(def *apiextensionsv1.CustomResourceDefinition, have *apiextensionsv1.CustomResourceDefinitionNames) {
	was := n.known[def.Name]
	if was == nil {
		was = &named{group: def.Spec.Group}
		n.set(def.Name, was)
	}
	was.rev = max(was.rev, resource.Revision(def))
	for _, x := range namesIn(def.Spec.Group, have) {
		if !slices.Contains(was.names, x) {
			was.names = append(was.names, x)
			n.in[x] = append(n.in[x], def.Name)
		}
	}
}

// Forget tells that a definition is gone.
func (n *Names) Forget(def string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.forget(def)
}

// Keep forgets all definitions but these.
func (n *Names) Keep(these map[string]bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for def := range n.known {
		if !these[def] {
			n.forget(def)
		}
	}
}

// Waiting lists the definitions of a group that were refused names. One that nobody has looked at yet is not among them.
func (n *Names) Waiting(group string) (list []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for def := range n.want[group] {
		list = append(list, def)
	}
	slices.Sort(list)
	return list
}

// set needs mu.
func (n *Names) set(def string, to *named) {
	if n.known == nil {
		n.known, n.in = map[string]*named{}, map[name][]string{}
	}
	n.known[def] = to
	for _, x := range to.names {
		n.in[x] = append(n.in[x], def)
	}
}

// forget needs mu.
func (n *Names) forget(def string) {
	was := n.known[def]
	if was == nil {
		return
	}
	delete(n.known, def)
	delete(n.want[was.group], def)
	if len(n.want[was.group]) == 0 {
		delete(n.want, was.group)
	}
	for _, x := range was.names {
		rest := slices.DeleteFunc(n.in[x], func(o string) bool { return o == def })
		if n.in[x] = rest; len(rest) == 0 {
			delete(n.in, x)
		}
	}
}

// taken says that another definition has a name. It needs mu.
func (n *Names) taken(x name, def string) bool {
	return slices.ContainsFunc(n.in[x], func(o string) bool { return o != def })
}

func namesIn(group string, names *apiextensionsv1.CustomResourceDefinitionNames) (list []name) {
	add := func(of nameOf, texts ...string) {
		for _, text := range texts {
			if x := (name{group, of, text}); text != "" && !slices.Contains(list, x) {
				list = append(list, x)
			}
		}
	}
	add(resourceName, names.Plural, names.Singular)
	add(resourceName, names.ShortNames...)
	add(kindName, names.Kind, names.ListKind)
	return list
}
