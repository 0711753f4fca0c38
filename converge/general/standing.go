package general

import (
	"cmp"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/mentions"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds/apiextensions"
	"github.com/kloop-dev/kloop/resource"
)

// What a controller says is not there may be there: then its name is right, and something else about it is not.

// standing tells of what a controller looked for in vain, or does not take, though it is there.
func standing(l *converge.Look, f *converge.Finding, tree map[string]any, message string) {
	if len(f.Below) > 0 || f.State == converge.Blocked {
		return
	}
	if inNamed(l, f, tree, message) {
		return
	}
	gone := saidGone.FindStringSubmatch(message)
	for _, m := range mentions.Of(l).Mentions(tree) {
		if m.Obj == nil || m.Part != "" {
			continue
		}
		name := new(converge.ObjectOf(m.Kind, m.Obj)).Short()
		if o := metav1.GetControllerOfNoCopy(m.Obj); o != nil && strings.Contains(message, "topmost") { // as autoscalers of pods have it
			by := strings.ToLower(o.Kind) + "/" + o.Name
			f.Says += "; " + name + " was made by " + by
			f.Advice = append([]string{"name " + by + " in " + m.Field + ", if its kind has the subresource scale; else leave " + name +
				" alone: kubectl edit " + l.Kind.Info().GR().String() + " " + converge.Called(l)}, f.Advice...)
			return
		}
		if gone != nil && gone[3] == m.Name && (gone[2] == "" || gone[2] == m.NS) {
			if otherKind(l, f, message, &m) {
				return
			}
			if besideProgram(l, f, &m) {
				return
			}
			f.Says += "; " + name + " is there"
			f.Advice = append([]string{unseen(l, &m, tree)}, f.Advice...)
			return
		}
	}
}

// inNamed finds the field that a controller complains of in an object that this one names, as KEDA's TriggerAuthentication, if this one has
// none of that name.
func inNamed(l *converge.Look, f *converge.Finding, tree map[string]any, message string) bool {
	if !words.Faulty.MatchString(message) {
		return false
	}
	if path, _ := words.SpokenField(tree, message); path != "" {
		return false
	}
	for _, m := range mentions.Of(l).Mentions(tree) {
		other, custom := words.Tree(m.Obj)
		if m.Obj == nil || !custom {
			continue
		}
		path := words.SpelledField(other["spec"], message)
		if path == "" {
			continue
		}
		name := new(converge.ObjectOf(m.Kind, m.Obj)).Short()
		f.Advice = append([]string{"it speaks of " + path + " of " + name + ", which it names; correct it: kubectl edit " +
			m.Called()}, f.Advice...)
		return true
	}
	return false
}

// unseen tells what may keep a controller from seeing what is there.
func unseen(l *converge.Look, m *mentions.Mention, tree map[string]any) string {
	edit := "kubectl edit " + l.Kind.Info().GR().String() + " " + converge.Called(l)
	switch {
	case strings.HasSuffix(m.Field, ".backendRefs") && m.Kind.Info().Custom && ported(tree["spec"], m.Name):
		return "leave its port out there: a port is for services: " + cmp.Or(unported(l, tree, m.Name), edit)
	case strings.HasSuffix(strings.ToLower(m.Field), "targetref") && unscaled(l, m.Kind):
		return "its kind has no subresource scale, by which its pods are found: have the definition declare it, as a newer release may, " +
			"or name what it makes: kubectl get statefulsets,deployments -n " + m.NS
	}
	return "see whether its controller may read it, and looks for it in that namespace and version: kubectl get " + m.Called() +
		" -o yaml"
}

