package httpapi

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/server"
)

// The headers that name the flow of a request.
const (
	schemaHeader = "X-Kubernetes-Pf-Flowschema-Uid"
	levelHeader  = "X-Kubernetes-Pf-Prioritylevel-Uid"
)

// objectsPerSeat is the number of listed objects that are as much work as one other request.
const objectsPerSeat = 100

// inFlight counts the short requests under way.
type inFlight struct{ reads, writes atomic.Int64 }

func (f *inFlight) of(verb string) *atomic.Int64 {
	if verb == "get" || verb == "list" || verb == "head" {
		return &f.reads
	}
	return &f.writes
}

// enter waits for the seats of the request and sets its time limit. A watch has no limit and gives its seats back when
// it has begun; other streams take none. All streams end when the server does.
func (s *handler) enter(w *recorder, r *http.Request, i *info, a *auth.Attributes) (context.Context, func(), bool) {
	if i.longRunning() {
		return s.enterStream(w, r, i, a)
	}
	limit, _ := s.timeout(r) // a bad one has been refused by now
	ctx, cancel := context.WithTimeout(r.Context(), limit)
	leave, ok := s.seat(ctx, w, r, i, a)
	if !ok {
		cancel()
		return nil, nil, false
	}
	under := s.under.of(i.Verb)
	under.Add(1)
	return ctx, func() {
		under.Add(-1)
		cancel()
		leave()
	}, true
}

func (s *handler) enterStream(w *recorder, r *http.Request, i *info, a *auth.Attributes) (context.Context, func(), bool) {
	ctx, end, ok := s.streams.join(r.Context())
	if !ok {
		s.send.Fail(w, r, apierrors.NewTooManyRequests("too many streams are open, please try again later", 1))
		return nil, nil, false
	}
	if i.Verb != "watch" {
		return ctx, end, true
	}
	leave, ok := s.seat(ctx, w, r, i, a)
	if !ok {
		end()
		return nil, nil, false
	}
	leave = sync.OnceFunc(leave)
	i.begun = leave
	return ctx, func() {
		leave()
		end()
	}, true
}

// seat takes the seats of a request, or answers that there are none.
func (s *handler) seat(ctx context.Context, w *recorder, r *http.Request, i *info, a *auth.Attributes) (leave func(), ok bool) {
	sorted := s.cfg.Fair.Sort(a, time.Now())
	flow, head := sorted.Flow(), w.Header()
	if flow.SchemaUID != nil && flow.LevelUID != nil {
		head[schemaHeader], head[levelHeader] = flow.SchemaUID, flow.LevelUID
	}
	seats := 1
	if most := sorted.Most(); most > 1 {
		seats = s.seats(i, most)
	}
	t, err := s.cfg.Fair.Enter(ctx, sorted, seats)
	if err != nil {
		s.send.Fail(w, r, apierrors.NewTooManyRequests("too many requests, please try again later", 1))
		return nil, false
	}
	return func() { s.cfg.Fair.Leave(t) }, true
}

// seats is the number of seats that a request is worth: those that read many objects take more, up to most.
func (s *handler) seats(i *info, most int) int {
	list := i.Verb == "list"
	if i.Verb == "watch" {
		initial := i.List.SendInitialEvents != nil && *i.List.SendInitialEvents
		list = initial || i.List.ResourceVersion == "" || i.List.ResourceVersion == "0"
	}
	if !list || s.cfg.Count == nil || i.named() != "" {
		return 1
	}
	enough := most * objectsPerSeat
	if limit := int(i.List.Limit); limit > 0 && i.List.LabelSelector == "" && i.List.FieldSelector == "" {
		enough = min(enough, limit)
	}
	n := min(enough, s.cfg.Count(i.gvr(), i.Namespace, enough))
	return max(1, min(most, (n+objectsPerSeat-1)/objectsPerSeat))
}

// begun gives the seats of a watch back once its client has what there was at the beginning.
func (c *request) begun(opts *metav1.ListOptions, events []server.Event) {
	if c.info.begun == nil {
		return
	}
	initial := opts.SendInitialEvents != nil && *opts.SendInitialEvents
	if !initial || slices.ContainsFunc(events, func(e server.Event) bool { return e.Initial }) {
		c.info.begun()
		c.info.begun = nil
	}
}
