// Package mentions finds the objects that the spec of another one names, in any kind, and what it asks of them that they do not have.
package mentions

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/resource"
)

// What the spec of an object names is found by the names of fields, as all kinds have them: passwordSecretRef, sourceRef with a kind, the
// configMap of a volume, priorityClassName. So a name that is mistyped is found in kinds of which no rule knows too.

// A Mention is an object that another one names in its spec.
type Mention struct {
	converge.Ref
	Field string
	Obj   resource.Object // nil: it does not exist
	Loose bool            // the field may name what is still to be made: it counts where the controller speaks of it
	Part  string          // what is asked of it and it does not have: "the key pasword"; "": nothing
	Help  string          // what helps, where that is known
	data  string          // that key
	has   []string        // what it has in its place
}

// Says completes a sentence about the one who names it; "" of one that is there.
func (m *Mention) Says(ns string) string {
	o := converge.Named(m.Kind, m.NS, m.Name)
	name := o.Short()
	if o.Namespace != "" && o.Namespace != ns {
		name += " of namespace " + o.Namespace
	}
	switch {
	case m.Obj == nil:
		return "names " + name + " in " + m.Field + ", which does not exist"
	case len(m.has) > 0:
		return "names " + m.Part + " of " + name + " in " + m.Field + ", which has " + words.List(m.has, 4)
	case m.Part != "":
		return "names " + m.Part + " of " + name + " in " + m.Field + ", which has no such"
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

// A Search goes through the spec of one object.
type Search struct {
	*converge.World
	Kind  resource.Kind
	Obj   resource.Object
	Found []Mention
	Gone  []Mention // what the status names and is not there

	beside string // the namespace that stands beside the name that is looked at
}

// namespaceBeside is the namespace that a spec has for the name in one of its fields: secretNamespace of secretName. One that is only
// called namespace counts where it is of a part.
func namespaceBeside(path, field string, v map[string]any) string {
	stem, is := strings.CutSuffix(field, "Name")
	if _, named := v[field].(string); !is && field != "name" || !named {
		return ""
	}
	if ns := words.String(v, stem+"Namespace"); ns != "" && is {
		return ns
	}
	if !strings.Contains(path, ".") {
		return ""
	}
	return words.String(v, "namespace")
}

// Of begins a search through the spec of the object that is looked at.
func Of(l *converge.Look) *Search {
	return &Search{World: l.World, Kind: l.Kind, Obj: l.Obj}
}

// Mentions are the objects that a spec names, in the order of its fields.
func (s *Search) Mentions(tree map[string]any) []Mention {
	s.Walk("spec", "", tree["spec"], 0)
	s.meshed(tree)
	status, _ := tree["status"].(map[string]any)
	for _, field := range slices.Sorted(maps.Keys(status)) { // as boundVolumeSnapshotContentName
		if stem, is := strings.CutSuffix(field, "Name"); is {
			s.add("status."+field, s.KindsBy(stem, "", "", false), nil, words.String(status, field))
		}
		if ref, _ := status[field].(map[string]any); strings.HasSuffix(field, "Ref") && words.String(ref, "kind") != "" {
			s.take("status."+field, field, ref)
		}
	}
	notes := s.Obj.GetAnnotations() // as metal3.io/BareMetalHost: a/host-1
	for _, note := range slices.Sorted(maps.Keys(notes)) {
		group, kind, _ := strings.Cut(note, "/")
		ns, name, placed := strings.Cut(notes[note], "/")
		if list := s.KindsBy(kind, group, "", true); placed && len(list) > 0 && list[0].Info().Custom {
			s.add("metadata.annotations."+note, list, map[string]any{"namespace": ns}, name)
		}
	}
	labels := s.Obj.GetLabels() // as cluster.x-k8s.io/cluster-name
	for _, label := range slices.Sorted(maps.Keys(labels)) {
		group, stem, _ := strings.Cut(label, "/")
		if stem, is := strings.CutSuffix(stem, "-name"); is && words.Domain(group) == words.Domain(s.Kind.Info().GVK.Group) {
			s.add("metadata.labels."+label, s.KindsBy(stem, "", "", true), nil, labels[label])
		}
	}
	return slices.DeleteFunc(s.Found, func(m Mention) bool { // who names it there makes it, or has taken it away
		if m.Obj == nil && strings.HasPrefix(m.Field, "status.") {
			s.Gone = append(s.Gone, m)
		}
		return m.Obj == nil && !strings.HasPrefix(m.Field, "spec") || m.Obj != nil && m.Obj.GetUID() == s.Obj.GetUID()
	})
}

// Walk goes through a value of the spec, and what is in it.
func (s *Search) Walk(path, field string, v any, depth int) {
	if depth > 14 || len(s.Found) >= converge.MaxLooks {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		if s.take(path, field, v) {
			return
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			s.beside = namespaceBeside(path, key, v)
			s.Walk(path+"."+key, key, v[key], depth+1)
		}
	case []any:
		for _, item := range v {
			s.Walk(path, field, item, depth+1)
		}
	case string:
		stem, is := strings.CutSuffix(field, "Name")
		stem = strings.TrimSuffix(stem, "CR") // of "custom resource"
		if n := len(s.Found); field == "secretName" {
			if s.add(path, s.KindsBy(stem, "", "", true), map[string]any{"namespace": s.beside}, v); len(s.Found) > n {
				s.Found[n].Loose = true
			}
		}
		if stem, several := strings.CutSuffix(field, "Names"); several { // as clusterNames
			n := len(s.Found)
			own := slices.DeleteFunc(s.KindsBy(stem, "", "", true), func(k resource.Kind) bool { return !k.Info().Custom })
			if s.add(path, own, nil, v); len(s.Found) > n {
				s.Found[n].Loose = true
			}
			return
		}
		if n := len(s.Found); n == 0 || s.Found[n-1].Field != path {
			s.byKind(path, stem, v)
		}
		if of := s.KindsBy(classField(path, field), "", "", true); len(of) > 0 && s.any(of[0]) { // else controllers go by the bare word
			s.add(path, of, nil, v)
		}
		if is && (strings.HasSuffix(stem, "Class") && stem != "storageClass" || stem == "serviceAccount" ||
			stem == "persistentVolumeClaim") {
			s.add(path, s.KindsBy(stem, "", "", true), nil, v)
		}
	}
}

// classField is the kind of class that a field names that is not called className: class of ingress, storageClass; "": it names none.
func classField(path, field string) string {
	switch low := strings.ToLower(field); {
	case low == "class" || low == "classname":
		parts := strings.Split(path, ".")
		return parts[max(len(parts)-2, 0)] + "Class"
	case strings.HasSuffix(low, "class") && low != "priorityclass":
		return field
	}
	return ""
}

// any says that there are objects of a kind.
func (s *Search) any(k resource.Kind) bool {
	for range s.Read.Each(k, "") {
		return true
	}
	return false
}

// byKind notes an object of the project's own that a field names by the end of its kind: storageLocation, queueName.
func (s *Search) byKind(path, stem, name string) {
	if len(stem) < 3 {
		return
	}
	stem = strings.ToLower(stem)
	own := words.Domain(s.Kind.Info().GVK.Group)
	for _, k := range s.Kinds.All() {
		i := k.Info()
		if !i.Custom || words.Domain(i.GVK.Group) != own {
			continue
		}
		if ends := len(stem) > 4 && strings.HasSuffix(strings.ToLower(i.GVK.Kind), stem); !ends && initials(i.GVK.Kind) != stem {
			continue
		}
		ns := ""
		if i.Namespaced {
			ns = s.Obj.GetNamespace()
		}
		if obj := s.Read.Lookup(k, ns, name); obj != nil && obj.GetUID() != s.Obj.GetUID() {
			s.Found = append(s.Found, Mention{Ref: converge.Ref{Kind: k, NS: ns, Name: name}, Field: path, Obj: obj, Loose: true})
		}
	}
}

// initials are the first letters of the words of a kind, by which people call it: vmi of VirtualMachineInstance.
func initials(kind string) string {
	return strings.ToLower(strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r
		}
		return -1
	}, kind))
}

