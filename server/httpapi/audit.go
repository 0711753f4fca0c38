package httpapi

import (
	"net/http"
	"strings"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/server/audit"
)

// The annotations that tell what was decided about a request.
const (
	decisionKey = "authorization.k8s.io/decision"
	reasonKey   = "authorization.k8s.io/reason"
)

// audit begins the record of a request whose sender is known.
func (s *handler) audit(w *recorder, r *http.Request, i *info, a *auth.Attributes, start time.Time) {
	if s.cfg.Audit == nil {
		return
	}
	w.audit, w.stream = s.record(r, a, start, w.Header().Get("Audit-Id")), i.longRunning()
}

// record begins a record; what.User is nil when nobody was authenticated.
func (s *handler) record(r *http.Request, what *auth.Attributes, start time.Time, id string) *audit.Record {
	rec := s.cfg.Audit.Begin(what)
	if rec == nil {
		return nil
	}
	q := audit.Request{ID: id, URI: r.URL.RequestURI(), UserAgent: r.UserAgent(), Received: start, What: what}
	for _, ip := range utilnet.SourceIPs(r) {
		q.SourceIPs = append(q.SourceIPs, ip.String())
	}
	rec.Received(q)
	return rec
}

// auditStranger records a request with wrong credentials.
func (s *handler) auditStranger(r *http.Request, i *info, start time.Time, id string) {
	if s.cfg.Audit == nil {
		return
	}
	s.record(r, attributes(i, nil), start, id).Refused(http.StatusUnauthorized, tried(r))
}

// tried tells what a stranger offered.
func tried(r *http.Request) string {
	var ways []string
	if _, _, ok := r.BasicAuth(); ok {
		ways = append(ways, "basic")
	}
	if kind, _, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(kind, "bearer") {
		ways = append(ways, "bearer")
	}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		ways = append(ways, "x509")
	}
	if len(ways) == 0 {
		return "Authentication failed, no credentials provided"
	}
	return "Authentication failed, attempted: " + strings.Join(ways, ", ")
}

// auditList records a list as the answer, in the version that the client speaks.
func (p *responder) auditList(l *server.List) {
	if !p.w.audit.WantsAnswer() {
		return
	}
	head, err := p.listHead(l)
	if err != nil {
		return
	}
	p.w.audit.Answers(head, func(yield func(resource.Object) bool) {
		for _, e := range l.Entries {
			obj, err := p.kind.ConvertTo(p.r.Context(), e.Object, p.gvk)
			if err == nil && !yield(obj) {
				return
			}
		}
	}, []byte("]}"))
}
