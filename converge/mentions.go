package converge

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/resource"
)

// What the spec of an object names is found by the names of fields, as all kinds have them: passwordSecretRef, sourceRef with a kind, the
// configMap of a volume, priorityClassName. So a name that is mistyped is found in kinds of which no rule knows too.

// A mention is an object that another one names in its spec.
type mention struct {
	Ref
	field string
	obj   resource.Object // nil: it does not exist
	loose bool            // the field may name what is still to be made: it counts where the controller speaks of it
	part  string          // what is asked of it and it does not have: "the key pasword"; "": nothing
	data  string          // that key
	has   []string        // what it has in its place
}

// says completes a sentence about the one who names it; "" of one that is there.
func (m *mention) says(ns string) string {
	o := named(m.Kind, m.NS, m.Name)
	name := o.Short()
	if o.Namespace != "" && o.Namespace != ns {
		name += " of namespace " + o.Namespace
	}
	switch {
	case m.obj == nil:
		return "names " + name + " in " + m.field + ", which does not exist"
	case len(m.has) > 0:
		return "names " + m.part + " of " + name + " in " + m.field + ", which has " + list(m.has, 4)
	case m.part != "":
		return "names " + m.part + " of " + name + " in " + m.field + ", which has no such"
	}
	return ""
}

// stems are fields whose names are not those of the kinds that they name.
var stems = map[string]string{"parent": "Gateway", "backend": "Service", "scaleTarget": "Deployment", "claim": "PersistentVolumeClaim",
	"volumeClaim": "PersistentVolumeClaim", "certificate": "Secret"}

// inPlace are fields that hold a reference though their names do not end so, with the field that has the name.
var inPlace = map[string]string{"configMap": "name", "secret": "secretName", "persistentVolumeClaim": "claimName"}

// made are parts of the names of fields in which somebody names what is still to be made.
var made = []string{"write", "output", "publish", "destination", "targetref", "targetsecret", "status"}

// A search goes through the spec of one object.
type search struct {
	*World
	kind  resource.Kind
	obj   resource.Object
	found []mention
}

// mentions are the objects that a spec names, in the order of its fields.
func (s *search) mentions(tree map[string]any) []mention {
	s.walk("spec", "", tree["spec"], 0)
	status, _ := tree["status"].(map[string]any)
	for _, field := range slices.Sorted(maps.Keys(status)) { // as boundVolumeSnapshotContentName
		if stem, is := strings.CutSuffix(field, "Name"); is {
			s.add("status."+field, s.kindsBy(stem, "", "", false), nil, text(status, field))
		}
	}
	labels := s.obj.GetLabels() // as cluster.x-k8s.io/cluster-name
	for _, label := range slices.Sorted(maps.Keys(labels)) {
		group, stem, _ := strings.Cut(label, "/")
		if stem, is := strings.CutSuffix(stem, "-name"); is && domain(group) == domain(s.kind.Info().GVK.Group) {
			s.add("metadata.labels."+label, s.kindsBy(stem, "", "", true), nil, labels[label])
		}
	}
	return slices.DeleteFunc(s.found, func(m mention) bool { // who names it there makes it, or has taken it away
		return m.obj == nil && !strings.HasPrefix(m.field, "spec") || m.obj != nil && m.obj.GetUID() == s.obj.GetUID()
	})
}

func (s *search) walk(path, field string, v any, depth int) {
	if depth > 14 || len(s.found) >= maxLooks {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		if s.take(path, field, v) {
			return
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			s.walk(path+"."+key, key, v[key], depth+1)
		}
	case []any:
		for _, item := range v {
			s.walk(path, field, item, depth+1)
		}
	case string:
		stem, is := strings.CutSuffix(field, "Name")
		if n := len(s.found); field == "secretName" {
			if s.add(path, s.kindsBy(stem, "", "", true), nil, v); len(s.found) > n {
				s.found[n].loose = true
			}
		}
		if n := len(s.found); n == 0 || s.found[n-1].field != path {
			s.byKind(path, stem, v)
		}
		if is && (strings.HasSuffix(stem, "Class") && stem != "storageClass" || stem == "serviceAccount" || stem == "persistentVolumeClaim") {
			s.add(path, s.kindsBy(stem, "", "", true), nil, v)
		}
	}
}

// byKind notes an object of the project's own that a field names by the end of its kind: storageLocation, queueName.
func (s *search) byKind(path, stem, name string) {
	if len(stem) < 5 {
		return
	}
	stem = strings.ToLower(stem)
	for _, k := range s.Kinds.All() {
		i := k.Info()
		if !i.Custom || !strings.HasSuffix(strings.ToLower(i.GVK.Kind), stem) || domain(i.GVK.Group) != domain(s.kind.Info().GVK.Group) {
			continue
		}
		ns := ""
		if i.Namespaced {
			ns = s.obj.GetNamespace()
		}
		if obj := s.Read.Lookup(k, ns, name); obj != nil && obj.GetUID() != s.obj.GetUID() {
			s.found = append(s.found, mention{Ref: Ref{k, ns, name}, field: path, obj: obj, loose: true})
		}
	}
}

