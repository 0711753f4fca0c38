package httpapi

import (
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/auth"
)

// An AuditEvent is the record of one request, in the form of audit.k8s.io/v1 at the level Metadata. It never
// holds bodies, so no secret gets into it.
type AuditEvent struct {
	Kind         string            `json:"kind"`
	APIVersion   string            `json:"apiVersion"`
	Level        string            `json:"level"`
	ID           string            `json:"auditID"`
	Stage        string            `json:"stage"`
	URI          string            `json:"requestURI"`
	Verb         string            `json:"verb"`
	User         AuditUser         `json:"user"`
	Impersonated *AuditUser        `json:"impersonatedUser,omitempty"`
	SourceIPs    []string          `json:"sourceIPs,omitempty"`
	UserAgent    string            `json:"userAgent,omitempty"`
	Object       *AuditObject      `json:"objectRef,omitempty"`
	Response     AuditResponse     `json:"responseStatus"`
	Received     metav1.MicroTime  `json:"requestReceivedTimestamp"`
	Finished     metav1.MicroTime  `json:"stageTimestamp"`
	Annotations  map[string]string `json:"annotations,omitempty"`
}

// AuditUser is who asked.
type AuditUser struct {
	Username string              `json:"username,omitempty"`
	UID      string              `json:"uid,omitempty"`
	Groups   []string            `json:"groups,omitempty"`
	Extra    map[string][]string `json:"extra,omitempty"`
}

// AuditObject is what was asked for.
type AuditObject struct {
	Resource    string `json:"resource,omitempty"`
	Namespace   string `json:"namespace,omitempty"`
	Name        string `json:"name,omitempty"`
	Group       string `json:"apiGroup,omitempty"`
	Version     string `json:"apiVersion,omitempty"`
	Subresource string `json:"subresource,omitempty"`
}

// AuditResponse is how it ended.
type AuditResponse struct {
	Code int `json:"code"`
}

// AuditLog returns a Config.Audit that writes one JSON line per event. Writes are serialized.
func AuditLog(w io.Writer) func(*AuditEvent) {
	var mu sync.Mutex
	enc := json.NewEncoder(w)
	return func(e *AuditEvent) {
		mu.Lock()
		defer mu.Unlock()
		if err := enc.Encode(e); err != nil {
			slog.Error("write the audit log", "err", err)
		}
	}
}

// audit reports a finished request.
func (s *surface) audit(r *http.Request, i *info, rec *recorder, start time.Time) {
	if s.cfg.Audit == nil {
		return
	}
	e := &AuditEvent{Kind: "Event", APIVersion: "audit.k8s.io/v1", Level: "Metadata", ID: rec.Header().Get("Audit-Id"),
		Stage: "ResponseComplete", URI: r.URL.RequestURI(), Verb: i.Verb, UserAgent: r.UserAgent(),
		Response: AuditResponse{rec.code}, Received: metav1.NewMicroTime(start), Finished: metav1.NewMicroTime(time.Now())}
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		e.SourceIPs = []string{host}
	}
	if i.Caller != nil {
		e.User = auditUser(i.Caller)
	}
	if i.User != nil && i.User != i.Caller {
		as := auditUser(i.User)
		e.Impersonated = &as
	}
	if i.Resource {
		e.Object = &AuditObject{Resource: i.Res, Namespace: i.Namespace, Name: i.Name, Group: i.Group, Version: i.Version, Subresource: i.Sub}
	}
	if i.Decision != "" {
		e.Annotations = map[string]string{"authorization.k8s.io/decision": i.Decision, "authorization.k8s.io/reason": i.Reason}
	}
	s.cfg.Audit(e)
}

func auditUser(u *auth.User) AuditUser {
	return AuditUser{Username: u.Name, UID: u.UID, Groups: u.Groups, Extra: u.Extra}
}
