package main

import (
	"fmt"
	"maps"
	"slices"
)

// directives are strategic merge patches that do more than set values: of every list and map that the object has.
func directives(s *schema, tree any) []mutation {
	d := &directing{}
	d.walk(s.resolved(), tree, nil)
	return d.all
}

type directing struct{ all []mutation }

func (d *directing) walk(s *schema, tree any, path []any) {
	switch have := tree.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(have)) {
			of := s.Properties[name]
			if of == nil || common[name] && (len(path) == 0 || path[0] == "metadata") {
				continue
			}
			at := append(slices.Clone(path), name)
			switch below := have[name].(type) {
			case map[string]any:
				d.ofMap(below, at)
				d.walk(s.child(of), below, at)
			case []any:
				d.ofList(s, name, below, at)
			}
		}
	}
}

func (d *directing) add(what string, path []any, value any) {
	d.all = append(d.all, mutation{path: path, value: value, what: what})
}

func (d *directing) ofMap(have map[string]any, path []any) {
	d.add("delete", path, map[string]any{"$patch": "delete"})
	d.add("replace", path, map[string]any{"$patch": "replace"})
	d.add("no directive", path, map[string]any{"$patch": "x"})
	for _, name := range slices.Sorted(maps.Keys(have))[:min(len(have), 1)] {
		d.add("retain one", path, map[string]any{"$retainKeys": []any{name}})
		d.add("retain and set another", path, map[string]any{"$retainKeys": []any{"other"}, name: have[name]})
		d.add("replace by one", path, map[string]any{"$patch": "replace", name: have[name]})
	}
}

// ofList sends directives to the list called name in the object that s describes.
func (d *directing) ofList(s *schema, name string, have []any, path []any) {
	if len(have) == 0 {
		return
	}
	key := s.Properties[name].MergeKey
	first, isMap := have[0].(map[string]any)
	beside := func(directive string, value any) (p []any, v any) {
		return append(slices.Clone(path[:len(path)-1]), directive+"/"+name), value
	}
	if !isMap {
		p, v := beside("$deleteFromPrimitiveList", have[:1])
		d.add("delete one", p, v)
		p, v = beside("$deleteFromPrimitiveList", []any{"zz"})
		d.add("delete what is not there", p, v)
		d.add("set", path, []any{have[0], "zz"})
		p, v = beside("$setElementOrder", []any{"zz", have[0]})
		d.add("order", p, v)
		return
	}
	ident := map[string]any{key: first[key]}
	with := func(more map[string]any) map[string]any {
		m := maps.Clone(ident)
		maps.Copy(m, more)
		return m
	}
	d.add("delete one", path, []any{with(map[string]any{"$patch": "delete"})})
	d.add("delete what is not there", path, []any{map[string]any{key: "zz", "$patch": "delete"}})
	d.add("delete without key", path, []any{map[string]any{"$patch": "delete"}})
	d.add("replace all", path, []any{map[string]any{"$patch": "replace"}})
	d.add("replace by one", path, []any{first, map[string]any{"$patch": "replace"}})
	d.add("no directive", path, []any{with(map[string]any{"$patch": "x"})})
	d.add("nothing new", path, []any{ident})
	d.add("without key", path, []any{map[string]any{"zz": "x"}})
	d.add("no object", path, []any{"x"})
	p, v := beside("$setElementOrder", []any{map[string]any{key: "zz"}, ident})
	d.add("order", p, v)
	p, v = beside("$setElementOrder", []any{"x"})
	d.add("order of no objects", p, v)
	for i, one := range have[:min(len(have), 2)] {
		m, _ := one.(map[string]any)
		d.within(s, name, m, append(slices.Clone(path), i))
	}
}

// within looks into an item: what is sent is the item's key and the directive.
func (d *directing) within(s *schema, name string, item map[string]any, path []any) {
	key := s.Properties[name].MergeKey
	if key == "" {
		return
	}
	inner := &directing{}
	inner.walk(s.child(s.child(s.Properties[name]).Items), item, nil)
	for _, m := range inner.all {
		value, _ := m.apply(map[string]any{key: item[key]}).(map[string]any)
		d.add(fmt.Sprintf("%s in %s", m.what, m.field()), path[:len(path)-1], []any{value})
	}
}
