package converge

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/strict"
)

// notByName are the kinds whose objects people do not name: one of a name that is like another's is not what was meant.
var notByName = []resource.Kind{kinds.Pods, kinds.Nodes, kinds.PersistentVolumes, kinds.Jobs, kinds.Leases, kinds.ReplicaSets}

// maxNear bounds the names that one is compared with.
const maxNear = 2000

// nearTo advises to name another object, or key, where what is waited for does not exist and one is there whose name is like it.
func (w *World) nearTo(wait *convergence.Wait) string {
	if wait == nil || wait.On == nil {
		return ""
	}
	k, ok := w.Kinds.GR(schema.ParseGroupResource(wait.On.Resource))
	if !ok || slices.Contains(notByName, k) || !w.Sees(k, wait.On.Namespace) {
		return ""
	}
	obj := w.Read.Lookup(k, wait.On.Namespace, wait.On.Name)
	key, is := strings.CutPrefix(wait.Field, "data.")
	if obj != nil && !is {
		return ""
	}
	if obj != nil {
		if meant := likest(key, dataKeys(obj)); meant != "" && meant != key {
			return "there is the key " + meant + " in " + wait.On.Short() + ": name it, if that is meant"
		}
		return ""
	}
	if meant := w.likeName(k, wait.On.Namespace, wait.On.Name); meant != "" {
		o := *wait.On
		o.Name = meant
		return "there is " + o.Short() + ": name it, if that is meant"
	}
	return ""
}

// likeName is the name of the object that is called most like another that is not there; "": none is. It is remembered, for many may wait
// for one.
func (w *World) likeName(k resource.Kind, ns, name string) (meant string) {
	at := Ref{k, ns, name}
	if meant, known := w.likest[at]; known {
		return meant
	}
	var names []string
	for other := range w.Read.Each(k, ns) {
		if names = append(names, other.GetName()); len(names) == maxNear {
			break
		}
	}
	if w.likest == nil {
		w.likest = map[Ref]string{}
	}
	w.likest[at] = likest(name, names)
	return w.likest[at]
}

func dataKeys(obj resource.Object) []string {
	switch obj := obj.(type) {
	case *corev1.Secret:
		return slices.Sorted(maps.Keys(obj.Data))
	case *corev1.ConfigMap:
		return slices.AppendSeq(slices.Sorted(maps.Keys(obj.Data)), maps.Keys(obj.BinaryData))
	}
	return nil
}

// likest is the word that is most like another: by its letters, or since one begins or ends with the other. Of words that differ in
// their numbers alone none is.
func likest(word string, known []string) string {
	bare := strings.Map(noDigit, word)
	known = slices.DeleteFunc(known, func(k string) bool { return strings.Map(noDigit, k) == bare })
	if meant := between(strict.Meant(word, known), "did you mean ", "?"); meant != "" {
		return meant
	}
	for _, k := range known {
		if len(k) > 2 && len(word) > 2 && (strings.HasPrefix(k, word) || strings.HasPrefix(word, k) || strings.HasSuffix(word, k) ||
			strings.HasSuffix(k, word)) {
			return k
		}
	}
	return ""
}

func noDigit(r rune) rune {
	if r >= '0' && r <= '9' {
		return -1
	}
	return r
}

// saidGone finds what a controller says is not there, by kind and name: secret "db" not found, LocalQueue q doesn't exist.
var saidGone = regexp.MustCompile(`\b([A-Za-z]+)(?: resource)? [\\"'\x60]*(?:([a-z0-9-]+)/)?([a-z0-9][a-z0-9.-]*[a-z0-9])[\\"'\x60]* ` +
	`(?:could )?(?:not (?:be )?found|does(?: not|n't) exist)`)

// lackOf has a person make what the spec names and the controller says is not there, if that is so.
func lackOf(l *look, f *Finding, message string) {
	m, tree := saidGone.FindStringSubmatch(message), map[string]any(nil)
	if tree, _ = content(l.obj); m == nil || len(f.Below) > 0 || f.State == Blocked || !holds(tree["spec"], m[3]) {
		return
	}
	ns := cmp.Or(m[2], l.obj.GetNamespace())
	list := append(l.search().kindsBy(m[1], "", "", true), l.search().kindsBy(strings.TrimSuffix(m[1], "s"), "", "", true)...)
	if len(list) == 0 {
		return
	}
	k := list[0]
	if ns == "" && k.Info().Namespaced || !l.Sees(k, ns) || l.Read.Lookup(k, ns, m[3]) != nil {
		return
	}
	f.Waits, f.State = on("Object", Ref{k, ns, m[3]}, ""), Blocked
	f.Next = does(person, "makes %s, or names another one; %s goes on then", f.Waits.On.Short(), f.Owner)
}

// holds says that a value in a tree has the text; the names of fields do not count.
func holds(v any, part string) bool {
	switch v := v.(type) {
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(v)), func(v any) bool { return holds(v, part) })
	case []any:
		return slices.ContainsFunc(v, func(v any) bool { return holds(v, part) })
	case string:
		return strings.Contains(v, part)
	}
	return false
}
