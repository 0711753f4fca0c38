package plan

import (
	"time"
)

// A Report tells the consequences of a change. Its JSON is the output of kloop plan -o json; fields may be added.
type Report struct {
	Change  string    `json:"change"`  // in words: drain node/n1
	Verdict string    `json:"verdict"` // in one sentence
	Stuck   bool      `json:"stuck"`   // something was refused, or something remains that is not what it should be and was so before
	Cluster Cluster   `json:"cluster"`
	Lasts   Duration  `json:"lasts"`  // from the change until all was at rest, or until nobody looked any more
	AtRest  bool      `json:"atRest"` // all was at rest at the end
	Refused []Refusal `json:"refused,omitempty"`

	Made    []Effect `json:"made,omitempty"`
	Changed []Effect `json:"changed,omitempty"`
	Removed []Effect `json:"removed,omitempty"`
	Status  int      `json:"status"` // how many more objects changed in nothing but their status

	Gaps   []Gap `json:"gaps,omitempty"`   // that remain and were not there before
	Still  []Gap `json:"still,omitempty"`  // that were there before
	Closed []Gap `json:"closed,omitempty"` // that the change closes

	Workloads   []Workload   `json:"workloads,omitempty"` // those that the change touches
	Evictions   []Eviction   `json:"evictions,omitempty"`
	Steps       []Step       `json:"steps,omitempty"` // of pods, in the order of time; the first few thousand
	Preemptions []Preemption `json:"preemptions,omitempty"`
	Unfit       []Unfit      `json:"unfit,omitempty"` // pods without a node at the end that had one, or were not there

	Anyway   []Effect `json:"anyway,omitempty"` // what would happen without the change
	Webhooks []Asked  `json:"webhooks,omitempty"`
	Warnings []string `json:"warnings,omitempty"` // what the front door and the tools say of the change
	Unknown  []string `json:"unknown,omitempty"`  // what could not be known, and what was taken for granted
}

// A Cluster tells of the cluster that was forked.
type Cluster struct {
	Server  string    `json:"server"`
	Version string    `json:"version"`
	Rules   string    `json:"rules"` // the version whose rules were applied
	At      time.Time `json:"at"`
	Objects int       `json:"objects"`
	Nodes   int       `json:"nodes"`
	Pods    int       `json:"pods"`
}

// An Object names an object, as people do.
type Object struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

// A Refusal is a part of the change that the front door did not take.
type Refusal struct {
	Object
	Message string `json:"message"`
}

// An Effect is an object that was made, changed or removed; several whose names are made up are one, with their owner.
type Effect struct {
	Object
	Verb   string   `json:"verb,omitempty"`  // made, changed or removed, where a list has all three
	Count  int      `json:"count,omitempty"` // of objects alike; their names would be others
	Owner  string   `json:"owner,omitempty"`
	Fields []string `json:"fields,omitempty"` // that changed, a few of them
}

// A Gap is an object that is not what it should be, and why.
type Gap struct {
	Object
	Verdict string   `json:"verdict"`
	Cause   string   `json:"cause"`
	Owner   string   `json:"owner"`
	State   string   `json:"state"`
	Advice  []string `json:"advice,omitempty"`
	// NoCommand is why no command can help, where the advice has none.
	NoCommand string `json:"noCommand,omitempty"`
	Asked     bool   `json:"asked,omitempty"` // the change says so: a node that is lost, and its pods
}

// A Workload tells how many of its pods were available.
type Workload struct {
	Object
	Before int      `json:"before"` // when the change was made
	Wanted int      `json:"wanted"` // at the end
	Least  int      `json:"least"`  // at any time
	At     Duration `json:"at"`     // when that was, after the change
	Short  Duration `json:"short"`  // for how long there were fewer than before; what lasts to the end counts until all is at rest
	None   Duration `json:"none"`   // for how long there was none, where there was one before
	After  int      `json:"after"`  // at the end
}

// An Eviction is a pod that was asked to go.
type Eviction struct {
	Object
	Owner   string   `json:"owner,omitempty"`
	Node    string   `json:"node"`
	Why     string   `json:"why"`
	After   Duration `json:"after"`             // when it was let go
	Refused int      `json:"refused,omitempty"` // how often it was not
	Message string   `json:"message,omitempty"` // of the last refusal
	Stays   bool     `json:"stays,omitempty"`   // it was never let go
}

// A Preemption is a pod that was deleted to make room.
type Preemption struct {
	Object
	Owner string   `json:"owner,omitempty"`
	For   string   `json:"for,omitempty"`
	Node  string   `json:"node"`
	After Duration `json:"after"`
}

// Unfit are pods of one make that no node takes.
type Unfit struct {
	Object
	Count int    `json:"count"`
	Owner string `json:"owner,omitempty"`
	Why   string `json:"why"`
}

// Asked is a webhook that would have been asked. It was taken to let all pass as it is.
type Asked struct {
	Webhook string `json:"webhook"`
	Times   int    `json:"times"`
}

// A Duration is written as people write it, to the tenth of a second: 1m30.5s.
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = Duration(v)
	return err
}

// String is in tenths of a second: a finer figure would claim to know more than a simulation does.
func (d Duration) String() string { return time.Duration(d).Round(100 * time.Millisecond).String() }
