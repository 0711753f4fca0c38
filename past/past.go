// Package past answers time-travel queries: what changed, by whom and because of what; what the cluster was like at a time; and how a
// change is taken back. What objects were comes from package history, who wrote and why from package trail, joined by the revision of
// the write.
package past

import (
	"encoding/json"
	"time"

	"github.com/kloop-dev/kloop/trail"
)

// The paths under which a server answers. Everybody who is logged in may ask: an answer is of the objects that they may get.
const (
	Page = "/convergence/past"      // an Answer
	Gaps = "/convergence/past/gaps" // a GapList of another time
)

// What bounds an answer.
const (
	MostSteps = 20_000    // the newest
	mostBytes = 128 << 20 // of what objects were, unpacked
)

// An Object names one.
type Object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Resource   string `json:"resource"` // deployments.apps
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
}

// A Root is the request of somebody from outside that a change followed from.
type Root struct {
	Rev    int64     `json:"rev"`
	At     time.Time `json:"at"`
	Object trail.Ref `json:"object"` // empty: one that the reader may not see
	Verb   string    `json:"verb,omitempty"`
	What   string    `json:"what,omitempty"`
	By     string    `json:"by,omitempty"`
	User   string    `json:"user,omitempty"` // of those who may read the trail
}

// A Step tells one write.
type Step struct {
	Object Object    `json:"object"`
	Rev    int64     `json:"rev"`
	At     time.Time `json:"at"`
	Verb   string    `json:"verb"` // as in package trail
	By     string    `json:"by,omitempty"`
	User   string    `json:"user,omitempty"` // of those who may read the trail
	Root   *Root     `json:"root,omitempty"` // nil: nobody knows of one
	// Program says that the writer is no person: a loop, an agent, a controller outside.
	Program bool    `json:"program,omitempty"`
	Fields  []Field `json:"fields,omitempty"`
	Unknown string  `json:"unknown,omitempty"` // why fields can't be told

	Before json.RawMessage `json:"before,omitempty"` // where it was asked for
	After  json.RawMessage `json:"after,omitempty"`
}

// An Answer has the writes of a time, oldest first.
type Answer struct {
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
	Steps []Step    `json:"steps"`
	// Notes say what is not known.
	Notes []string `json:"notes,omitempty"`
}
