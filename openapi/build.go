package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/resource"
)

// builder makes documents from kinds and schemas.
type builder struct {
	lib     *edition
	custom  map[schema.GroupVersionKind]*told
	on      *features.Set
	set     *resource.Set              // which subresources are served; nil: all
	defined bool                       // all kinds come from definitions: upstream makes their documents apart from all others
	texts   map[string]json.RawMessage // of custom resources, as far as they were needed
	lists   map[string]json.RawMessage // of custom resources
}

// routes returns all routes of a group version.
func (b *builder) routes(gv schema.GroupVersion, kinds []resource.Kind) []route {
	prefix := "/" + GroupPath(gv)
	group, tag := friendly(gv)
	var list []route
	if !slices.ContainsFunc(kinds, func(k resource.Kind) bool { return k.Info().Custom }) {
		list = append(list, route{path: prefix + "/", ops: []operation{{method: "get", id: "get" + group + "APIResources", tag: tag,
			doc: "get available resources", produces: mediaTypes, out: resourceName, codes: []string{"200", "401"}}}})
	}
	for _, k := range kinds {
		i := k.Info()
		m := &maker{info: i, subs: b.set.Subs(i, gv), gvk: gv.WithKind(kindIn(i, gv)), model: b.model, prefix: prefix, group: group, tag: tag}
		list = append(list, m.make()...)
		if i.Custom {
			b.addList(i, m.gvk)
		}
	}
	return list
}

// kindIn is the kind's name in the version.
func kindIn(i *resource.Info, gv schema.GroupVersion) string {
	for _, gvk := range i.Also {
		if gvk.GroupVersion() == gv {
			return gvk.Kind
		}
	}
	return i.GVK.Kind
}

// friendly names a group version in ids and tags: RbacAuthorizationV1, rbacAuthorization_v1.
func friendly(gv schema.GroupVersion) (id, tag string) {
	group := strings.TrimSuffix(gv.Group, ".k8s.io")
	if group == "" {
		group = "core"
	}
	return words(group, true) + title(gv.Version), words(group, false) + "_" + gv.Version
}

// words makes one word of a name: what no id may hold is left out, and what follows it begins large.
func words(name string, large bool) string {
	var b strings.Builder
	for i, r := range name {
		switch {
		case !unicode.IsLetter(r) && r != '_' && (i == 0 || !unicode.IsDigit(r)):
			large = true
			continue
		case large:
			r = unicode.ToUpper(r)
		}
		b.WriteRune(r)
		large = false
	}
	return b.String()
}

