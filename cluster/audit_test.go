package cluster

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kloop-dev/kloop/kit/whole"
)

// TestAuditLog looks for a request in the log once the cluster has stopped.
func TestAuditLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	policy := write(t,
		"apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\n"+
			"rules: [{level: Metadata, resources: [{group: \"\", resources: [configmaps]}]}]\n")
	c, err := Start(t.Context(), Config{Kit: whole.Kit(), NoLoops: true, Log: slog.New(slog.DiscardHandler),
		Audit: Audit{PolicyFile: policy, LogPath: path}, Authn: Authn{TokenFile: write(t, "s3cret,ann,1,\"system:masters\"\n")}})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"/api/v1/configmaps", "/api/v1/secrets"} {
		if code, body := ask(t, c, "s3cret", p); code != 200 {
			t.Errorf("%s: %d %s", p, code, body)
		}
	}
	if _, body := ask(t, c, "s3cret", "/metrics"); !strings.Contains(body, "apiserver_audit_event_total 1\n") ||
		!strings.Contains(body, `apiserver_flowcontrol_dispatched_requests_total{flow_schema="exempt",priority_level="exempt"}`) {
		t.Error("the metrics do not tell of it")
	}
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(path)
	if n := strings.Count(string(log), "\n"); err != nil || n != 1 || !strings.Contains(string(log), `"username":"ann"`) ||
		!strings.Contains(string(log), `"resource":"configmaps"`) {
		t.Errorf("%d lines, %v: %s", n, err, log)
	}
}
