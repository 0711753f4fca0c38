package audit

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/webhook"
)

var quiet = slog.New(slog.DiscardHandler)

func policy(t *testing.T, text string) *Policy {
	t.Helper()
	p, err := ParsePolicy([]byte("apiVersion: audit.k8s.io/v1\nkind: Policy\n" + text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestJudge(t *testing.T) {
	p := policy(t, `
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- {level: None, users: [quiet]}
- {level: Request, userGroups: [devs], verbs: [create, update]}
- {level: Metadata, resources: [{group: "", resources: [pods, "pods/log", "*/status"]}], namespaces: [a, ""]}
- {level: RequestResponse, resources: [{group: apps, resources: ["deployments/*"], resourceNames: [web]}],
    omitManagedFields: false, omitStages: [Panic]}
- {level: Metadata, nonResourceURLs: [/healthz*, /version]}
- {level: Request, resources: [{group: "*", resources: [things]}]}
`)
	of := func(name string, groups ...string) *auth.User { return &auth.User{Name: name, Groups: groups} }
	for _, c := range []struct {
		name string
		a    auth.Attributes
		want auditv1.Level
	}{
		{"user", auth.Attributes{User: of("quiet", "devs"), Verb: "create", Resource: "pods"}, "None"},
		{"group", auth.Attributes{User: of("x", "devs"), Verb: "create", Resource: "anything"}, "Request"},
		{"group, another verb", auth.Attributes{User: of("x", "devs"), Verb: "get", Resource: "anything"}, "None"},
		{"nobody", auth.Attributes{Verb: "create", Resource: "anything"}, "None"},
		{"namespace", auth.Attributes{Verb: "get", Resource: "pods", Namespace: "a"}, "Metadata"},
		{"all namespaces", auth.Attributes{Verb: "get", Resource: "pods"}, "Metadata"},
		{"another namespace", auth.Attributes{Verb: "get", Resource: "pods", Namespace: "b"}, "None"},
		{"subresource left out", auth.Attributes{Verb: "get", Resource: "pods", Subresource: "exec", Namespace: "a"}, "None"},
		{"subresource", auth.Attributes{Verb: "get", Resource: "pods", Subresource: "log", Namespace: "a"}, "Metadata"},
		{"subresource of all resources", auth.Attributes{Verb: "get", Resource: "nodes", Subresource: "status"}, "Metadata"},
		{"subresource of one object",
			auth.Attributes{Verb: "get", Group: "apps", Resource: "deployments", Subresource: "scale", Name: "web", Namespace: "b"},
			"RequestResponse"},
		{"one object",
			auth.Attributes{Verb: "get", Group: "apps", Resource: "deployments", Name: "web", Namespace: "b"}, "RequestResponse"},
		{"another object", auth.Attributes{Verb: "get", Group: "apps", Resource: "deployments", Name: "db", Namespace: "b"}, "None"},
		{"path below", auth.Attributes{Verb: "get", Path: "/healthz/etcd"}, "Metadata"},
		{"another path", auth.Attributes{Verb: "get", Path: "/version/"}, "None"},
		{"another group", auth.Attributes{Verb: "get", Group: "example.com", Resource: "things"}, "Request"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := p.Judge(&c.a)
			if v.Level != c.want {
				t.Errorf("%+v: %s, want %s", c.a, v.Level, c.want)
			}
			if want := c.want == "RequestResponse"; v.Level != "None" && (v.NoFields == want || (len(v.Omit) == 2) != want) {
				t.Errorf("%+v: %+v", c.a, v)
			}
		})
	}
}

func TestPolicyRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"apiVersion: v1\nkind: Policy":                                                                              "write kind Policy",
		"apiVersion: audit.k8s.io/v1\nkind: Policy":                                                                 "no rules",
		"apiVersion: audit.k8s.io/v1\nkind: Policy\nrule: []":                                                       "unknown field",
		"apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: All}]":                                          "rules[0].level",
		"apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None, omitStages: [End]}]":                      "omitStages[0]",
		"apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None, nonResourceURLs: [x]}]":                   "begin with /",
		"apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None, nonResourceURLs: ['/a*b']}]":              "at the end",
		"apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None, nonResourceURLs: [/a], namespaces: [b]}]": "not for both",
		"apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None, resources: [{group: apps/v1}]}]":          "no API group",
		"apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None, resources: [{resourceNames: [a]}]}]":      "resources are needed",
		"apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [x]\nrules: [{level: None}]":                        "omitStages[0]",
	} {
		t.Run(text, func(t *testing.T) {
			if _, err := ParsePolicy([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v", text, err)
			}
		})
	}
}

// stuck is an output that takes nothing until it is told to.
type stuck struct {
	gate    chan struct{}
	written int
	fail    error
}

func (s *stuck) Name() string                { return "stuck" }
func (s *stuck) Batch() (int, time.Duration) { return 10, time.Minute }
func (s *stuck) Write(_ context.Context, e [][]byte) error {
	<-s.gate
	if s.fail == nil {
		s.written += len(e)
	}
	return s.fail
}

// TestNeverBlocks fills the queue of an output that hangs.
func TestNeverBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &stuck{gate: make(chan struct{})}
		a := New(Config{Policy: policy(t, "rules: [{level: Metadata, omitStages: [RequestReceived]}]"), Outputs: []Output{out}})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); a.Run(ctx, quiet) }()
		const extra = 100
		for range maxWaiting + extra {
			r := a.Begin(&auth.Attributes{Verb: "get", Path: "/"})
			r.Received(Request{What: &auth.Attributes{Verb: "get", Path: "/"}})
			r.Started(200, false)
			r.Complete(false)
		}
		if lost := a.queues[0].lost.Load(); lost < extra-10 || lost > extra {
			t.Errorf("%v events are counted as lost, want about %d", lost, extra)
		}
		close(out.gate)
		stop()
		<-done
		if out.written < maxWaiting {
			t.Errorf("%d events were written at the end", out.written)
		}
	})
}