func title(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

func upper(s string) string { return strings.ToUpper(s) }

// model names the schema of a kind.
func (b *builder) model(gvk schema.GroupVersionKind) string {
	if name, ok := b.lib.Kinds[kindKey(gvk)]; ok {
		return name
	}
	return customName(gvk)
}

// customName is the group backwards, the version and the kind: com.example.v1.CronTab.
func customName(gvk schema.GroupVersionKind) string {
	parts := strings.Split(gvk.Group, ".")
	slices.Reverse(parts)
	return strings.Join(append(parts, gvk.Version, gvk.Kind), ".")
}

// find returns the text of a schema.
func (b *builder) find(name string) (json.RawMessage, bool) {
	if raw, ok := b.lib.v3(name); ok {
		return raw, true
	}
	if raw, ok := b.lists[name]; ok {
		return raw, true
	}
	raw, ok := b.texts[name]
	return raw, ok
}

// read makes the schema of a custom resource ready to be found. One that can't be made is any object.
func (b *builder) read(gvk schema.GroupVersionKind) {
	if b.texts == nil {
		b.texts = map[string]json.RawMessage{}
	}
	b.texts[customName(gvk)], _ = json.Marshal(b.custom[gvk].object(gvk))
}

// object is the schema. One that can't be made is any object.
func (t *told) object(gvk schema.GroupVersionKind) object {
	if t != nil && t.tree != nil {
		doc, err := t.tree()
		if err == nil {
			return doc
		}
		slog.Warn("a kind is described without its schema", "kind", gvk.Kind, "err", err)
	}
	doc, _ := customSchema(gvk, nil)
	return doc
}

// used returns all schemas that the routes need.
func (b *builder) used(routes []route) map[string]json.RawMessage {
	set := map[string]json.RawMessage{}
	for i := range routes {
		for j := range routes[i].ops {
			o := &routes[i].ops[j]
			closure(b.find, set, o.out, o.body)
			if o.action == "list" && !b.defined {
				closure(b.find, set, eventName) // a list may be a watch
			}
		}
	}
	return set
}

// schemas are those of a group version's document, in which types that all groups share name only its own group.
func (b *builder) schemas(gv schema.GroupVersion, routes []route) map[string]json.RawMessage {
	set := b.used(routes)
	for _, name := range []string{deleteName, eventName, statusName} {
		if raw, ok := set[name]; ok {
			set[name] = narrowed(raw, func(group, version string) bool {
				if b.defined { // of all groups but those of upstream's other servers
					return group != "apiextensions.k8s.io" && group != "apiregistration.k8s.io"
				}
				return group == "" && version == "v1" || group == gv.Group && version == gv.Version
			})
		}
	}
	return set
}

// narrowed drops the kinds of group versions that do not belong from a schema's list of kinds.
func narrowed(raw json.RawMessage, belongs func(group, version string) bool) json.RawMessage {
	var s map[string]json.RawMessage
	var kinds []map[string]string
	if json.Unmarshal(raw, &s) != nil || json.Unmarshal(s[gvkExtension], &kinds) != nil {
		return raw
	}
	kinds = slices.DeleteFunc(kinds, func(k map[string]string) bool { return !belongs(k["group"], k["version"]) })
	s[gvkExtension], _ = json.Marshal(kinds)
	out, err := json.Marshal(s)
	if err != nil {
		return raw
	}
	return out
}

// addList makes the schema of a custom resource's list, and of the resource itself if nobody told it.
func (b *builder) addList(i *resource.Info, gvk schema.GroupVersionKind) {
	if b.lists == nil {
		b.lists = map[string]json.RawMessage{}
	}
	name, list := listSchema(i, gvk)
	b.lists[name], _ = json.Marshal(list)
	b.read(gvk)
}

// listSchema is the schema of a custom resource's list, and its name.
func listSchema(i *resource.Info, gvk schema.GroupVersionKind) (string, object) {
	list := listOf(i, gvk)
	props := typeProps()
	props["metadata"] = refWith(meta+"ListMeta", "Standard list metadata.")
	props["items"] = object{"type": "array", "description": "List of " + i.Plural + ".", "items": ref(customName(gvk))}
	out := object{"type": "object", "description": list.Kind + " is a list of " + gvk.Kind,
		"required": []string{"items"}, "properties": props, gvkExtension: []any{gvkObject(list)}}
	var fields []any
	for _, f := range i.Selectable {
		if !strings.HasPrefix(f, "metadata.") { // all objects can be selected by those
			fields = append(fields, object{"fieldPath": f})
		}
	}
	if fields != nil {
		out["x-kubernetes-selectable-fields"] = fields
	}
	return customName(list), out
}

func refWith(name, doc string) object {
	return object{"allOf": []any{ref(name)}, "description": doc}
}

func typeProps() object {
	return object{
		"apiVersion": object{"type": "string", "description": "APIVersion defines the versioned schema of this representation of an object."},
		"kind":       object{"type": "string", "description": "Kind is a string value representing the REST resource this object represents."},
	}
}

// customSchema completes the schema of a custom resource: type, metadata and what kind it is.
func customSchema(gvk schema.GroupVersionKind, s *spec.Schema) (object, error) {
	doc := object{}
	if s != nil {
		raw, err := json.Marshal(s)
		if err != nil {
			return nil, fmt.Errorf("encode the schema of %s: %w", gvk, err)
		}
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.UseNumber()
		if err := dec.Decode(&doc); err != nil {
			return nil, fmt.Errorf("read the schema of %s: %w", gvk, err)
		}
	}
	doc["type"], doc[gvkExtension] = "object", []any{gvkObject(gvk)}
	if s == nil {
		return doc, nil
	}
	props := typeProps()
	if own, ok := doc["properties"].(object); ok {
		maps.Copy(own, props)
		props = own
	}
	props["metadata"] = refWith(meta+"ObjectMeta", "Standard object's metadata.")
	doc["properties"] = props
	return doc, nil
}
