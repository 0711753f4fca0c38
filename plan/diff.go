package plan

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/internal/coldsort"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/sim"
)

// String is kind/name, as kubectl prints it.
func (o Object) String() string { return strings.ToLower(o.Kind) + "/" + o.Name }

func compare(a, b Object) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
}

func objectOf(k resource.Kind, obj resource.Object) Object {
	return Object{k.Info().GVK.Kind, obj.GetNamespace(), obj.GetName()}
}

// A difference lies between two states.
type difference struct {
	made, changed, removed []Effect
	status                 int // objects that changed in nothing but their status
}

// untold are kinds that come and go with others and say nothing of their own.
var untold = []resource.Kind{kinds.Events, kinds.Leases, kinds.ControllerRevisions, kinds.IPAddresses, kinds.Endpoints}

// between compares two states of a world.
func between(set *resource.Set, was, is resource.Reader) (d difference) {
	made, removed := effects{}, effects{}
	for _, k := range set.All() {
		if k.Info().Virtual || slices.Contains(untold, k) {
			continue
		}
		for obj := range is.Each(k, "") {
			old := was.Lookup(k, obj.GetNamespace(), obj.GetName())
			switch {
			case old == nil:
				made.add(k, obj)
			case old.GetUID() != obj.GetUID(): // a namesake
				removed.add(k, old)
				made.add(k, obj)
			case old.GetResourceVersion() != obj.GetResourceVersion():
				fields, status := changes(k, old, obj)
				switch {
				case len(fields) > 0:
					d.changed = append(d.changed, Effect{Object: objectOf(k, obj), Fields: fields})
				case status:
					d.status++
				}
			}
		}
		for obj := range was.Each(k, "") {
			if is.Lookup(k, obj.GetNamespace(), obj.GetName()) == nil {
				removed.add(k, obj)
			}
		}
	}
	d.made, d.removed = made.list(), removed.list()
	coldsort.Func(d.changed, func(a, b Effect) int { return compare(a.Object, b.Object) })
	return d
}

// effects groups objects whose names are made up.
type effects map[likeness]int

// A likeness is common to all objects of a group.
type likeness struct {
	Object
	owner string
}

func (e effects) add(k resource.Kind, obj resource.Object) {
	key := likeness{Object: objectOf(k, obj)}
	ref := metav1.GetControllerOfNoCopy(obj)
	if ref != nil {
		key.owner = Object{Kind: ref.Kind, Name: ref.Name}.String()
	}
	if obj.GetGenerateName() != "" && (ref == nil || ref.Kind != "StatefulSet") {
		key.Name = ""
	}
	e[key]++
}

func (e effects) list() (list []Effect) {
	for key, n := range e {
		x := Effect{Object: key.Object, Owner: key.owner}
		if key.Name == "" {
			x.Count = n
		}
		list = append(list, x)
	}
	coldsort.Func(list, func(a, b Effect) int { return cmp.Or(compare(a.Object, b.Object), cmp.Compare(a.Owner, b.Owner)) })
	return list
}

// maxFields bounds the list of changed fields of an object.
const maxFields = 6

// changes says which fields outside the status differ, and whether the status does.
func changes(k resource.Kind, old, obj resource.Object) (list []string, status bool) {
	a, b := tree(k, old), tree(k, obj)
	status = !reflect.DeepEqual(a["status"], b["status"])
	for _, t := range []map[string]any{a, b} {
		delete(t, "status")
		if m, ok := t["metadata"].(map[string]any); ok {
			for _, name := range []string{"managedFields", "resourceVersion", "generation"} {
				delete(m, name)
			}
			if notes, ok := m["annotations"].(map[string]any); ok {
				delete(notes, corev1.LastAppliedConfigAnnotation)
				delete(notes, sim.Lost)
			}
		}
	}
	differing("", a, b, &list)
	if len(list) > maxFields {
		list = append(list[:maxFields], "…")
	}
	return list, status
}

func tree(k resource.Kind, obj resource.Object) map[string]any {
	var t map[string]any
	data, err := codec.MarshalJSON(obj)
	if err != nil || json.NewDecoder(bytes.NewReader(data)).Decode(&t) != nil {
		return map[string]any{"unreadable": obj.GetResourceVersion()}
	}
	return t
}

// differing lists the paths at which two trees differ, in their order.
func differing(at string, a, b any, list *[]string) {
	if reflect.DeepEqual(a, b) {
		return
	}
	if x, ok := a.(map[string]any); ok {
		if y, ok := b.(map[string]any); ok {
			all := maps.Clone(x)
			maps.Copy(all, y)
			for _, key := range slices.Sorted(maps.Keys(all)) {
				differing(strings.TrimPrefix(at+"."+key, "."), x[key], y[key], list)
			}
			return
		}
	}
	*list = append(*list, at)
}
