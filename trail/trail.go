// Package trail remembers who changed what, when, and because of what: the newest writes in memory, more of them on disk
// (about a day of normal use). Nothing is added to stored objects: what a write was made for travels beside it, in the
// context, from the loop that makes it to the server that stores it.
package trail

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/kloop-dev/kloop/resource"
)

// A Ref names an object, and a write of it where Rev is set.
type Ref struct {
	Resource  string `json:"resource,omitempty"` // deployments.apps
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	Rev       int64  `json:"rev,omitempty"`
}

// A Cause is why a loop writes: the key that it works on, and the changes that woke it, the newest last.
type Cause struct {
	Loop  string `json:"loop"`
	Key   Ref    `json:"key"`
	Woken []Ref  `json:"woken,omitempty"` // at most four
}

func (c *Cause) clone() *Cause {
	if c == nil {
		return nil
	}
	out := *c
	out.Woken = slices.Clone(c.Woken)
	return &out
}

type causeKey struct{}

// With returns a context whose writes are made because of c.
func With(ctx context.Context, c *Cause) context.Context {
	return WithMade(ctx, func() *Cause { return c })
}

// WithMade is With for a cause that is made when a write first asks for it.
func WithMade(ctx context.Context, made func() *Cause) context.Context {
	return context.WithValue(ctx, causeKey{}, sync.OnceValue(made))
}

// From is the cause that the context carries, or nil: a person or a program from outside.
func From(ctx context.Context) *Cause {
	if made, ok := ctx.Value(causeKey{}).(func() *Cause); ok {
		return made()
	}
	return nil
}

// RefOf names an object as the log does.
func RefOf(k resource.Kind, ns, name string) Ref {
	return Ref{Resource: k.Info().GR().String(), Namespace: ns, Name: name}
}

// The verbs of writes.
const (
	Created = "create"
	Changed = "change"
	Marked  = "mark" // it is to be deleted, once nobody holds it any more
	Deleted = "delete"
)

// A Write is one change of one object.
type Write struct {
	Ref            // of the object; Rev is the write's
	At   time.Time `json:"at"`
	Verb string    `json:"verb"`
	What string    `json:"what,omitempty"` // in words: replicas 3 → 5
	UID  string    `json:"uid,omitempty"`
	// Owner is the object that controls it.
	OwnerKind string `json:"ownerKind,omitempty"`
	OwnerName string `json:"ownerName,omitempty"`

	User    string `json:"user,omitempty"`
	Manager string `json:"manager,omitempty"` // field manager
	Agent   string `json:"agent,omitempty"`   // user agent, of requests over the wire
	Cause   *Cause `json:"cause,omitempty"`   // nil: somebody from outside
}

// Parent is the write that woke who made this one; false: nobody knows of one.
func (w *Write) Parent() (Ref, bool) {
	if w.Cause == nil {
		return Ref{}, false
	}
	best := Ref{}
	for _, r := range w.Cause.Woken {
		if r.Rev > best.Rev && r.Rev < w.Rev {
			best = r
		}
	}
	return best, best.Rev > 0
}

// A Change is a write as the server sees it. Old and New are shared and not to be changed.
type Change struct {
	Kind                 resource.Kind
	Old, New             resource.Object // nil: created; deleted
	Rev                  int64
	User, Manager, Agent string
	Cause                *Cause
}
