package general

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/mentions"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/resource"
)

// classless finds a class that the spec of a custom resource names and that does not exist, as gatewayClassName of the Gateway API: nobody
// takes such an object up, and nobody says so.
func classless(w *converge.World, obj resource.Object, tree map[string]any) (field string, class converge.Ref) {
	spec, _ := tree["spec"].(map[string]any)
	for _, field := range slices.Sorted(maps.Keys(spec)) {
		what, is := strings.CutSuffix(field, "Name")
		name := words.String(spec, field)
		if !is || name == "" || !strings.HasSuffix(what, "Class") {
			continue
		}
		for _, k := range w.Kinds.All() {
			if i := k.Info(); strings.EqualFold(i.GVK.Kind, what) && !i.Virtual && w.Sees(k) && w.Read.Lookup(k, "", name) == nil &&
				(!i.Namespaced || w.Read.Lookup(k, obj.GetNamespace(), name) == nil) {
				return "spec." + field, converge.Ref{Kind: k, NS: "", Name: name}
			}
		}
	}
	return "", converge.Ref{}
}

// PortNotThere: a route names a port that its service does not have.
func PortNotThere(l *converge.Look, _ map[string]any) *converge.Finding {
	tree, _ := words.Tree(l.Obj)
	for _, m := range mentions.Of(l).Mentions(tree) {
		if strings.HasPrefix(m.Part, "port ") {
			return &converge.Finding{Says: m.Says(l.Obj.GetNamespace()), Owner: converge.Person, State: converge.Blocked, Waits: m.Wait(),
				Next: converge.PersonDoes("corrects the port here or there"),
				Advice: append(otherPort(l, tree, &m), "a route names the service's port, not that of its pods: "+
					"kubectl get service "+m.Name+" -n "+m.NS)}
		}
	}
	return nil
}

// otherPort advises to name a port that a service has in place of one that it has not.
func otherPort(l *converge.Look, tree map[string]any, m *mentions.Mention) []string {
	s, is := m.Obj.(*corev1.Service)
	if !is || !ownSpec(l) {
		return nil
	}
	port := strings.TrimPrefix(m.Part, "port ")
	var has []string
	for _, p := range s.Spec.Ports {
		has = append(has, fmt.Sprint(p.Port))
	}
	changed := func(at []converge.Change, to string) []converge.Change {
		n, _ := strconv.Atoi(to)
		for i := range at {
			at[i].Value = n
		}
		return at
	}
	var at []converge.Change
	var walk func(v any, path string, depth int)
	walk = func(v any, path string, depth int) {
		switch v := v.(type) {
		case map[string]any:
			inner, _ := v["port"].(map[string]any) // as Istio has it
			switch host, _, _ := strings.Cut(fmt.Sprint(v["host"]), "."); {
			case v["name"] != m.Name && host != m.Name:
			case fmt.Sprint(v["port"]) == port:
				at = append(at, converge.Put(path+"/port", nil))
			case fmt.Sprint(inner["number"]) == port:
				at = append(at, converge.Put(path+"/port/number", nil))
			}
			for _, field := range slices.Sorted(maps.Keys(v)) {
				if depth < converge.MaxDepth {
					walk(v[field], path+converge.Pointer(field), depth+1)
				}
			}
		case []any:
			for i := range v {
				walk(v[i], path+"/"+strconv.Itoa(i), depth)
			}
		}
	}
	if walk(tree["spec"], "/spec", 0); len(at) == 0 || len(at) > 4 {
		return nil
	}
	return converge.Each(has, func(to string) string { return converge.Patched(converge.RefTo(l.Kind, l.Obj), changed(at, to)...) })
}

// ClassNotThere: the object names a class that does not exist, so no controller takes it up.
func ClassNotThere(l *converge.Look, _ map[string]any) *converge.Finding {
	tree, _ := words.Tree(l.Obj)
	field, class := classless(l.World, l.Obj, tree)
	if field == "" {
		return nil
	}
	i := class.Kind.Info()
	return &converge.Finding{Says: "names the " + i.Singular + " " + class.Name + ", which does not exist", Owner: converge.Person,
		State: converge.Blocked,
		Waits: converge.On("Object", class, ""), Next: converge.PersonDoes("creates %s/%s, or names another one", i.Singular,
			class.Name),
		Advice: []string{"those that exist: kubectl get " + i.GR().String()}}
}

// Untargeted finds what a policy is for and that does not exist, by the Gateway API's way of attaching policies (GEP-713): spec.targetRef,
// spec.targetRefs. Controllers leave such a policy as it was, and say nothing.
func Untargeted(s *mentions.Search, tree map[string]any) *mentions.Mention {
	if !strings.HasSuffix(s.Kind.Info().GVK.Kind, "Policy") {
		return nil
	}
	for _, m := range s.Mentions(tree) {
		if m.Obj == nil && strings.HasPrefix(m.Field, "spec.targetRef") {
			return &m
		}
	}
	return nil
}

// TargetNotThere: a policy is for something that does not exist.
func TargetNotThere(l *converge.Look, _ map[string]any) *converge.Finding {
	tree, _ := words.Tree(l.Obj)
	m := Untargeted(mentions.Of(l), tree)
	if m == nil || words.ComplaintIn(tree).Says != "" {
		return nil
	}
	return &converge.Finding{Says: m.Says(l.Obj.GetNamespace()), Owner: converge.Person, State: converge.Blocked, Waits: m.Wait(),
		Next:   converge.PersonDoes("creates it, or has the policy name another one"),
		Advice: []string{"those that exist: kubectl get " + m.Kind.Info().GR().String() + " -n " + m.NS}}
}
