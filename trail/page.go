package trail

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// Page is the path under which a server tells the trail of an object, as one JSON object a line.
const Page = "/convergence/trail"

// What bounds an answer.
const (
	longAgo  = 24 * time.Hour // how far back is looked unless since says otherwise
	MostTold = 200_000        // writes that are looked at
)

// ServeHTTP answers for one object: resource (deployments.apps), namespace and name; since, a duration; follow=true goes on
// with what comes. all=true, in the place of an object, asks for every write.
func (l *Log) ServeHTTP(w http.ResponseWriter, r *http.Request) { l.Serve(w, r, Telling{}) }

// A Telling says how to answer one request. The zero value tells all that this log knows.
type Telling struct {
	// Filter takes out of a write, a copy, what its reader may not know, and leaves its revision, by which writes are linked.
	Filter func(ctx context.Context, w *Write)
	// Others returns what other servers that share the store have written since then, and warnings about what is not known of them. It is
	// asked about an object, not about everything, and every second while somebody follows.
	Others func(ctx context.Context, since time.Time) ([]Write, []string)
}

// Serve answers as ServeHTTP does.
func (l *Log) Serve(w http.ResponseWriter, r *http.Request, how Telling) {
	q := r.URL.Query()
	object := Ref{Resource: q.Get("resource"), Namespace: q.Get("namespace"), Name: q.Get("name")}
	since := longAgo
	if text := q.Get("since"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			http.Error(w, "since: use a duration like 90s, 10m or 24h", http.StatusBadRequest)
			return
		}
		since = d
	}
	everything := q.Get("all") == "true"
	if !everything && (object.Resource == "" || object.Name == "") {
		http.Error(w, "name an object: resource=deployments.apps&namespace=default&name=web", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/jsonl")
	t := &teller{ctx: r.Context(), w: w, filter: how.Filter, seen: map[int64]bool{}}
	begin := l.cfg.Now().Add(-since)
	list, noted, err := l.gather(t, begin, object, everything, how)
	if err != nil {
		return // the client has gone
	}
	if t.tell(list); !everything && q.Get("follow") == "true" {
		l.follow(t, object, noted, how)
	}
}

// gather reads what is asked for, of the other servers first. These are not asked from a seat, as they may ask this server meanwhile; what
// they told is held by as few at a time as have one.
func (l *Log) gather(t *teller, since time.Time, object Ref, everything bool, how Telling) (list []Write, noted int, err error) {
	if how.Others == nil || everything {
		return l.around(t.ctx, since, object, everything, nil)
	}
	select {
	case l.asks <- struct{}{}:
		defer func() { <-l.asks }()
	case <-t.ctx.Done():
		return nil, 0, t.ctx.Err()
	}
	others, notes := how.Others(t.ctx, since)
	for _, note := range notes {
		t.w.Header().Add("Warning", "299 - "+strconv.Quote(note))
	}
	return l.around(t.ctx, since, object, everything, others)
}

// around reads what has been written of an object and of what belongs to it, by this server and others, or all that this one wrote, and
// how many writes had been noted before.
func (l *Log) around(ctx context.Context, since time.Time, object Ref, everything bool, others []Write) ([]Write, int, error) {
	select {
	case l.seats <- struct{}{}:
		defer func() { <-l.seats }()
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
	l.mu.Lock()
	noted := l.noted
	l.mu.Unlock()
	all, err := l.All(since, MostTold, func(*Write) bool { return true })
	if err != nil {
		l.cfg.Log.Warn("read the trail of writes", "err", err)
	}
	if everything {
		return all, noted, nil
	}
	return NewGraph(append(all, others...)).Around(object), noted, nil
}

// teller writes to one client.
type teller struct {
	ctx    context.Context
	w      http.ResponseWriter
	filter func(ctx context.Context, w *Write)
	seen   map[int64]bool
	err    error
}

func (t *teller) tell(list []Write) {
	enc := json.NewEncoder(t.w)
	for i := range list {
		w := list[i]
		if t.filter != nil {
			w.Cause = w.Cause.clone()
			t.filter(t.ctx, &w)
		}
		if t.err = enc.Encode(&w); t.err != nil {
			return
		}
		t.seen[list[i].Rev] = true
	}
	t.err = http.NewResponseController(t.w).Flush()
}
