package past

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kloop-dev/kloop/history"
	"github.com/kloop-dev/kloop/internal/coldsort"
	"github.com/kloop-dev/kloop/trail"
)

// The actions of an undo.
const (
	Restore = "restore" // write fields as they were
	Create  = "create"  // make anew what was deleted
	Delete  = "delete"  // remove what was made
)

// An Undo takes back what people did to one object.
type Undo struct {
	Object Object  `json:"object"`
	Action string  `json:"action,omitempty"` // "": nothing is done, for the reason in Refused
	Fields []Field `json:"fields,omitempty"` // Old: as it is; New: as it was
	// Conflicts are fields that somebody changed again since: they stay.
	Conflicts []Field        `json:"conflicts,omitempty"`
	Refused   string         `json:"refused,omitempty"`
	Warnings  []string       `json:"warnings,omitempty"`
	Body      map[string]any `json:"-"` // what is written
}

// A Present reads an object as it is now; nil: it is not there.
type Present func(o Object) (map[string]any, error)

// Undoing makes what takes steps back: those of people, and what loops removed because of those. The steps are all of a time, oldest
// first, with their states. It changes nothing.
func Undoing(steps []Step, mine func(*Step) bool, present Present) (list []Undo, err error) {
	roots := map[int64]bool{}
	for i := range steps {
		if s := &steps[i]; mine(s) {
			roots[s.Rev] = true
		}
	}
	groups, people := map[Object][]*Step{}, map[Object][]*Step{}
	var order []Object
	for i := range steps {
		s := &steps[i]
		if ByPerson(s) {
			people[s.Object] = append(people[s.Object], s)
		}
		swept := s.Verb == trail.Deleted && s.Root != nil && roots[s.Root.Rev]
		if !roots[s.Rev] && !swept {
			continue
		}
		if groups[s.Object] == nil {
			order = append(order, s.Object)
		}
		groups[s.Object] = append(groups[s.Object], s)
	}
	for _, o := range order {
		now, err := present(o)
		if err != nil {
			return nil, err
		}
		u, err := undo(o, groups[o], now)
		if err != nil {
			return nil, err
		}
		if u != nil {
			u.since(people[o], groups[o])
			u.hush()
			list = append(list, *u)
		}
	}
	coldsort.StableFunc(list, func(a, b Undo) int { return cmp.Compare(a.rank(), b.rank()) })
	return list, nil
}

// rank orders what is done: what others need first, and what is removed last.
func (u *Undo) rank() int {
	switch {
	case u.Action == Delete:
		return 9
	case u.Object.Resource == "namespaces":
		return 0
	case u.Object.Resource == "customresourcedefinitions.apiextensions.k8s.io":
		return 1
	case u.Object.Resource == "serviceaccounts", u.Object.Resource == "secrets", u.Object.Resource == "configmaps",
		u.Object.Resource == "persistentvolumeclaims", u.Object.Resource == "services":
		return 2
	}
	return 3
}

// undo takes back the steps of one object; nil: there is nothing to take back.
func undo(o Object, steps []*Step, now map[string]any) (*Undo, error) {
	u := &Undo{Object: o}
	first, last := steps[0], steps[len(steps)-1]
	was, err := Tree(first.Before)
	if err != nil {
		return nil, err
	}
	for _, s := range steps {
		if s.Unknown != "" {
			return u.refuse("at %s it was changed, and %s", clock(s.At), s.Unknown), nil
		}
	}
	switch {
	case was == nil && now == nil, was == nil && first.Verb != trail.Created:
		return nil, nil
	case was == nil:
		u.Action = Delete
		return u.mayDelete(), nil
	case now == nil:
		return u.anew(was), nil
	case lookup(now, meta("deletionTimestamp")) != nil:
		return u.refuse("it is being deleted: undo that when it is gone"), nil
	}
	after, err := Tree(last.After)
	if err != nil {
		return nil, err
	}
	if after == nil { // it was deleted, and is there again
		if meta := meta("uid"); lookup(was, meta) != lookup(now, meta) {
			return u.refuse("it was deleted, and another one of its name is there now"), nil
		}
	}
	return u.restore(steps, was, after, now)
}

func meta(name string) []step { return []step{{key: "metadata"}, {key: name}} }

func (u *Undo) refuse(format string, args ...any) *Undo {
	u.Action, u.Refused, u.Fields, u.Conflicts, u.Body = "", fmt.Sprintf(format, args...), nil, nil, nil
	return u
}

// restore writes the fields that the steps changed as they were, where nobody changed them again.
func (u *Undo) restore(steps []*Step, was, after, now map[string]any) (*Undo, error) {
	touched := map[string]bool{}
	for _, s := range steps {
		for _, f := range s.Fields {
			touched[f.Path] = true
		}
	}
	u.Body = now // fields are copied out of it before it changes
	for _, f := range Fields(was, after) {
		if f.Status() || !within(touched, f.Path) {
			continue
		}
		cur := lookup(now, f.steps)
		switch {
		case secretive(f.Old) || secretive(f.New):
			return u.refuse(notKept), nil
		case same(cur, f.Old): // somebody was faster
		case !same(cur, f.New):
			u.Conflicts = append(u.Conflicts, Field{Path: f.Path, Old: cur, New: f.Old})
		default:
			u.Fields = append(u.Fields, Field{Path: f.Path, Old: cur, New: f.Old, steps: f.steps})
		}
	}
	for _, f := range u.Fields {
		u.Body, _ = put(u.Body, f.steps, f.New).(map[string]any)
	}
	switch {
	case len(u.Fields) > 0:
		u.Action = Restore
	case len(u.Conflicts) == 0:
		return nil, nil
	default:
		u.Refused = "all that was changed has been changed again since"
	}
	return u, nil
}

