package webhook

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// Who calls is told by the most exact name of the server.
func TestLogins(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{apiVersion: v1, kind: Config, users: [{name: 'hook.ns.svc', user: {token: exact}}, {name: '*.ns.svc', user: {token: wild}},
{name: 'x.io:8443', user: {token: port}}, {name: '*', user: {token: any}}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := readLogins(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		host string
		port int
		want string
	}{{"hook.ns.svc", 443, "exact"}, {"other.ns.svc", 443, "wild"}, {"x.io", 8443, "port"}, {"x.io", 443, "any"}} {
		t.Run(tt.host, func(t *testing.T) {
			if u := l.user(tt.host, tt.port); u == nil || u.Token != tt.want {
				t.Errorf("%s:%d: %v, want %s", tt.host, tt.port, u, tt.want)
			}
		})
	}
	rt, err := l.Login("hook.ns.svc", 443, &http.Transport{})
	if _, plain := rt.(*http.Transport); err != nil || plain {
		t.Error("the webhook does not hear who calls: ", err)
	}
	if _, err := readLogins(file + "-missing"); err == nil {
		t.Error("a missing kubeconfig was read")
	}
}