// take finds the reference that a field is; false: it is none.
func (s *Search) take(path, field string, v map[string]any) bool {
	low := strings.ToLower(field)
	optional, _ := v["optional"].(bool)
	kind := words.String(v, "kind") // autoscalers aim at what is there
	aims := low == "scaletargetref" || strings.HasSuffix(strings.TrimSuffix(low, "s"), "targetref") && kind != "" && kind != "Secret"
	aims = aims || strings.Contains(low, "targetref") && v["key"] != nil // as KEDA's secretTargetRef, of which a value is taken
	if optional || !aims && slices.ContainsFunc(made, func(part string) bool { return strings.Contains(low, part) }) {
		return true
	}
	name := words.String(v, "name")
	stem := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(field, "s"), "Ref"), "Reference")
	switch {
	case field == "dependsOn":
		s.add(path, []resource.Kind{s.Kind}, v, name)
		return true
	case inPlace[field] != "":
		s.add(path, s.KindsBy(stem, "", "", true), v, cmp.Or(words.String(v, inPlace[field]), name))
		return true
	case name == "":
		return false
	case strings.TrimSuffix(low, "s") == "service" && v["port"] != nil && v["targetPort"] == nil && (kind == "" || kind == "Service"):
		s.add(path, s.KindsBy("Service", "", "v1", true), v, name) // as routes of proxies have them
		return true
	case stem == strings.TrimSuffix(field, "s") && (kind == "" || words.String(v, "apiVersion") == ""):
		// as cluster: {name: x}, of the project's own kinds
		own := slices.DeleteFunc(s.KindsBy(stem, "", "", true), func(k resource.Kind) bool {
			return !k.Info().Custom || words.Domain(k.Info().GVK.Group) != words.Domain(s.Kind.Info().GVK.Group)
		})
		if len(v) == 1 {
			s.add(path, own, v, name)
		}
		return len(v) == 1 && len(own) > 0
	}
	group, _, versioned := strings.Cut(words.String(v, "apiVersion"), "/")
	if !versioned {
		group = cmp.Or(words.String(v, "group"), words.String(v, "apiGroup"))
	}
	if k, ok := s.Kinds.GR(schema.GroupResource{Group: group, Resource: words.String(v, "resource")}); ok &&
		kind == "" { // as OpenShift has it
		s.add(path, []resource.Kind{k}, v, name)
		return true
	}
	if kind != "" {
		s.add(path, s.KindsBy(kind, group, words.String(v, "apiVersion"), true), v, name)
		return true
	}
	known := stems[stem]
	stem = strings.TrimSuffix(strings.TrimSuffix(stem, "Key"), "Target")
	of := s.KindsBy(cmp.Or(known, stems[stem], stem), group, "", false)
	if s.add(path, of, v, name); len(of) == 0 {
		s.byKind(path, stem, name) // as authenticationRef names a TriggerAuthentication
	}
	return true
}

