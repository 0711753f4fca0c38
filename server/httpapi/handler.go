package httpapi

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/auth/authn"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/server/httpapi/discovery"
	"github.com/kloop-dev/kloop/server/httpapi/health"
	"github.com/kloop-dev/kloop/server/httpapi/reply"
	"github.com/kloop-dev/kloop/server/httpapi/stream"
)

// handler is the HTTP surface itself: the configuration, and all that follows from it.
type handler struct {
	cfg      Config
	under    inFlight
	meter    *meter
	streams  streams
	unlisted map[string]http.Handler // pages that / does not name

	send        reply.Sender
	discovery   discovery.Handler
	openapi     discovery.OpenAPI
	health      health.Handler
	self        health.Pages
	connections stream.Server // nil: none are made
}

// Handler is the HTTP surface. It is safe for concurrent use.
type Handler struct{ s *handler }

// New returns the handler for the configuration. It starts nothing.
func New(cfg Config) *Handler {
	cfg.fill()
	s := &handler{cfg: cfg, streams: streams{relieved: cfg.Relieved}, unlisted: cfg.Fair.Pages(), send: reply.Sender{Stall: cfg.Timeout}}
	s.discovery = discovery.Handler{Kinds: cfg.Kinds, Others: cfg.Groups, Delegate: s.delegate, Address: cfg.Address, Send: s.send}
	s.openapi = discovery.OpenAPI{Docs: cfg.OpenAPI, Send: s.send}
	s.health = health.Handler{Live: cfg.Live, Traffic: cfg.Traffic, Begun: cfg.Begun, Ready: cfg.Ready, Closing: s.streams.leaving,
		SLIs: health.NewSLIs()}
	s.self = health.Pages{Version: cfg.Version.GitVersion, Features: cfg.Kinds.Features(), Flags: cfg.Flags, Began: time.Now(), Send: s.send}
	if cfg.Streams != nil {
		s.connections = cfg.Streams(stream.Config{Ops: cfg.Ops, Kinds: cfg.Kinds, Nodes: cfg.Nodes, Dial: cfg.Dial, Connect: cfg.Connect,
			WriteStall: cfg.WriteStall, Send: s.send})
	}
	s.meter = newMeter(&cfg, &s.under)
	cfg.Registry.MustRegister(cfg.Fair, gauges{cfg.Kinds.Features()})
	return &Handler{s: s}
}

// Close ends all streams (watches, logs, proxied connections); new requests are refused. It may be called twice.
func (h *Handler) Close() {
	h.s.streams.close()
	if h.s.connections != nil {
		h.s.connections.Close()
	}
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := h.s
	if s.cfg.Before != nil && s.cfg.Before(w, r) {
		return
	}
	start := time.Now()
	rec := &recorder{ResponseWriter: w}
	head := w.Header()
	head.Set("Audit-Id", auditID(r))
	head.Set("Cache-Control", "no-cache, private")
	i := parse(r)
	defer func() {
		if p := recover(); p != nil {
			s.panicked(rec, r, p)
		}
		s.meter.observe(i, r, rec, start)
		s.witness(r, i, rec)
		rec.audit.Complete(rec.stream)
	}()
	if i.lost {
		reply.Lost(rec, r)
		return
	}
	if !i.longRunning() {
		if _, err := s.timeout(r); err != nil {
			s.send.Fail(rec, r, err)
			return
		}
	}
	s.admit(rec, r, i, start)
}

// panicked turns a panic into an answer if there is still one to give.
func (s *handler) panicked(rec *recorder, r *http.Request, p any) {
	rec.audit.Panicked(fmt.Sprint(p))
	rec.audit = nil // nothing follows
	if p == http.ErrAbortHandler {
		panic(p)
	}
	slog.Error("request panicked", "method", r.Method, "path", r.URL.Path, "err", fmt.Sprint(p), "stack", string(debug.Stack()))
	if rec.code == 0 {
		s.send.Fail(rec, r, server.Panicked())
		return
	}
	panic(http.ErrAbortHandler) // a half answer must not look whole
}

