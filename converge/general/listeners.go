package general

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/mentions"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/resource"
)

// Listeners of one gateway may lie in several objects, as Gateway and ListenerSet: two of one port and hostname are in conflict, and
// neither names the other.

// Two listeners that are the same in this may not be at one gateway.
type listener struct{ gateway, port, hostname string }

// listenersOf are those of an object.
func listenersOf(k resource.Kind, obj resource.Object) (list []listener) {
	tree, _ := words.Tree(obj)
	spec, _ := tree["spec"].(map[string]any)
	of := obj.GetNamespace() + "/" + obj.GetName()
	if parent, _ := spec["parentRef"].(map[string]any); parent != nil {
		ns := words.String(parent, "namespace")
		if ns == "" {
			ns = obj.GetNamespace()
		}
		of = ns + "/" + words.String(parent, "name")
	} else if k.Info().GVK.Kind != "Gateway" {
		return nil
	}
	items, _ := spec["listeners"].([]any)
	for _, item := range items {
		l, _ := item.(map[string]any)
		list = append(list, listener{of, words.String(l, "port"), words.String(l, "hostname")})
	}
	return list
}

// colliding tells which other object has a listener like one of this, if it is said that one is in conflict.
func colliding(l *converge.Look, f *converge.Finding, message string) {
	if !strings.HasPrefix(l.Kind.Info().GVK.Group, "gateway.networking.") ||
		!strings.Contains(message, "unique hostname") && !strings.Contains(strings.ToLower(message), "conflict") {
		return
	}
	own := listenersOf(l.Kind, l.Obj)
	for _, k := range l.Kinds.All() {
		if i := k.Info(); !i.Custom || !strings.HasPrefix(i.GVK.Group, "gateway.networking.") ||
			i.GVK.Kind != "Gateway" && !strings.HasSuffix(i.GVK.Kind, "ListenerSet") {
			continue
		}
		for obj := range l.Read.Each(k, "") {
			if obj.GetUID() == l.Obj.GetUID() || !l.Sees(k, obj.GetNamespace()) {
				continue
			}
			for _, theirs := range listenersOf(k, obj) {
				if !slices.Contains(own, theirs) {
					continue
				}
				name := new(converge.ObjectOf(k, obj)).Short()
				f.Says += "; " + name + " in namespace " + obj.GetNamespace() + " has one of that port and hostname too"
				f.Advice = append([]string{"give one of the two another hostname or port, or delete it: kubectl describe " +
					k.Info().GR().String() + " " + obj.GetName() + " -n " + obj.GetNamespace()}, f.Advice...)
				return
			}
		}
	}
}

// unallowed tells why no listener of a parent lets a route attach: by its namespace.
func unallowed(l *converge.Look, f *converge.Finding, tree map[string]any) {
	if !strings.Contains(f.Words+f.Says, "NotAllowedByListeners") && !strings.Contains(f.Says, "allowed this attachment") {
		return
	}
	for _, m := range mentions.Of(l).Mentions(tree) {
		if m.Obj == nil || m.Kind.Info().GVK.Kind != "Gateway" {
			continue
		}
		gateway, _ := words.Tree(m.Obj)
		spec, _ := gateway["spec"].(map[string]any)
		listeners, _ := spec["listeners"].([]any)
		for _, item := range listeners {
			one, _ := item.(map[string]any)
			says := takes(one, m.NS, l.Obj.GetNamespace())
			if says == "" {
				continue
			}
			f.Says += "; the listener " + words.String(one, "name") + " of " + m.Kind.Info().Singular + "/" + m.Name + " takes " + says
			f.Advice = append([]string{"let it take those of namespace " + l.Obj.GetNamespace() +
				", by allowedRoutes.namespaces: kubectl edit " + m.Kind.Info().GR().String() + " " + m.Name + " -n " + m.NS}, f.Advice...)
			return
		}
	}
}

// takes words which routes a listener of a gateway in a namespace takes, if it may not take those of another namespace.
func takes(listener map[string]any, own, other string) string {
	allowed, _ := listener["allowedRoutes"].(map[string]any)
	from, _ := allowed["namespaces"].(map[string]any)
	switch words.String(from, "from") {
	case "", "Same":
		if own != other {
			return "routes of namespace " + own + " alone (from: Same)"
		}
	case "Selector":
		text, _ := json.Marshal(from["selector"])
		return "routes of the namespaces that have certain labels: " + string(text)
	case "None":
		return "no routes"
	}
	return ""
}
