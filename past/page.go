package past

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/history"
	"github.com/kloop-dev/kloop/internal/coldsort"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/trail"
	"github.com/kloop-dev/kloop/view"
)

// A Reader answers one request: what it may see.
type Reader interface {
	// Sees says that the reader may get an object.
	Sees(ctx context.Context, k resource.Kind, ns, name string) bool
	// Trail says that the reader may know which users wrote.
	Trail(ctx context.Context) bool
}

// A Desk answers for a server. It is safe for concurrent use.
type Desk struct {
	History *history.Log
	View    *view.View
	Kinds   *resource.Set
	// Fresh is a snapshot of the view with all writes that were acknowledged before the call.
	Fresh func(ctx context.Context) (*view.Snapshot, error)
	// Writes are those since a time that the trails of all servers know, and what could not be asked.
	Writes func(ctx context.Context, since time.Time) (list []trail.Write, notes []string)
	Reader func(r *http.Request) Reader
	Now    func() time.Time
	Rules  converge.Rules // of what was stuck

	once  sync.Once
	seats chan struct{}
}

// readers bounds the questions that are answered at a time: each may read all of the history, and everybody may ask.
const readers = 2

// sit waits for a seat; leave gives it back.
func (d *Desk) sit(ctx context.Context) (leave func(), err error) {
	d.once.Do(func() { d.seats = make(chan struct{}, readers) })
	select {
	case d.seats <- struct{}{}:
		return func() { <-d.seats }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A query holds the parameters of a request.
type query struct {
	from, until         time.Time
	resource, ns, name  string // "": all
	whole, status, open bool   // states too; changes of status alone too; values of Secrets too
}

func (d *Desk) query(q url.Values) (query, error) {
	now := d.Now()
	out := query{resource: q.Get("resource"), ns: q.Get("namespace"), name: q.Get("name"), from: now.Add(-10 * time.Minute), until: now,
		whole: q.Get("whole") == "true", status: q.Get("status") == "true", open: q.Get("secrets") == "true"}
	for name, at := range map[string]*time.Time{"from": &out.from, "until": &out.until} {
		if text := q.Get(name); text != "" {
			t, err := time.Parse(time.RFC3339Nano, text)
			if err != nil {
				return out, fmt.Errorf("%s: use a time like %s", name, now.UTC().Format(time.RFC3339))
			}
			*at = t
		}
	}
	if !out.from.Before(out.until) {
		return out, fmt.Errorf("from must be before until")
	}
	return out, nil
}

// wants says that an object is asked for.
func (q *query) wants(k resource.Kind, ns, name string) bool {
	return (q.resource == "" || q.resource == k.Info().GR().String()) && (q.ns == "" || q.ns == ns) && (q.name == "" || q.name == name)
}

// ServeHTTP answers what changed between from and until, times as in RFC 3339: of resource (deployments.apps), namespace and name,
// each of which may be left out. whole=true adds what objects were before and after, secrets=true values of Secrets to those,
// status=true changes of status alone.
func (d *Desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q, err := d.query(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	out, err := d.answer(r.Context(), &q, d.Reader(r))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out) // a client that has gone needs no answer
}

// settle is the present state, once the log holds all that led to it.
func (d *Desk) settle(ctx context.Context) *view.Snapshot {
	ctx, stop := context.WithTimeout(ctx, time.Second)
	defer stop()
	s, err := d.Fresh(ctx) // what another server has acknowledged, too
	if err != nil {
		s = d.View.Snapshot()
	}
	_ = d.History.Wait(ctx, s.Rev()) // else the newest writes are missing, and shown as unknown
	return s
}

func (d *Desk) answer(ctx context.Context, q *query, who Reader) (*Answer, error) {
	leave, err := d.sit(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	out := &Answer{From: q.from, Until: q.until, Steps: []Step{}}
	now := d.settle(ctx)
	cut, more, err := d.cut(ctx, q, who)
	if err != nil {
		return nil, err
	}
	if more {
		out.From = cut
		out.Notes = append(out.Notes, fmt.Sprintf("more changed than one answer holds: this begins at %s", instant(cut)))
	}
	c := collecting{desk: d, q: q, who: who, now: now, from: cut, open: map[string]int{}, told: who.Trail(ctx)}
	c.causes(ctx, out)
	span, err := d.History.Since(cut, func(r *history.Record) bool { return c.take(ctx, r) })
	if err != nil {
		return nil, err
	}
	c.finish()
	out.Notes = append(out.Notes, Span(span, q.from)...)
	for i := range c.steps {
		if s := c.steps[i].told(ctx, &c); s != nil {
			out.Steps = append(out.Steps, *s)
		}
	}
	return out, ctx.Err()
}

// Span words what is not known of the time since from.
func Span(s history.Span, from time.Time) (notes []string) {
	if s.Oldest.After(from.Add(time.Second)) {
		notes = append(notes, fmt.Sprintf("nothing is known of before %s", instant(s.Oldest)))
	}
	for _, b := range s.Breaks {
		notes = append(notes, fmt.Sprintf("not all is known from %s to %s: the server did not run, or was behind", instant(b.From),
			instant(b.To)))
	}
	return notes
}

// instant is a time in what a server says: its reader may be in another zone.
func instant(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// clock is a time as its reader's clock shows it; for the reader's own process.
func clock(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }

// cut is from when on all that is wanted fits into an answer.
func (d *Desk) cut(ctx context.Context, q *query, who Reader) (from time.Time, more bool, err error) {
	type mark struct {
		at   time.Time
		size int64
	}
	var marks []mark
	total := int64(0)
	_, err = d.History.Since(q.from, func(r *history.Record) bool {
		if k, ns, name, ok := d.Kinds.ByKey(r.Key); ok && q.wants(k, ns, name) {
			marks = append(marks, mark{r.At, int64(r.Size())})
			total += marks[len(marks)-1].size
			for len(marks) > 0 && (len(marks) > MostSteps || total > mostBytes) {
				total -= marks[0].size
				marks, more = marks[1:], true
			}
		}
		return ctx.Err() == nil
	})
	if !more || len(marks) == 0 {
		return q.from, more, err
	}
	return marks[0].at, true, err
}

// part says whether a write was made by a part of the cluster: a loop, an agent, an operator with its service account. Somebody who has
// one's token and kubectl, as in a pipeline, is none.
func part(w *trail.Write) bool {
	byHand := strings.HasPrefix(w.User, "system:serviceaccount:") && strings.HasPrefix(w.Agent, "kubectl")
	return w.Cause != nil || strings.HasPrefix(w.User, "system:") && !byHand
}

// objectOf names an object of a kind.
func objectOf(k resource.Kind, ns, name string) Object {
	i := k.Info()
	return Object{APIVersion: i.GVK.GroupVersion().String(), Kind: i.GVK.Kind, Resource: i.GR().String(), Namespace: ns, Name: name}
}

// Path is the object's in the API.
func (o *Object) Path() string { return o.Collection() + "/" + url.PathEscape(o.Name) }

// Collection is the path of all objects of its kind in its namespace.
func (o *Object) Collection() string {
	p := "/apis/" + o.APIVersion
	if !strings.Contains(o.APIVersion, "/") {
		p = "/api/" + o.APIVersion
	}
	if o.Namespace != "" {
		p += "/namespaces/" + o.Namespace
	}
	plural, _, _ := strings.Cut(o.Resource, ".")
	return p + "/" + plural
}

// Short is kind/name.
func (o *Object) Short() string { return strings.ToLower(o.Kind) + "/" + o.Name }

// sorted by revision, as the trails of several servers come one after the other.
func sorted(list []trail.Write) []trail.Write {
	coldsort.Func(list, func(a, b trail.Write) int { return int(a.Rev - b.Rev) })
	return list
}