// KindsBy are the kinds that a word may mean, the likeliest first. A word that is not said to be a kind may end with one.
func (s *Search) KindsBy(word, group, version string, exact bool) (list []resource.Kind) {
	own, size := words.Domain(s.Kind.Info().GVK.Group), 0
	for _, k := range s.Kinds.All() {
		i := k.Info()
		kind := i.GVK.Kind
		near := words.Domain(i.GVK.Group) == own
		switch {
		case i.Virtual || len(kind) < size || group != "" && i.GVK.Group != group || version != "" && group == "" && i.GVK.Group != "":
			continue
		case exact && !strings.EqualFold(kind, word) || !strings.HasSuffix(strings.ToLower(word), strings.ToLower(kind)):
			continue
		case i.Custom && !near && group == "" && s.Kind.Info().Custom:
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

// add notes what a field names, unless it can't be known whether that exists.
func (s *Search) add(path string, of []resource.Kind, v map[string]any, name string) {
	if len(of) == 0 || name == "" {
		return
	}
	m := Mention{Field: path}
	for _, k := range of {
		ns := ""
		if k.Info().Namespaced {
			if ns = cmp.Or(words.String(v, "namespace"), s.Obj.GetNamespace()); ns == "" {
				return
			}
		}
		if !s.Sees(k, ns) {
			return
		}
		if m.Obj = s.Read.Lookup(k, ns, name); m.Kind == nil || m.Obj != nil {
			m.Ref = converge.Ref{Kind: k, NS: ns, Name: name}
		}
		if m.Obj != nil {
			break
		}
	}
	items, _ := v["items"].([]any)
	for _, item := range append(items, v) {
		if one, _ := item.(map[string]any); m.Obj != nil && m.Part == "" {
			m.ask(one)
		}
	}
	s.Found = append(s.Found, m)
}

// ask looks whether an object has the part that is asked of it.
func (m *Mention) ask(v map[string]any) {
	var has []string
	part, word := "", ""
	switch obj := m.Obj.(type) {
	case *corev1.Secret, *corev1.ConfigMap:
		part, word, has = "the key ", words.String(v, "key"), converge.DataKeys(obj)
	case *corev1.Service:
		if port, is := v["port"].(int64); is && len(obj.Spec.Ports) > 0 {
			part, word = "port ", fmt.Sprint(port)
		}
		for _, p := range obj.Spec.Ports {
			has = append(has, fmt.Sprint(p.Port))
		}
	default:
		tree, _ := words.Tree(obj)
		spec, _ := tree["spec"].(map[string]any)
		listeners, _ := spec["listeners"].([]any)
		for _, item := range listeners {
			one, _ := item.(map[string]any)
			has = append(has, words.String(one, "name"))
		}
		part, word = "the listener ", words.String(v, "sectionName")
	}
	if word == "" || len(has) == 0 || slices.Contains(has, word) {
		return
	}
	if m.Part, m.has = part+word, has; part == "the key " {
		m.data, m.has = word, nil // keys are for those alone who may read the object: see nearTo
	}
}

// Instead is the part that is asked of an object and that it does not have, and those that it has in its place; nil: those are not known.
func (m *Mention) Instead() (part string, has []string) {
	return m.Part[strings.LastIndexByte(m.Part, ' ')+1:], m.has
}

// Lacks notes that an object has not a key of data, if that is so.
func (m *Mention) Lacks(key string) {
	if has := converge.DataKeys(m.Obj); len(has) > 0 && !slices.Contains(has, key) {
		m.Part, m.data = "the key "+key, key
	}
}

// Wait says on what its referrer waits.
func (m *Mention) Wait() *convergence.Wait {
	if m.data != "" {
		return converge.On("Field", m.Ref, "data."+m.data)
	}
	return converge.On("Object", m.Ref, "")
}
