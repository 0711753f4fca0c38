package httpapi_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/auth"
	httpapi "github.com/kloop-dev/kloop/server/http"
)

func TestAudit(t *testing.T) {
	var log bytes.Buffer
	w := newWorld(t, func(c *httpapi.Config) {
		c.Audit = httpapi.AuditLog(&log)
		c.Authz = everyone{func(*auth.Attributes) bool { return false }}
	})
	log.Reset()
	w.must("POST", "/api/v1/namespaces/ns/secrets?x=y", `{"metadata":{"name":"s"},"stringData":{"a":"hidden"}}`, 201, "Impersonate-User", "joe", "Impersonate-Group", auth.GroupMasters)
	w.must("DELETE", "/api/v1/namespaces/ns/secrets/s", "", 403, "Test-User", "eve")
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 2 || strings.Contains(log.String(), "hidden") {
		t.Fatalf("log\n%s", log.String())
	}
	var e httpapi.AuditEvent
	if err := json.Unmarshal([]byte(lines[0]), &e); err != nil {
		t.Fatal(err)
	}
	if e.Verb != "create" || e.User.Username != "system:admin" || e.Impersonated == nil || e.Impersonated.Username != "joe" ||
		e.Response.Code != 201 || e.Object.Resource != "secrets" || e.URI != "/api/v1/namespaces/ns/secrets?x=y" || e.ID == "" {
		t.Errorf("event %+v", e)
	}
	var refused httpapi.AuditEvent
	if err := json.Unmarshal([]byte(lines[1]), &refused); err != nil {
		t.Fatal(err)
	}
	if refused.Response.Code != 403 || refused.Annotations["authorization.k8s.io/decision"] != "forbid" || refused.User.Username != "eve" || refused.Impersonated != nil {
		t.Errorf("event %+v", refused)
	}
}

func TestTimeout(t *testing.T) {
	w := newWorld(t, func(c *httpapi.Config) {
		c.Timeout = 20 * time.Millisecond
		c.Extra = map[string]http.Handler{"/slow": http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })}
	})
	w.must("GET", "/slow", "", 200) // ends, at least
	st := w.must("GET", "/api/v1/nodes?resourceVersion=999999&resourceVersionMatch=NotOlderThan", "", 504).status(t)
	if st.Reason != metav1.StatusReasonTimeout {
		t.Errorf("status %+v", st)
	}
}
