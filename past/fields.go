package past

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/kloop-dev/kloop/internal/coldsort"
)

// A Field is one that two states of an object differ in.
type Field struct {
	Path string `json:"path"` // spec.template.spec.containers[web].image
	Old  any    `json:"old,omitempty"`
	New  any    `json:"new,omitempty"`

	steps []step
}

// A step of a path is a key, or the element of a list whose field `by` is the key.
type step struct{ key, by string }

// Status says that the field tells of the world, not of what is wanted.
func (f *Field) Status() bool { return len(f.steps) > 0 && f.steps[0].key == "status" }

// Fields are those that two states of an object differ in, in order; nil stands for no object. What the server alone writes is left
// out. Lists are compared element by element where something names their elements, and else as a whole.
func Fields(before, after map[string]any) []Field {
	var d differ
	d.maps(nil, before, after)
	coldsort.Func(d.list, func(a, b Field) int { return strings.Compare(a.Path, b.Path) })
	return d.list
}

// served lists the fields that the server keeps, and those that follow from the rest of the object.
var served = map[string]bool{"metadata.resourceVersion": true, "metadata.generation": true, "metadata.managedFields": true,
	"metadata.uid": true, "metadata.creationTimestamp": true, "metadata.selfLink": true, "apiVersion": true, "kind": true,
	"metadata.annotations[kubectl.kubernetes.io/last-applied-configuration]": true,
	"metadata.annotations[deployment.kubernetes.io/revision]":                true,
	"metadata.annotations[deployment.kubernetes.io/desired-replicas]":        true,
	"metadata.annotations[deployment.kubernetes.io/max-replicas]":            true,
	"metadata.deletionTimestamp":                                             true, // the verb says it
	"metadata.deletionGracePeriodSeconds":                                    true,
	"metadata.annotations[deprecated.daemonset.template.generation]":         true}

type differ struct{ list []Field }

func (d *differ) differ(path []step, a, b any) {
	am, aIs := a.(map[string]any)
	bm, bIs := b.(map[string]any)
	if (aIs || a == nil) && (bIs || b == nil) && (aIs || bIs) && (len(path) < 2 || aIs && bIs) {
		d.maps(path, am, bm)
		return
	}
	al, aIs := a.([]any)
	bl, bIs := b.([]any)
	if aIs && bIs {
		if by := named(al, bl); by != "" {
			d.lists(path, by, al, bl)
			return
		}
	}
	if !same(a, b) {
		text := pathText(path)
		if !served[text] {
			d.list = append(d.list, Field{Path: text, Old: a, New: b, steps: slices.Clone(path)})
		}
	}
}

// same says that two values are alike. Both come from JSON.
func same(a, b any) bool { return reflect.DeepEqual(a, b) }

func (d *differ) maps(path []step, a, b map[string]any) {
	keys := slices.Sorted(maps.Keys(a))
	for _, key := range slices.Sorted(maps.Keys(b)) {
		if _, both := a[key]; !both {
			keys = append(keys, key)
		}
	}
	for _, key := range keys {
		d.differ(append(path, step{key: key}), a[key], b[key])
	}
}

func (d *differ) lists(path []step, by string, a, b []any) {
	was := byName(by, a)
	for _, item := range a {
		name := item.(map[string]any)[by].(string)
		if byName(by, b)[name] == nil {
			d.differ(append(path, step{name, by}), item, nil)
		}
	}
	for _, item := range b {
		name := item.(map[string]any)[by].(string)
		var old any
		if m := was[name]; m != nil {
			old = m
		}
		d.differ(append(path, step{name, by}), old, item)
	}
}

// names are the fields that may name the elements of a list.
var names = []string{"name", "mountPath", "devicePath", "topologyKey", "key", "type", "ip"}

// named is the field that names the elements of both lists; "" when none does.
func named(a, b []any) string {
	for _, by := range names {
		if (len(a) > 0 || len(b) > 0) && len(byName(by, a)) == len(a) && len(byName(by, b)) == len(b) {
			return by
		}
	}
	return ""
}

// byName has the elements by the field's value; those that have none, or the same as another, are missing.
func byName(by string, list []any) map[string]map[string]any {
	out := make(map[string]map[string]any, len(list))
	for _, item := range list {
		m, _ := item.(map[string]any)
		if name, ok := m[by].(string); ok {
			out[name] = m
		}
	}
	return out
}

func pathText(path []step) string {
	var b strings.Builder
	for _, s := range path {
		switch {
		case s.by != "" || strings.ContainsAny(s.key, "./"):
			b.WriteString("[" + s.key + "]")
		default:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(s.key)
		}
	}
	return b.String()
}

// lookup returns the value at a path of an object; nil: there is none.
func lookup(v any, path []step) any {
	for _, s := range path {
		switch x := v.(type) {
		case map[string]any:
			v = x[s.key]
		case []any:
			if m := byName(s.by, x)[s.key]; m != nil {
				v = m
				continue
			}
			return nil
		default:
			return nil
		}
	}
	return v
}

// put returns v with another value at a path; nil takes what is there away. v may be changed by it.
func put(v any, path []step, value any) any {
	if len(path) == 0 {
		return value
	}
	s := path[0]
	if s.by == "" {
		m, _ := v.(map[string]any)
		next := put(m[s.key], path[1:], value)
		switch {
		case next != nil && m == nil:
			m = map[string]any{s.key: next}
		case next != nil:
			m[s.key] = next
		default:
			delete(m, s.key)
		}
		if m == nil {
			return nil
		}
		return m
	}
	list, _ := v.([]any)
	for i, item := range list {
		if m, _ := item.(map[string]any); m[s.by] == s.key {
			next := put(m, path[1:], value)
			if next == nil {
				return slices.Delete(list, i, i+1)
			}
			list[i] = next
			return list
		}
	}
	if next := put(nil, path[1:], value); next != nil {
		list = append(list, next)
	}
	return list
}

// Text is the string that an object has at a path of keys; "" when it has none.
func Text(object map[string]any, keys ...string) string {
	path := make([]step, len(keys))
	for i, key := range keys {
		path[i].key = key
	}
	text, _ := lookup(object, path).(string)
	return text
}

// Tree is a state of an object as JSON has it; nil for none.
func Tree(doc json.RawMessage) (map[string]any, error) {
	if len(doc) == 0 {
		return nil, nil
	}
	var out map[string]any
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber() // as they are: large ones are no floats
	if err := dec.Decode(&out); err != nil {
		return nil, fmt.Errorf("read what an object was: %w", err)
	}
	return out, nil
}