// otherKind has an object give the kind of that which it names, where its controller looks for one of another kind, as for an Issuer in
// place of a ClusterIssuer.
func otherKind(l *converge.Look, f *converge.Finding, message string, m *mentions.Mention) bool {
	kind := m.Kind.Info().GVK.Kind
	sought, is := strings.CutPrefix(kind, "Cluster")
	if !is {
		sought = "Cluster" + kind
	}
	command := l.OfKind(m.Name, kind)
	if !words.StandsIn(message, sought) || words.StandsIn(message, kind) || command == "" {
		return false
	}
	name := new(converge.ObjectOf(m.Kind, m.Obj)).Short()
	f.Says += "; it is looked for as a " + sought + ", and there is " + name
	f.State, f.Waits = converge.Blocked, converge.On("Object", m.Ref, "")
	f.Next = converge.PersonDoes("says of which kind it is; %s goes on then", f.Owner)
	f.Advice = []string{"say that it is a " + kind + ", if " + name + " is meant: " + command}
	return true
}

// besideProgram has what is here be copied to the namespace of the controller: it looks there for what an object of the whole cluster
// names.
func besideProgram(l *converge.Look, f *converge.Finding, m *mentions.Mention) bool {
	by, obj := l.Referred(m.Name)
	_, program := programAt(l.World, l.Kind, f.Owner)
	if obj == nil || by.Info().Namespaced || program == nil || program.GetNamespace() == m.NS || m.NS == "" ||
		l.Read.Lookup(m.Kind, program.GetNamespace(), m.Name) != nil {
		return false
	}
	own := program.GetNamespace()
	f.Says += "; " + new(converge.ObjectOf(by, obj)).Short() + " is of the whole cluster: what it names is looked for in namespace " + own +
		", and " + m.Kind.Info().Singular + "/" + m.Name + " is in " + m.NS
	f.State, f.Waits = converge.Blocked, converge.On("Object", converge.Ref{Kind: m.Kind, NS: own, Name: m.Name}, "")
	f.Next = converge.PersonDoes("makes it there; %s goes on then", f.Owner)
	f.Advice = nil // to copy it is advised of all that is in another namespace
	return true
}

// ported says that something in a spec names an object with a port.
func ported(v any, name string) bool {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			if ported(item, name) {
				return true
			}
		}
	case map[string]any:
		if words.String(v, "name") == name && v["port"] != nil {
			return true
		}
		for _, inner := range v {
			if ported(inner, name) {
				return true
			}
		}
	}
	return false
}

// unported is the command that leaves the port out beside a name among the backends of a route; "": it is elsewhere.
func unported(l *converge.Look, tree map[string]any, name string) string {
	spec, _ := tree["spec"].(map[string]any)
	rules, _ := spec["rules"].([]any)
	for i, item := range rules {
		rule, _ := item.(map[string]any)
		refs, _ := rule["backendRefs"].([]any)
		for j, item := range refs {
			if ref, _ := item.(map[string]any); words.String(ref, "name") == name && ref["port"] != nil {
				return converge.Patched(converge.RefTo(l.Kind, l.Obj), converge.Change{Op: "remove",
					Path: fmt.Sprintf("/spec/rules/%d/backendRefs/%d/port", i, j)})
			}
		}
	}
	return ""
}

// unscaled says that the definition of a kind has no subresource scale.
func unscaled(l *converge.Look, k resource.Kind) bool {
	obj := l.Read.Lookup(apiextensions.CustomResourceDefinitions, "", k.Info().GR().String())
	if obj == nil {
		return false
	}
	for _, v := range resource.Outline[*apiextensionsv1.CustomResourceDefinition](obj).Spec.Versions {
		if v.Served && v.Subresources != nil && v.Subresources.Scale != nil {
			return false
		}
	}
	return true
}

// runAgain advises to have a workflow run again as it is: one that failed does not by itself.
func runAgain(l *converge.Look, f *converge.Finding) {
	if again := converge.AgainAsItIs(l.Kind, l.Obj); again != "" && len(f.Below) == 0 && l.Kind.Info().GVK.Kind == "Workflow" {
		f.Also = append(f.Also, converge.Again+": "+again)
	}
}