const notKept = "values of Secrets are kept only where the store encrypts them (--encryption-provider-config), and these were not"

// hush takes values of Secrets out of what is shown, and annotations, which may repeat them. What is written keeps them.
func (u *Undo) hush() {
	if u.Object.Resource != "secrets" {
		return
	}
	for _, list := range [][]Field{u.Fields, u.Conflicts} {
		for i := range list {
			f := &list[i]
			if !strings.HasPrefix(f.Path, "data") && !strings.HasPrefix(f.Path, "metadata.annotations") {
				continue
			}
			for _, v := range []*any{&f.Old, &f.New} {
				if *v != nil {
					*v = "(secret)"
				}
			}
		}
	}
}

// within says that a path was touched, something in it, or what it is in.
func within(touched map[string]bool, path string) bool {
	for t := range touched {
		if t == path || strings.HasPrefix(t, path) || strings.HasPrefix(path, t) {
			return true
		}
	}
	return false
}

// secretive says that a value is not what it was, but stands for it.
func secretive(v any) bool {
	doc, err := json.Marshal(v)
	return err == nil && history.HasStandIn(doc)
}

// mayDelete refuses to remove what is more than an entry in the store.
func (u *Undo) mayDelete() *Undo {
	switch u.Object.Resource {
	case "nodes":
		return u.refuse("a node is a machine: stop its agent, and it goes")
	case "namespaces":
		u.Warnings = append(u.Warnings, "all that is in the namespace goes with it")
	case "persistentvolumeclaims", "persistentvolumes":
		u.Warnings = append(u.Warnings, "its data may go with it")
	case "customresourcedefinitions.apiextensions.k8s.io":
		u.Warnings = append(u.Warnings, "all objects of that kind go with it")
	}
	return u
}

// since warns of what people did to the object after the steps that are taken back, where it is lost: the object is removed.
func (u *Undo) since(people, mine []*Step) {
	if u.Action != Delete {
		return
	}
	last := mine[len(mine)-1].Rev
	for _, s := range people {
		if s.Rev > last {
			who := s.By
			if s.User != "" && s.User != who {
				who = s.User + " (" + who + ")"
			}
			u.Warnings = append(u.Warnings, fmt.Sprintf("%s changed it since, at %s: that goes with it", who, clock(s.At)))
		}
	}
}

// anew makes a deleted object again, as far as that brings it back.
func (u *Undo) anew(was map[string]any) *Undo {
	switch u.Object.Resource {
	case "nodes", "certificatesigningrequests.certificates.k8s.io", "componentstatuses":
		return u.refuse("who it was of makes it, nobody else")
	case "persistentvolumes", "persistentvolumeclaims":
		return u.refuse("a new one would be empty: its data is gone, or on a volume that was retained. Bind that by hand")
	case "customresourcedefinitions.apiextensions.k8s.io":
		return u.refuse("all objects of its kind went with it: kloop restore brings back the store as a whole")
	case "jobs.batch":
		return u.refuse("made anew, it would run again: kubectl create it if that is wanted")
	case "endpoints", "endpointslices.discovery.k8s.io", "controllerrevisions.apps", "replicasets.apps":
		return nil // loops make them
	}
	if owners, _ := lookup(was, meta("ownerReferences")).([]any); len(owners) > 0 {
		return u.owned(owners)
	}
	if secretive(was) {
		return u.refuse(notKept)
	}
	for _, name := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "deletionTimestamp",
		"deletionGracePeriodSeconds", "selfLink", "finalizers"} {
		put(was, meta(name), nil)
	}
	delete(was, "status")
	if u.Object.Resource == "pods" {
		put(was, []step{{key: "spec"}, {key: "nodeName"}}, nil)
		u.Warnings = append(u.Warnings, "its containers start from nothing")
	}
	u.Action, u.Body = Create, was
	return u
}

// owned leaves an object to what makes it; nil: there is nothing to say of that.
func (u *Undo) owned(owners []any) *Undo {
	for _, o := range owners {
		if m, _ := o.(map[string]any); m["controller"] == true {
			return nil
		}
	}
	return u.refuse("it belonged to another object, which is not the same any more")
}

// Newest is the newest of the steps, oldest first, that is one of mine; nil: none is.
func Newest(steps []Step, mine func(*Step) bool) *Step {
	for i := len(steps) - 1; i >= 0; i-- {
		if mine(&steps[i]) {
			return &steps[i]
		}
	}
	return nil
}

// ByPerson says that a request of somebody from outside changed what is wanted.
func ByPerson(s *Step) bool {
	return s.By != "" && !s.Program && (s.Verb != trail.Changed || slices.ContainsFunc(s.Fields, func(f Field) bool { return !f.Status() }))
}
