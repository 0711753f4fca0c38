package causes

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/mentions"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// Listeners of one gateway may lie in several objects, as Gateway and ListenerSet: two of one port and hostname are in conflict, and
// neither names the other.

// Spoken adds to a finding what is known of the surroundings of pods that a controller speaks of: gateways, grants and queues.
func (workloads) Spoken(l *converge.Look, f *converge.Finding, tree map[string]any, message string) {
	ungranted(l, f, tree, message)
	unallowed(l, f, tree)
	apartBy(l, f, tree)
	otherListener(l, f, tree)
	colliding(l, f, message)
	disallowed(l, f, tree, message)
	lackActive(l, f, message)
	if quota := queueQuota(l, message); quota != "" {
		f.Advice = append([]string{quota}, f.Advice...)
	}
}

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
		for i, item := range listeners {
			one, _ := item.(map[string]any)
			says := takes(one, m.NS, l.Obj.GetNamespace())
			if says == "" {
				continue
			}
			f.Says += "; the listener " + words.String(one, "name") + " of " + m.Kind.Info().Singular + "/" + m.Name + " takes " + says
			f.Advice = append([]string{letIn(l, &m, i, one)}, f.Advice...)
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

// letIn advises to have a listener of a gateway take routes of an object's namespace: by the labels that it asks for, or by the name.
func letIn(l *converge.Look, gateway *mentions.Mention, index int, listener map[string]any) string {
	ns := l.Obj.GetNamespace()
	allowed, _ := listener["allowedRoutes"].(map[string]any)
	from, _ := allowed["namespaces"].(map[string]any)
	sel, _ := from["selector"].(map[string]any)
	wanted, _ := sel["matchLabels"].(map[string]any)
	if space := resource.Get(l.Read, core.Namespaces, "", ns); len(wanted) > 0 && len(sel) == 1 && space != nil {
		lacks, over := "", ""
		for _, key := range slices.Sorted(maps.Keys(wanted)) {
			if value, _ := wanted[key].(string); space.Labels[key] != value {
				lacks += " " + key + "=" + value
				if _, has := space.Labels[key]; has {
					over = " --overwrite"
				}
			}
		}
		if lacks != "" && !strings.Contains(lacks, corev1.LabelMetadataName+"=") {
			return "give namespace " + ns + " the labels that it takes: kubectl label namespace " + ns + lacks + over
		}
	}
	value := `{"from":"Selector","selector":{"matchExpressions":[{"key":"` + corev1.LabelMetadataName + `","operator":"In","values":["` +
		gateway.NS + `","` + ns + `"]}]}}`
	path := "/spec/listeners/" + strconv.Itoa(index) + "/allowedRoutes"
	if allowed == nil {
		value = `{"namespaces":` + value + "}"
	} else {
		path += "/namespaces"
	}
	return "let it take those of namespace " + ns + ", too: kubectl patch " + gateway.Called() + ` --type=json -p '[{"op":"add","path":"` +
		path + `","value":` + value + "}]'"
}

// noHostname finds words by which a route has no hostname that a listener has.
var noHostname = pattern.New(`(?i)no hostname intersections|no hostnames match|hostnames? (?:do not|does not|don't|doesn't) match|` +
	`no matching (?:listener )?hostname|NoMatchingListenerHostname`)

// attaches says that a route asks for a listener of a gateway, or for any.
func attaches(spec map[string]any, gateway, listener string) bool {
	parents, _ := spec["parentRefs"].([]any)
	return slices.ContainsFunc(parents, func(item any) bool {
		p, _ := item.(map[string]any)
		section := words.String(p, "sectionName")
		return words.String(p, "name") == gateway && (section == "" || section == listener)
	})
}

// apartBy tells which hostname the listener has whose hostname no one of a route's meets, and what either would have to be.
func apartBy(l *converge.Look, f *converge.Finding, tree map[string]any) {
	spec, _ := tree["spec"].(map[string]any)
	hosts, _ := spec["hostnames"].([]any)
	if !noHostname.MatchString(f.Words+f.Says) || len(hosts) == 0 {
		return
	}
	own, _ := hosts[0].(string)
	for _, m := range mentions.Of(l).Mentions(tree) {
		if m.Obj == nil || m.Kind.Info().GVK.Kind != "Gateway" {
			continue
		}
		gateway, _ := words.Tree(m.Obj)
		of, _ := gateway["spec"].(map[string]any)
		listeners, _ := of["listeners"].([]any)
		for i, item := range listeners {
			one, _ := item.(map[string]any)
			host := words.String(one, "hostname")
			if host == "" || !attaches(spec, m.Name, words.String(one, "name")) {
				continue
			}
			f.Says += "; the listener " + words.String(one, "name") + " of gateway/" + m.Name + " is for " + host + ", and the route for " + own
			first, domain, _ := strings.Cut(own, ".")
			mine, theirs := host, own
			if rest, wild := strings.CutPrefix(host, "*."); wild {
				mine, theirs = first+"."+rest, "*."+domain
			}
			set := func(called, path, value string) string {
				return "kubectl patch " + called + ` --type=json -p '[{"op":"replace","path":"` + path + `","value":"` + value + `"}]'`
			}
			f.Advice = append([]string{"have the route be for " + mine + ", if that is meant: " + set(l.Kind.Info().GR().String()+" "+
				converge.Called(l), "/spec/hostnames/0", mine), "or the listener for " + theirs + ": " +
				set(m.Called(), "/spec/listeners/"+strconv.Itoa(i)+"/hostname", theirs)}, f.Advice...)
			return
		}
	}
}