// TestBatches waits for a batch as long as the output wants.
func TestBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &stuck{gate: make(chan struct{})}
		close(out.gate)
		q := newQueue(out)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); q.run(ctx, quiet) }()
		began := time.Now()
		put := func(n int) {
			for range n {
				q.put([]byte("{}"))
			}
			synctest.Wait()
		}
		if put(9); out.written != 0 {
			t.Error("a part of a batch was written at once")
		}
		if put(1); out.written != 10 || time.Since(began) != 0 {
			t.Error("a full batch was not")
		}
		put(3)
		time.Sleep(time.Minute)
		if synctest.Wait(); out.written != 13 {
			t.Error("a part of a batch was not written in time")
		}
		put(2)
		out.fail = errors.New("no")
		stop()
		<-done
		if lost := q.lost.Load(); lost != 2 {
			t.Errorf("%v lost", lost)
		}
	})
}

func TestFileRotates(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	path := filepath.Join(t.TempDir(), "logs", "audit.log")
	f := &File{Path: path, MaxSize: 100, MaxBackups: 2, MaxAge: 24 * time.Hour, Now: func() time.Time { return now }}
	if err := f.Check(); err != nil {
		t.Fatal(err)
	}
	line := []byte(`"` + strings.Repeat("x", 37) + `"`) // two fit
	write := func(n int) {
		t.Helper()
		var lines [][]byte
		for range n {
			lines = append(lines, line)
		}
		if err := f.Write(t.Context(), lines); err != nil {
			t.Fatal(err)
		}
	}
	files := func() (names []string) {
		entries, _ := os.ReadDir(filepath.Dir(path))
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	write(3)
	if got := fmt.Sprint(files()); got != "[audit-2026-01-02T03-04-05.000.log audit.log]" {
		t.Errorf("files %s", got)
	}
	write(6)
	if got := files(); len(got) != 3 {
		t.Errorf("too many backups: %s", got)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	now = now.Add(48 * time.Hour)
	write(3) // opens the file again and finds it full
	if got := fmt.Sprint(files()); got != "[audit-2026-01-04T03-04-05.000.log audit.log]" {
		t.Errorf("old files stayed: %s", got)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 || st.Size() != 80 {
		t.Errorf("the log: %v %v", st, err)
	}
	write(1)
	f.MaxSize = 10
	write(2) // larger than a file may be: alone in one
	_ = f.Close()
	if err := (&File{Path: filepath.Join(path, "below-a-file")}).Check(); err == nil {
		t.Error("a log that can't be opened was")
	}
}

func TestOldFilesAreCompressed(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	path := filepath.Join(t.TempDir(), "audit.log")
	f := &File{Path: path, MaxSize: 2, MaxBackups: 2, Compress: true, Now: func() time.Time { return now }}
	left := strings.TrimSuffix(path, ".log") + "-2026-01-01T00-00-00.000.log"
	if err := os.WriteFile(left, []byte("left"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.Write(t.Context(), [][]byte{[]byte("a"), []byte("b")}); err != nil {
		t.Fatal(err)
	}
	read := func(path string) string {
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		z, err := gzip.NewReader(file)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	first := strings.TrimSuffix(path, ".log") + "-2026-01-02T03-04-05.000.log.gz"
	if got := read(left+".gz") + read(first); got != "lefta\n" {
		t.Errorf("compressed: %q", got)
	}
	now = now.Add(time.Second)
	if err := errors.Join(f.Write(t.Context(), [][]byte{[]byte("c")}), f.Write(t.Context(), [][]byte{[]byte("d")}), f.Close()); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 3 || exists(left) || exists(left+".gz") {
		t.Errorf("%d files, %v: the oldest should have gone", len(entries), err)
	}
}

// TestOldFilesCostNoEvent: what can't be renamed or compressed is written to, or stays as it is; no event is lost for it.
func TestOldFilesCostNoEvent(t *testing.T) {
	const old = "audit-2026-01-01T00-00-00.000.log"
	for _, tt := range []struct{ name, blocked, want string }{
		{"an old file can't be compressed", old + ".gz.part/x", "c\n"},
		{"a compressed one can't take its place", old + ".gz/x", "c\n"},
		{"the file was moved away", "", "b\nc\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "audit.log")
			f := &File{Path: path, MaxSize: 3, Compress: true}
			if err := errors.Join(os.WriteFile(filepath.Join(dir, old), []byte("old"), 0o600), os.MkdirAll(filepath.Join(dir, tt.blocked), 0o700),
				f.Write(t.Context(), [][]byte{[]byte("a")})); err != nil {
				t.Fatal(err)
			}
			if tt.blocked == "" {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			}
			if err := errors.Join(f.Write(t.Context(), [][]byte{[]byte("b"), []byte("c")}), f.Close()); err != nil {
				t.Fatal(err)
			}
			if text, err := os.ReadFile(path); err != nil || string(text) != tt.want {
				t.Errorf("the log has %q, %v", text, err)
			}
			if text, err := os.ReadFile(filepath.Join(dir, old)); tt.blocked != "" && (err != nil || string(text) != "old") {
				t.Errorf("the old file has %q, %v", text, err)
			}
		})
	}
}

func TestStdout(t *testing.T) {
	var out strings.Builder
	f := &File{Path: "-", Stdout: &out}
	if err := errors.Join(f.Check(), f.Write(t.Context(), [][]byte{[]byte("{}"), []byte("[]")}), f.Close()); err != nil ||
		out.String() != "{}\n[]\n" {
		t.Errorf("%q %v", out.String(), err)
	}
}

func TestWebhook(t *testing.T) {
	codes := make(chan int, 10)
	bodies := make(chan string, 10)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- string(body)
		w.WriteHeader(<-codes)
	}))
	defer srv.Close()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: '" + srv.URL + "/audit'}}]\n" +
		"contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u}]\ncurrent-context: c\n"
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := NewWebhook(webhook.Kubeconfigs(), kubeconfig, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		codes []int
		tries int
		ok    bool
	}{
		{"accepted", []int{200}, 1, true},
		{"accepted at the third try",
			[]int{503, 429, 201}, 3, true},
		{"refused", []int{400}, 1, false},
		{"given up", []int{500, 500, 500, 500}, 4, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, code := range c.codes {
				codes <- code
			}
			err := w.Write(t.Context(), [][]byte{[]byte(`{"auditID":"a"}`), []byte(`{"auditID":"b"}`)})
			if (err == nil) != c.ok || len(bodies) != c.tries {
				t.Errorf("%v: %v after %d tries", c.codes, err, len(bodies))
			}
			for range c.tries {
				var list auditv1.EventList
				if err := json.Unmarshal([]byte(<-bodies), &list); err != nil || len(list.Items) != 2 || list.Items[1].AuditID != "b" {
					t.Errorf("sent %+v %v", list, err)
				}
			}
		})
	}
	if _, err := NewWebhook(webhook.Kubeconfigs(), filepath.Join(t.TempDir(), "missing"), 0); err == nil {
		t.Error("a missing kubeconfig was read")
	}
}

func TestLargeBodiesAreLeftOut(t *testing.T) {
	out := &stuck{gate: make(chan struct{})}
	a := New(Config{Policy: policy(t, "rules: [{level: Request}]"), Outputs: []Output{out}})
	r := a.Begin(&auth.Attributes{Verb: "patch", Path: "/"})
	r.Received(Request{What: &auth.Attributes{Verb: "patch", Path: "/"}})
	r.Patch([]byte(`{"x":"` + strings.Repeat("y", maxBody) + `"}`))
	if r.event.RequestObject != nil || r.event.Annotations["audit.k8s.io/truncated"] != "true" {
		t.Errorf("a large body stayed: %v", r.event.Annotations)
	}
}