// take finds the reference that a field is; false: it is none.
func (s *search) take(path, field string, v map[string]any) bool {
	low := strings.ToLower(field)
	optional, _ := v["optional"].(bool)
	kind := text(v, "kind") // autoscalers aim at what is there
	aims := low == "scaletargetref" || strings.HasSuffix(low, "targetref") && kind != "" && kind != "Secret"
	if optional || !aims && slices.ContainsFunc(made, func(part string) bool { return strings.Contains(low, part) }) {
		return true
	}
	name := text(v, "name")
	stem := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(field, "s"), "Ref"), "Reference")
	switch {
	case field == "dependsOn":
		s.add(path, []resource.Kind{s.kind}, v, name)
		return true
	case inPlace[field] != "":
		s.add(path, s.kindsBy(stem, "", "", true), v, cmp.Or(text(v, inPlace[field]), name))
		return true
	case name == "":
		return false
	case stem == strings.TrimSuffix(field, "s"): // as cluster: {name: x}, of the project's own kinds
		own := slices.DeleteFunc(s.kindsBy(stem, "", "", true), func(k resource.Kind) bool {
			return !k.Info().Custom || domain(k.Info().GVK.Group) != domain(s.kind.Info().GVK.Group)
		})
		if len(v) == 1 {
			s.add(path, own, v, name)
		}
		return len(v) == 1 && len(own) > 0
	}
	group, _, versioned := strings.Cut(text(v, "apiVersion"), "/")
	if !versioned {
		group = cmp.Or(text(v, "group"), text(v, "apiGroup"))
	}
	if k, ok := s.Kinds.GR(schema.GroupResource{Group: group, Resource: text(v, "resource")}); ok && kind == "" { // as OpenShift has it
		s.add(path, []resource.Kind{k}, v, name)
		return true
	}
	if kind != "" {
		s.add(path, s.kindsBy(kind, group, text(v, "apiVersion"), true), v, name)
		return true
	}
	stem = strings.TrimSuffix(stem, "Key")
	s.add(path, s.kindsBy(cmp.Or(stems[stem], stem), group, "", false), v, name)
	return true
}

// kindsBy are the kinds that a word may mean, the likeliest first. A word that is not said to be a kind may end with one.
func (s *search) kindsBy(word, group, version string, exact bool) (list []resource.Kind) {
	own, size := s.kind.Info().GVK.Group, 0
	for _, k := range s.Kinds.All() {
		i := k.Info()
		kind := i.GVK.Kind
		near := domain(i.GVK.Group) == domain(own)
		switch {
		case i.Virtual || len(kind) < size || group != "" && i.GVK.Group != group || version != "" && group == "" && i.GVK.Group != "":
			continue
		case exact && !strings.EqualFold(kind, word) || !strings.HasSuffix(strings.ToLower(word), strings.ToLower(kind)):
			continue
		case i.Custom && !near && group == "" && s.kind.Info().Custom:
			continue
		case len(kind) > size:
			list, size = nil, len(kind)
		}
		if list = append(list, k); near && i.Custom {
			list[0], list[len(list)-1] = list[len(list)-1], list[0]
		}
	}
	return list
}

// domain cuts off a group what differs between the groups of one project.
func domain(group string) string {
	parts := strings.Split(group, ".")
	return strings.Join(parts[max(0, len(parts)-2):], ".")
}

// add notes what a field names, unless it can't be known whether that exists.
func (s *search) add(path string, of []resource.Kind, v map[string]any, name string) {
	if len(of) == 0 || name == "" {
		return
	}
	m := mention{field: path}
	for _, k := range of {
		ns := ""
		if k.Info().Namespaced {
			if ns = cmp.Or(text(v, "namespace"), s.obj.GetNamespace()); ns == "" {
				return
			}
		}
		if !s.Sees(k, ns) {
			return
		}
		if m.obj = s.Read.Lookup(k, ns, name); m.Kind == nil || m.obj != nil {
			m.Ref = Ref{k, ns, name}
		}
		if m.obj != nil {
			break
		}
	}
	items, _ := v["items"].([]any)
	for _, item := range append(items, v) {
		if one, _ := item.(map[string]any); m.obj != nil && m.part == "" {
			m.ask(one)
		}
	}
	s.found = append(s.found, m)
}

// ask looks whether an object has the part that is asked of it.
func (m *mention) ask(v map[string]any) {
	var has []string
	part, word := "", ""
	switch obj := m.obj.(type) {
	case *corev1.Secret, *corev1.ConfigMap:
		part, word, has = "the key ", text(v, "key"), dataKeys(obj)
	case *corev1.Service:
		if port, is := v["port"].(int64); is && len(obj.Spec.Ports) > 0 {
			part, word = "port ", fmt.Sprint(port)
		}
		for _, p := range obj.Spec.Ports {
			has = append(has, fmt.Sprint(p.Port))
		}
	default:
		tree, _ := content(obj)
		spec, _ := tree["spec"].(map[string]any)
		listeners, _ := spec["listeners"].([]any)
		for _, item := range listeners {
			one, _ := item.(map[string]any)
			has = append(has, text(one, "name"))
		}
		part, word = "the listener ", text(v, "sectionName")
	}
	if word == "" || len(has) == 0 || slices.Contains(has, word) {
		return
	}
	if m.part, m.has = part+word, has; part == "the key " {
		m.data, m.has = word, nil // keys are for those alone who may read the object: see nearTo
	}
}

// wait says on what its referrer waits.
func (m *mention) wait() *convergence.Wait {
	if m.data != "" {
		return on("Field", m.Ref, "data."+m.data)
	}
	return on("Object", m.Ref, "")
}
