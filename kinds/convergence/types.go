package convergence

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Gap is an object that is not what it should be, and why. Its name is RESOURCE[.GROUP]:NAME of the object:
// pods:web-1, deployments.apps:web. It is in the object's namespace; that of an object without one is in default,
// as its events are.
type Gap struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Object  Object      `json:"object" doc:"The object that is not what it should be."`
	Verdict string      `json:"verdict" doc:"What is wrong and why, in one sentence."`
	Says    string      `json:"says" doc:"What differs, in words that complete a sentence whose subject is the object."`
	Detail  string      `json:"detail,omitempty" doc:"What stands in the way of the object's own loop, where the cause lies below."`
	Want    string      `json:"want,omitempty" doc:"The field that says what should be, and its value."`
	Have    string      `json:"have,omitempty" doc:"The field that says what is, and its value."`
	Since   metav1.Time `json:"since" doc:"When the difference came about, as far as the object tells."`

	Cause   string `json:"cause" doc:"The situation at the bottom of it, in one word: ImagePull, QuotaExceeded."`
	Because string `json:"because,omitempty" doc:"The cause in words, with the object that it was found at."`
	Owner   string `json:"owner" doc:"Whose move it is: a loop, a node agent, a controller outside, or a person."`
	// Latent is stuck only once somebody asks for it; Resting rests on purpose, and shows to who asks for it by name.
	State  string   `json:"state" doc:"Queued, Running, BackingOff, Waiting, Blocked, Missing, Failed, Progressing, Latent or Resting."`
	Waits  *Wait    `json:"waits,omitempty" doc:"What the owner waits for."`
	Next   Next     `json:"next" doc:"Who does what next, and when."`
	Error  *Failure `json:"error,omitempty" doc:"The owner's last error, word for word."`
	Advice []string `json:"advice,omitempty" doc:"What a person can do."`
	// Commands follow from Advice: see Advise.
	Commands []string `json:"commands,omitempty" doc:"The commands in that advice, to be pasted. Fill in words in capitals."`
	// NoCommand is empty where there are Commands.
	NoCommand string `json:"noCommand,omitempty" doc:"Why no command can help, where the advice has none."`

	Others int32 `json:"others,omitempty" doc:"How many more of the same controller are in that situation, and left out of the list."`

	Chain []Link `json:"chain,omitempty" doc:"The causes below the object, as a tree in the order in which it is read."`
}

// Alike has the gap stand for n more like it.
func (g *Gap) Alike(n int32) {
	if g.Others = n; n > 0 {
		words := fmt.Sprintf(" (and %d more like it)", n)
		g.Verdict, g.Because = g.Verdict+words, g.Because+words
	}
}

// An Object names an object of any kind.
type Object struct {
	APIVersion string `json:"apiVersion,omitempty" doc:"Group and version."`
	Kind       string `json:"kind" doc:"Kind."`
	Resource   string `json:"resource,omitempty" doc:"Plural name of the kind with its group: deployments.apps."`
	Namespace  string `json:"namespace,omitempty" doc:"Namespace; empty for objects without one."`
	Name       string `json:"name" doc:"Name."`
	UID        string `json:"uid,omitempty" doc:"Identity, if the object exists."`
}

// A Wait names what somebody waits for.
type Wait struct {
	Type  string  `json:"type" doc:"Object, Field, Person, Webhook, Quota, Finalizer, APIService, Policy, Controller, Node or Time."`
	Name  string  `json:"name,omitempty" doc:"Name of it where it is no object: that of the webhook, the finalizer, the controller."`
	On    *Object `json:"on,omitempty" doc:"The object that is waited for."`
	Field string  `json:"field,omitempty" doc:"The field of it that has to change."`
}

// Next tells who acts next, and how.
type Next struct {
	Who  string       `json:"who" doc:"A loop, a node agent, a controller outside, or a person."`
	What string       `json:"what" doc:"What it does."`
	At   *metav1.Time `json:"at,omitempty" doc:"When; missing: as soon as what it waits for changes."`
}

