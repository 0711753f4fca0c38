package attack

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/internal/eventually"
)

const table = "testdata/matrix.txt"

// Who may send which request: every line of the table is a request and, for every identity, + for one that gets through to
// what it asks for, - for one that is forbidden (403), ! for one that is not believed (401), . for what is not there (404,
// 301 and 405 without a look at who asks included). KLOOP_WRITE=1 writes what is so; look at the difference line by line.
func TestMatrix(t *testing.T) {
	v := newVictim(t, cluster.Config{SimNodes: 1})
	who := v.identities()
	v.make("/api/v1/namespaces", map[string]any{"metadata": named("other")})
	v.make("/api/v1/nodes", map[string]any{"metadata": named("n1")})
	v.make("/api/v1/nodes", map[string]any{"metadata": named("n2")})
	v.make("/api/v1/nodes", map[string]any{"metadata": named("silent")}) // without an agent: who gets through to its pods gets an error
	for _, ns := range []string{"default", "other"} {
		v.make("/api/v1/namespaces/"+ns+"/secrets", map[string]any{"metadata": named("s")})
		v.make("/api/v1/namespaces/"+ns+"/configmaps", map[string]any{"metadata": named("c")})
		eventually.Within(t, patience, "pods can be made", func() bool {
			code, _ := v.admin.do(t, http.MethodPost, "/api/v1/namespaces/"+ns+"/pods",
				`{"metadata":{"name":"p"},"spec":{"nodeName":"silent","containers":[{"name":"c","image":"i"}]}}`)
			return code == http.StatusCreated
		})
	}
	eventually.Within(t, patience, "the role view is whole", func() bool {
		code, _ := who[viewer].do(t, http.MethodGet, "/apis/convergence.kloop.dev/v1alpha1/namespaces/default/gaps", "")
		return code == http.StatusOK
	})
	data, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\n")
		want, request, ok := strings.Cut(line, " ")
		if strings.HasPrefix(line, "#") || !ok {
			out = append(out, line)
			continue
		}
		got := ""
		for _, c := range who {
			got += verdict(t, c, request)
		}
		if got != want && os.Getenv("KLOOP_WRITE") == "" {
			t.Errorf("%s\n got %s\nwant %s\n     %s", request, got, want, letters(len(who)))
		}
		out = append(out, got+" "+request)
	}
	if os.Getenv("KLOOP_WRITE") != "" {
		if err := os.WriteFile(table, []byte(strings.Join(out, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func letters(n int) string { return "abcdefghijklmnopqrstuvwxyz"[:n] }

// verdict sends METHOD PATH [UPGRADE].
func verdict(t *testing.T, c *caller, request string) string {
	t.Helper()
	f := strings.Fields(request)
	var header []string
	if len(f) > 2 {
		header = []string{"Connection", "Upgrade", "Upgrade", f[2]}
		if f[2] == "websocket" {
			header = append(header, "Sec-Websocket-Version", "13", "Sec-Websocket-Key", "x3JJHMbDL1EzLkh9GBhXDw==", "Sec-Websocket-Protocol",
				"v5.channel.k8s.io")
		}
	}
	body := ""
	if f[0] == http.MethodPatch {
		header = append(header, "Content-Type", "application/merge-patch+json")
	}
	switch f[0] {
	case http.MethodPost, http.MethodPut, http.MethodPatch:
		body = "{}"
		if strings.Contains(f[1], "/pods/p/") { // without its pod's name an eviction is refused before anybody asks who sent it
			body = `{"metadata":{"name":"p"}}`
		}
	}
	code, text := c.do(t, f[0], f[1], body, header...)
	switch {
	case code == http.StatusForbidden:
		return "-"
	case code == http.StatusUnauthorized:
		return "!"
	case code == http.StatusNotFound, code == http.StatusMovedPermanently, code == http.StatusMethodNotAllowed:
		return "."
	case code == http.StatusInternalServerError && strings.Contains(text, "panic"):
		t.Errorf("%s: %s", request, text)
	}
	return "+"
}

// viewer is the place of who may view the namespace default, for others to wait for.
const viewer = 4

// identities are the callers, in the order of the table's columns.
func (v *victim) identities() []*caller {
	v.role("paths", map[string]any{"nonResourceURLs": []string{"*"}, "verbs": []string{"*"}})
	v.role("read-all", map[string]any{"apiGroups": []string{"*"}, "resources": []string{"*"}, "verbs": []string{"get", "list", "watch"}})
	v.role("poser", map[string]any{"apiGroups": []string{""}, "resources": []string{"users"}, "verbs": []string{"impersonate"}})
	v.role("named-secret", map[string]any{"apiGroups": []string{""}, "resources": []string{"secrets"}, "resourceNames": []string{"s"},
		"verbs": []string{"get"}})
	v.role("pod-reader", map[string]any{"apiGroups": []string{""}, "resources": []string{"pods", "pods/*"}, "verbs": []string{"get"}})
	v.bind("default", "view", "User", "viewer")
	v.bind("default", "edit", "User", "editor")
	v.bind("default", "admin", "User", "ns-admin")
	v.bind("", "view", "User", "all-viewer")
	v.bind("", "paths", "User", "paths")
	v.bind("", "read-all", "User", "reader")
	v.bind("", "poser", "User", "poser")
	v.bind("default", "named-secret", "User", "one-secret")
	v.bind("", "pod-reader", "User", "pod-reader")
	v.bind("", "cluster-admin", "User", "root")
	poser := v.as("poser")
	return []*caller{
		v.nobody(), // a
		v.nobody().with("Authorization", "Bearer made-up"), // b
		v.stranger(),       // c
		v.as("somebody"),   // d
		v.as("viewer"),     // e
		v.as("editor"),     // f
		v.as("ns-admin"),   // g
		v.as("all-viewer"), // h
		v.as("paths"),      // i
		v.as("reader"),     // j
		poser.with("Impersonate-User", "system:kloop:joiner"),                                  // k
		poser.with("Impersonate-User", "somebody").with("Impersonate-Group", "system:masters"), // l
		v.as("one-secret"),                     // m
		v.as("pod-reader"),                     // n
		v.as("root"),                           // o
		v.as("system:node:n1", "system:nodes"), // p
		v.as("system:node:n1"),                 // q
		v.as("kube-apiserver-kubelet-client"),  // r
		v.as("system:kloop:joiner"),            // s
		v.as("system:kube-scheduler"),          // t
		v.admin,                                // u
	}
}

// Every request is in the table once, with a column for everybody.
func TestTableIsWhole(t *testing.T) {
	data, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		verdicts, request, ok := strings.Cut(strings.TrimSpace(line), " ")
		if strings.HasPrefix(line, "#") || !ok {
			continue
		}
		if seen[request] || len(verdicts) != len("abcdefghijklmnopqrstu") {
			t.Errorf("%q is there twice, or has %d columns", request, len(verdicts))
		}
		seen[request] = true
	}
}
