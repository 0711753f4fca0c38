package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/server/audit"
	"github.com/kloop-dev/kloop/server/httpapi"
)

// heard is an audit output that keeps events.
type heard struct {
	mu     sync.Mutex
	events []auditv1.Event
	text   strings.Builder
}

func (h *heard) Name() string                { return "test" }
func (h *heard) Batch() (int, time.Duration) { return 1, 0 }

func (h *heard) Write(_ context.Context, lines [][]byte) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, line := range lines {
		var e auditv1.Event
		if err := json.Unmarshal(line, &e); err != nil {
			return err
		}
		h.events = append(h.events, e)
		h.text.Write(line)
	}
	return nil
}

// audited runs a few requests under the policy and returns the events of each, "verb resource[/sub] stage".
func audited(t *testing.T, policy string, requests func(w *world)) (h *heard) {
	t.Helper()
	p, err := audit.ParsePolicy([]byte("apiVersion: audit.k8s.io/v1\nkind: Policy\n" + policy))
	if err != nil {
		t.Fatal(err)
	}
	h = &heard{}
	a := audit.New(audit.Config{Policy: p, Outputs: []audit.Output{h}})
	w := newWorld(t, func(c *httpapi.Config) {
		c.Audit = a
		c.Authz = everyone{func(a *auth.Attributes) bool { return a.User.Name == "joe" }}
		c.Extra = map[string]http.Handler{"/panic": http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("oh") })}
	})
	requests(w)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	a.Run(ctx, slog.New(slog.DiscardHandler)) // writes what is left
	return h
}

func (h *heard) summary() (list []string) {
	for _, e := range h.events {
		what := e.RequestURI
		if e.ObjectRef != nil {
			what = e.ObjectRef.Resource
			if e.ObjectRef.Name != "" {
				what += "/" + e.ObjectRef.Name
			}
		}
		code := int32(0)
		if e.ResponseStatus != nil {
			code = e.ResponseStatus.Code
		}
		list = append(list, fmt.Sprintf("%s %s %s %s %d", e.Verb, what, e.Level, e.Stage, code))
	}
	return list
}

func TestAuditStages(t *testing.T) {
	h := audited(t, `
rules:
- {level: None, resources: [{group: "", resources: [namespaces]}]}
- {level: RequestResponse, resources: [{group: "", resources: [configmaps]}], omitManagedFields: true}
- {level: Request, resources: [{group: "", resources: [nodes]}], omitStages: [RequestReceived]}
- {level: Metadata, nonResourceURLs: [/panic], omitStages: [RequestReceived]}
- {level: Metadata, resources: [{group: ""}], omitStages: [RequestReceived]}
`, func(w *world) {
		w.must("POST", "/api/v1/namespaces/ns/secrets?x=y", `{"metadata":{"name":"s"},"stringData":{"a":"hidden"}}`, 201,
			"Impersonate-User", "joe")
		w.must("DELETE", "/api/v1/namespaces/ns/secrets/s", "", 403, "Test-User", "eve")
		w.must("GET", "/api/v1/namespaces/ns/secrets/s", "", 401, "Test-User", "liar", "Authorization", "Bearer x")
		w.must("POST", "/api/v1/namespaces/ns/configmaps", `{"metadata":{"name":"c"},"data":{"k":"v"}}`, 201)
		w.must("GET", "/api/v1/namespaces/ns/configmaps", "", 200, "Accept", "application/vnd.kubernetes.protobuf")
		w.must("PATCH", "/api/v1/namespaces/ns/configmaps/c", `{"data":{"k":"w"}}`, 200, "Content-Type", "application/merge-patch+json")
		w.must("DELETE", "/api/v1/namespaces/ns/configmaps/c", `{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background"}`, 200)
		w.must("GET", "/api/v1/nodes?watch=true&resourceVersion=x", "", 500)
		w.must("GET", "/panic", "", 500)
		w.must("GET", "/version", "", 200)
	})
	want := []string{
		"create secrets/s Metadata ResponseComplete 201", "delete secrets/s Metadata ResponseComplete 403",
		"get secrets/s Metadata ResponseStarted 401",
		"create configmaps RequestResponse RequestReceived 0", "create configmaps/c RequestResponse ResponseComplete 201",
		"list configmaps RequestResponse RequestReceived 0", "list configmaps RequestResponse ResponseComplete 200",
		"patch configmaps/c RequestResponse RequestReceived 0", "patch configmaps/c RequestResponse ResponseComplete 200",
		"delete configmaps/c RequestResponse RequestReceived 0", "delete configmaps/c RequestResponse ResponseComplete 200",
		"watch nodes Request ResponseStarted 500", "watch nodes Request ResponseComplete 500",
		"get /panic Metadata Panic 500",
	}
	if got := h.summary(); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if strings.Contains(h.text.String(), "hidden") || strings.Contains(h.text.String(), "managedFields") {
		t.Errorf("the log tells too much: %s", h.text.String())
	}
	made, refused, stranger := h.events[0], h.events[1], h.events[2]
	if made.User.Username != "system:admin" || made.ImpersonatedUser == nil || made.ImpersonatedUser.Username != "joe" ||
		made.RequestURI != "/api/v1/namespaces/ns/secrets?x=y" || made.AuditID == "" || len(made.SourceIPs) != 1 ||
		made.Annotations["authorization.k8s.io/decision"] != "allow" || made.RequestObject != nil {
		t.Errorf("event %+v", made)
	}
	if refused.Annotations["authorization.k8s.io/decision"] != "forbid" || refused.User.Username != "eve" ||
		refused.ResponseStatus.Reason != metav1.StatusReasonForbidden {
		t.Errorf("event %+v", refused)
	}
	if stranger.User.Username != "" || stranger.ResponseStatus.Message != "Authentication failed, attempted: bearer" {
		t.Errorf("event %+v", stranger)
	}
	if body := string(h.events[4].RequestObject.Raw); !strings.Contains(body, `"k":"v"`) {
		t.Errorf("request %s", body)
	}
	if body := string(h.events[6].ResponseObject.Raw); !strings.HasPrefix(body, `{"kind":"ConfigMapList"`) ||
		!strings.Contains(body, `"k":"v"`) {
		t.Errorf("response %s", body)
	}
	if body := string(h.events[8].RequestObject.Raw); body != `{"data":{"k":"w"}}` {
		t.Errorf("patch %s", body)
	}
	if body := string(h.events[10].RequestObject.Raw); body != `{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background"}` {
		t.Errorf("options %s", body)
	}
	if body := string(h.events[10].ResponseObject.Raw); !strings.Contains(body, `"kind":"Status"`) {
		t.Errorf("response %s", body)
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