// A Failure is an error that came once or often.
type Failure struct {
	Message string       `json:"message" doc:"The error, word for word."`
	Count   int64        `json:"count,omitempty" doc:"How often it came in a row."`
	First   *metav1.Time `json:"first,omitempty" doc:"When it came first."`
	Last    *metav1.Time `json:"last,omitempty" doc:"When it came last."`
}

// A Link is one step of the way from an object to the cause.
type Link struct {
	Depth  int32    `json:"depth" doc:"How deep in the tree: 1 is directly below the gap's own object."`
	Object Object   `json:"object" doc:"The object at this step; it may not exist."`
	Says   string   `json:"says" doc:"What is wrong with it, in words that complete a sentence."`
	Cause  string   `json:"cause,omitempty" doc:"The situation, in one word."`
	Owner  string   `json:"owner,omitempty" doc:"Whose move it is."`
	State  string   `json:"state,omitempty" doc:"As in the gap."`
	Error  *Failure `json:"error,omitempty" doc:"The owner's last error."`
	Others int32    `json:"others,omitempty" doc:"How many more objects are in the same situation and left out."`
}

// A Loop tells how one control loop is doing.
type Loop struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Depth       int64        `json:"depth" doc:"Keys that are due and not yet looked at."`
	Running     int64        `json:"running" doc:"Keys that are being looked at."`
	Waiting     int64        `json:"waiting" doc:"Keys that are due later, on purpose or after an error."`
	Failing     int64        `json:"failing" doc:"Keys whose last look failed."`
	Keys        int64        `json:"keys" doc:"Keys that the loop knows."`
	Oldest      string       `json:"oldest" doc:"How long the oldest due key has waited."`
	Rate        string       `json:"rate" doc:"Looks per second in the last minute."`
	Done        int64        `json:"done" doc:"Looks since the loop started."`
	Failed      int64        `json:"failed" doc:"Looks since the loop started that failed."`
	P99         string       `json:"p99" doc:"99 of 100 of the newest looks took no longer."`
	LastSuccess *metav1.Time `json:"lastSuccess,omitempty" doc:"When a look last went well."`
	LastError   *Failure     `json:"lastError,omitempty" doc:"The newest error."`
	Replicas    int32        `json:"replicas" doc:"Processes that could run the loop: they tell so themselves, or hold its lease."`
	Leader      string       `json:"leader" doc:"The process that runs it: the holder of its lease, where there is one."`
	Lease       string       `json:"lease,omitempty" doc:"The lease by which its process is elected: NAMESPACE/NAME."`
	Keeps       string       `json:"keeps,omitempty" doc:"The resource whose objects it keeps; * is every one."`
	Writes      []string     `json:"writes,omitempty" doc:"The resources that it may change; * is every one."`
	Outside     bool         `json:"outside,omitempty" doc:"Of a controller that is known by its lease alone: there are no figures."`
}

// A Fight is a field that two managers, or one against itself, set back and forth.
type Fight struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Object   Object      `json:"object" doc:"The object."`
	Field    string      `json:"field" doc:"The field."`
	Managers []string    `json:"managers" doc:"Who writes it; one alone fights itself."`
	Values   []string    `json:"values" doc:"The values that it goes back and forth between."`
	Turns    int64       `json:"turns" doc:"How often it went back to a value that it had before."`
	Rate     string      `json:"rate" doc:"Turns per minute, or per hour."`
	Since    metav1.Time `json:"since" doc:"When it went back first."`
	Last     metav1.Time `json:"last" doc:"When it went back last."`
}

