package converge

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// madeBy is the object by which another one is made, and which would change it back: its controller, or who has marked it as Flux does,
// by the labels GROUP/name and GROUP/namespace; nil: none is seen.
func (l *Look) madeBy() *Look {
	if ref := metav1.GetControllerOfNoCopy(l.Obj); ref != nil {
		k, ok := l.KindOf(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind))
		if !ok {
			return nil
		}
		return l.at(k, l.Obj.GetNamespace(), ref.Name)
	}
	labels := l.Obj.GetLabels()
	for _, k := range l.Kinds.All() {
		group := k.Info().GVK.Group
		if ns := labels[group+"/namespace"]; k.Info().Custom && ns != "" && l.Sees(k, ns) {
			if by := l.at(k, ns, labels[group+"/name"]); by != nil {
				return by
			}
		}
	}
	return nil
}

func (l *Look) at(k resource.Kind, ns, name string) *Look {
	if !k.Info().Namespaced {
		ns = ""
	}
	obj := l.Read.Lookup(k, ns, name)
	if obj == nil {
		return nil
	}
	return &Look{World: l.World, Kind: k, Obj: obj}
}

// spokenAbove is the topmost maker of an object in whose spec the words have a field, too, with that field and its value: it is the one
// to change; nil: there is none.
func (l *Look) spokenAbove(message string) (by *Look, path, value string) {
	up := l.madeBy()
	for range MaxDepth {
		if up == nil {
			break
		}
		if tree, custom := words.Tree(up.Obj); custom {
			if at, v := words.SpokenField(tree, message); at != "" {
				by, path, value = up, at, v
			}
		}
		up = up.madeBy()
	}
	return by, path, value
}

// ended are ends of times by which a status says that what was to be done once is over.
var ended = []string{"completionTime", "finishedAt", "completionTimestamp"}

// isOver says that an object ran to its end: it does not run again.
func (l *Look) isOver() bool {
	tree, _ := words.Tree(l.Obj)
	status, _ := tree["status"].(map[string]any)
	return slices.ContainsFunc(ended, func(field string) bool { return words.String(status, field) != "" })
}

// creatable are kinds of which a bare object does, with the word by which kubectl makes one.
var creatable = map[schema.GroupResource]string{{Resource: "namespaces"}: "namespace", {Resource: "serviceaccounts"}: "serviceaccount"}

// plainName finds what can be the name of an object: anything may stand in the spec that names one, and commands are pasted.
var plainName = pattern.New(`^[a-z0-9.-]+$`)

// bareMake advises to make what is waited for and is not there, where its name is all that it takes.
func (l *Look) bareMake(f *Finding) {
	if f.Waits == nil || f.Waits.On == nil || f.Waits.Field != "" || len(f.Below) > 0 {
		return
	}
	gr := schema.ParseGroupResource(f.Waits.On.Resource)
	word := creatable[gr]
	k, ok := l.Kinds.GR(gr)
	if tree, custom := words.Tree(l.Obj); word == "" && custom && ok && l.Sees(k, f.Waits.On.Namespace) && l.Read.Lookup(k,
		f.Waits.On.Namespace, f.Waits.On.Name) == nil && !strings.Contains(strings.Join(f.Advice, "\n"), "is to make it") {
		if command := MakeSecret(tree["spec"], f.Waits.On.Kind, f.Waits.On.Namespace, f.Waits.On.Name); command != "" {
			f.Advice = append([]string{"make it: " + command}, f.Advice...)
		} else if k == core.Secrets && plainName.MatchString(f.Waits.On.Name+f.Waits.On.Namespace) && !slices.ContainsFunc(f.Advice,
			func(a string) bool { return strings.HasPrefix(a, "there is ") }) {
			f.Advice = append([]string{"make it, of a file that is named as the key that is wanted: kubectl create secret generic " +
				f.Waits.On.Name + In(f.Waits.On.Namespace) + " --from-file=FILE"}, f.Advice...)
		}
	}
	if !ok || word == "" || !plainName.MatchString(f.Waits.On.Name+f.Waits.On.Namespace) || !l.Sees(k, f.Waits.On.Namespace) ||
		l.Read.Lookup(k, f.Waits.On.Namespace, f.Waits.On.Name) != nil || strings.Contains(strings.Join(f.Advice, "\n"), "kubectl create "+word) {
		return
	}
	f.Advice = append([]string{"if it is meant, make it: kubectl create " + word + " " + f.Waits.On.Name + In(f.Waits.On.Namespace)},
		f.Advice...)
}