// admit holds the request to the limits, then finds out who asks and whether it may.
func (s *handler) admit(w *recorder, r *http.Request, i *info, start time.Time) {
	if i.Resource && s.streams.closed() {
		w.Header().Set("Connection", "close")
		s.send.Fail(w, r, apierrors.NewServiceUnavailable("the server is shutting down"))
		return
	}
	user, ok := s.authenticate(w, r, i, start)
	if !ok {
		return
	}
	a := attributes(i, user)
	s.audit(w, r, i, a, start)
	as, constraint, err := authn.Impersonate(r.Context(), a, r.Header, s.cfg.Authz)
	if err != nil {
		s.send.Fail(w, r, err)
		return
	}
	if i.User = as; as != user {
		w.audit.As(as, constraint)
		a = attributes(i, as)
	}
	ctx, leave, ok := s.enter(w, r, i, a)
	if !ok {
		return
	}
	defer leave()
	r = r.WithContext(ctx)
	if !s.authorize(w, r, a) {
		return
	}
	s.dispatch(w, r, i, as)
}

func (s *handler) authenticate(w *recorder, r *http.Request, i *info, start time.Time) (*auth.User, bool) {
	user, ok, err := s.cfg.Authn.Authenticate(r)
	if err == nil && ok {
		r.Header.Del("Authorization") // no part further in may see or pass on the secret
		s.meter.certificate(r, start)
		return user, true
	}
	if r.ProtoMajor == 2 { // many streams on one connection would cost a stranger nothing
		w.Header().Set("Connection", "close")
	}
	if err == nil && !s.cfg.NoAnonymous {
		return &auth.User{Name: auth.Anonymous, Groups: []string{auth.GroupUnauthed}}, true
	}
	if err != nil {
		slog.Debug("request with wrong credentials", "path", r.URL.Path, "err", err)
	}
	s.auditStranger(r, i, start, w.Header().Get("Audit-Id"))
	s.send.Fail(w, r, apierrors.NewUnauthorized("Unauthorized"))
	return nil, false
}

// authorize asks whether the user may do what the URL says.
func (s *handler) authorize(w *recorder, r *http.Request, a *auth.Attributes) bool {
	d, reason, err := s.cfg.Authz.Authorize(r.Context(), a)
	if d == auth.Allow {
		w.audit.Annotate(decisionKey, "allow")
		w.audit.Annotate(reasonKey, reason)
		return true
	}
	w.audit.Annotate(decisionKey, "forbid")
	w.audit.Annotate(reasonKey, reason)
	if err != nil && d == auth.NoOpinion && reason == "" {
		slog.Debug("authorization failed", "user", a.User.Name, "path", r.URL.Path, "err", err)
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	s.send.Fail(w, r, auth.Forbidden(a, reason))
	return false
}

func attributes(i *info, user *auth.User) *auth.Attributes {
	a := &auth.Attributes{User: user, Verb: i.Verb, Path: i.Path}
	if !i.Resource {
		return a
	}
	a.Path = ""
	a.Group, a.Version, a.Resource, a.Subresource = i.Group, i.Version, i.Res, i.Sub
	a.Namespace, a.Name = i.Namespace, i.named()
	if !i.LegacyWatch {
		a.LabelSelector, a.FieldSelector = i.List.LabelSelector, i.List.FieldSelector
	}
	return a
}

// timeout is the limit of a short request; a client may ask for a shorter one. What is no duration is 400.
func (s *handler) timeout(r *http.Request) (time.Duration, error) {
	if !strings.Contains(r.URL.RawQuery, "timeout=") {
		return s.cfg.Timeout, nil
	}
	text := r.URL.Query().Get("timeout")
	if text == "" {
		return s.cfg.Timeout, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, apierrors.NewBadRequest("invalid timeout specified in the request URL - " + err.Error())
	}
	if d <= 0 {
		return s.cfg.Timeout, nil
	}
	return min(d, s.cfg.Timeout), nil
}

// auditID is the client's own id of the request, as it is, else a fresh random one.
func auditID(r *http.Request) string {
	if id := r.Header.Get("Audit-ID"); id != "" {
		return id
	}
	return server.RandomUUID()
}