// A Report tells the server about the loops that run in a process, so that a loop elsewhere is explained as exactly
// as one in the server's own process. To create one is to tell; nothing of it is stored, and it counts for seconds.
type Report struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Process string   `json:"process" doc:"The process, by the name that it stands for election with."`
	Lease   string   `json:"lease,omitempty" doc:"The lease by which it is elected: NAMESPACE/NAME."`
	Loops   []Loop   `json:"loops,omitempty" doc:"The loops that run in it."`
	Records []Record `json:"records,omitempty" doc:"Their keys that are not at rest."`
	Watches []Watch  `json:"watches,omitempty" doc:"Of a server: the controllers that watch through it."`
	Refused []Denial `json:"refused,omitempty" doc:"Of a server: writes of controllers that it refused."`
	Server  *Server  `json:"server,omitempty" doc:"Of a server: what it lacks itself."`
	Again   int32    `json:"again,omitempty" doc:"In the answer: after how many seconds to tell anew."`
}

// A Record holds a loop's knowledge of one of its keys.
type Record struct {
	Loop      string   `json:"loop" doc:"Name of the loop."`
	Resource  string   `json:"resource" doc:"Plural name of the kind with its group."`
	Namespace string   `json:"namespace,omitempty" doc:"Namespace of the object."`
	Name      string   `json:"name" doc:"Name of the object."`
	State     string   `json:"state" doc:"resting, queued, waiting, fenced or running."`
	Since     WireTime `json:"since" doc:"When it was queued, or started to run."`
	Fails     int32    `json:"fails,omitempty" doc:"Failures in a row."`
	Error     string   `json:"error,omitempty" doc:"The newest failure."`
	FirstFail WireTime `json:"firstFail,omitzero" doc:"When the first of the row came."`
	LastFail  WireTime `json:"lastFail,omitzero" doc:"When the last of the row came."`
	LastGood  WireTime `json:"lastGood,omitzero" doc:"When a look last went well."`
	Next      WireTime `json:"next,omitzero" doc:"When it is due again."`
	Note      string   `json:"note,omitempty" doc:"What it waits for."`
}

// A Server lists the wants of an API server itself.
type Server struct {
	Name    string   `json:"name" doc:"Its Lease in kube-system."`
	Refuses string   `json:"refuses,omitempty" doc:"Why it takes no writes."`
	Slow    string   `json:"slow,omitempty" doc:"How long a write takes, when that is long."`
	Since   WireTime `json:"since,omitzero" doc:"Since when it takes none, or is slow."`
	Silent  []Silent `json:"silent,omitempty" doc:"Members of the store that don't answer it."`
	Ending  []Ending `json:"ending,omitempty" doc:"Certificates that end soon, or have ended."`
}

// A Silent is a member of the store that does not answer.
type Silent struct {
	Name  string   `json:"name" doc:"Its name."`
	URL   string   `json:"url" doc:"Where it should answer."`
	Since WireTime `json:"since" doc:"Since when it does not."`
}

// An Ending is a certificate with little time left.
type Ending struct {
	What  string   `json:"what" doc:"What it is for."`
	Since WireTime `json:"since" doc:"Since when it should be another one."`
	Until WireTime `json:"until" doc:"How long it is good."`
}

// WireTime is a time with its parts of a second.
type WireTime = metav1.MicroTime

// A Watch is somebody who watches a resource.
type Watch struct {
	Resource string `json:"resource" doc:"Plural name of the kind with its group."`
	Agent    string `json:"agent" doc:"Who: a user agent."`
}

// A Denial is a write that was refused.
type Denial struct {
	User      string  `json:"user" doc:"Who wanted to write."`
	Agent     string  `json:"agent,omitempty" doc:"With what program."`
	Verb      string  `json:"verb" doc:"What it wanted to do."`
	Resource  string  `json:"resource" doc:"To what kind of object."`
	Namespace string  `json:"namespace,omitempty" doc:"Namespace of the object."`
	Name      string  `json:"name,omitempty" doc:"Name of the object."`
	Forbidden bool    `json:"forbidden,omitempty" doc:"For want of a right."`
	Error     Failure `json:"error" doc:"The refusal."`
}
