package cluster

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/kloop-dev/kloop/kit/whole"
)

// write makes a file of a test.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func startFor(t *testing.T, cfg Config) *Cluster {
	t.Helper()
	cfg.NoLoops, cfg.Log = true, slog.New(slog.DiscardHandler)
	cfg.Kit = whole.Kit()
	c, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// ask makes a request with a token, or none, and returns code and body.
func ask(t *testing.T, c *Cluster, token, path string) (int, string) {
	t.Helper()
	cfg, err := c.Rest()
	if err != nil {
		t.Fatal(err)
	}
	cfg = rest.AnonymousClientConfig(cfg)
	cfg.BearerToken = token
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Get(cfg.Host + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body)
}

// hook is a server that answers reviews with a status.
func hook(t *testing.T, answer func(spec map[string]any) string) (kubeconfig string) {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review struct{ Spec map[string]any }
		_ = json.NewDecoder(r.Body).Decode(&review)
		_, _ = io.WriteString(w, `{"status":`+answer(review.Spec)+`}`)
	}))
	t.Cleanup(srv.Close)
	return write(t, "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: '"+srv.URL+"/'}}]\n"+
		"contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u}]\ncurrent-context: c\n")
}

func TestWhoAndWhat(t *testing.T) {
	tokens := hook(t, func(spec map[string]any) string {
		if spec["token"] == "hooked" {
			return `{"authenticated":true,"user":{"username":"hal"}}`
		}
		return `{}`
	})
	decides := hook(t, func(spec map[string]any) string {
		return fmt.Sprintf(`{"allowed":%v,"reason":"asked"}`, spec["user"] == "hal")
	})
	authz := write(t, `apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers:
- {type: Node, name: node}
- {type: RBAC, name: rbac}
- type: Webhook
  name: ask
  webhook:
    timeout: 30s
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    failurePolicy: Deny
    connectionInfo: {type: KubeConfigFile, kubeConfigFile: `+decides+`}
    matchConditions: [{expression: "has(request.resourceAttributes) && request.resourceAttributes.resource == 'configmaps'"}]
`)
	c := startFor(t, Config{
		Authn: Authn{ConfigFile: write(t,
			"apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\nanonymous: {enabled: true, conditions: [{path: /livez}]}\n"),
			TokenFile: write(t, "s3cret,ann,1,\"system:masters\"\n"), WebhookKubeconfig: tokens},
		Authz: Authz{ConfigFile: authz},
	})
	for _, x := range []struct {
		token, path string
		want        int
	}{
		{"", "/livez", 200},
		{"", "/version", 401},
		{"", "/api/v1/configmaps", 401},
		{"s3cret", "/api/v1/secrets", 200},
		{"wrong", "/livez", 401},
		{"hooked", "/api/v1/configmaps", 200},
		{"hooked", "/api/v1/secrets", 403},
	} {
		t.Run(x.token, func(t *testing.T) {
			if code, body := ask(t, c, x.token, x.path); code != x.want {
				t.Errorf("%q at %s: %d, want %d: %s", x.token, x.path, code, x.want, body)
			}
		})
	}
	// The file is changed: the webhook is no longer asked.
	if err := os.WriteFile(authz,
		[]byte("apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers: [{type: RBAC, name: rbac}]\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	for _, f := range c.files {
		if _, err := f.look(); err != nil {
			t.Fatal(err)
		}
	}
	if code, _ := ask(t, c, "hooked", "/api/v1/configmaps"); code != 403 {
		t.Errorf("after the file changed: %d", code)
	}
}

func TestWhoAndWhatRefused(t *testing.T) {
	const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\n"
	hooked := func(fields string) Authz {
		return Authz{ConfigFile: write(t, head+"authorizers: [{type: Webhook, name: w, webhook: {"+fields+"}}]\n")}
	}
	for _, x := range []struct {
		name string
		cfg  Config
		want string
	}{
		{"token file that is missing", Config{Authn: Authn{TokenFile: "/missing"}}, "token file"},
		{"token file with a short line", Config{Authn: Authn{TokenFile: write(t, "a,b\n")}}, "line 1"},
		{"authentication file of another kind", Config{Authn: Authn{ConfigFile: write(t, "kind: Pod\n")}}, "AuthenticationConfiguration"},
		{"authentication file beside flags",
			Config{Authn: Authn{ConfigFile: write(t, ""), OIDC: OIDC{IssuerURL: "https://x", ClientID: "c"}}}, "exclude each other"},
		{"issuer without a client", Config{Authn: Authn{OIDC: OIDC{IssuerURL: "https://x"}}}, "client id"},
		{"issuer over plain HTTP", Config{Authn: Authn{OIDC: OIDC{IssuerURL: "http://x", ClientID: "c"}}}, "https://"},
		{"webhook's kubeconfig that is missing", Config{Authn: Authn{WebhookKubeconfig: "/missing"}}, "kubeconfig"},
		{"webhook mode without its kubeconfig", Config{Authorization: []string{"Webhook"}}, "needs the kubeconfig"},
		{"modes beside a file", Config{Authorization: []string{"RBAC"}, Authz: Authz{ConfigFile: write(t, head)}}, "excludes"},
		{"no authorizer", Config{Authz: Authz{ConfigFile: write(t, head)}}, "at least one"},
		{"unknown authorizer", Config{Authz: Authz{ConfigFile: write(t, head+"authorizers: [{type: ABAC, name: a}]\n")}}, "ABAC"},
		{"RBAC twice",
			Config{Authz: Authz{ConfigFile: write(t, head+"authorizers: [{type: RBAC, name: a}, {type: RBAC, name: b}]\n")}}, "twice"},
		{"webhook without settings",
			Config{Authz: Authz{ConfigFile: write(t, head+"authorizers: [{type: Webhook, name: a}]\n")}}, "webhook: is needed"},
		{"webhook without a time limit", Config{Authz: hooked("timeout: 0s")}, "webhook.timeout"},
		{"webhook without a failure policy", Config{Authz: hooked("timeout: 3s")}, "failurePolicy"},
		{"webhook without a connection", Config{Authz: hooked("timeout: 3s, failurePolicy: Deny")}, "connectionInfo"},
		{"condition without a version",
			Config{Authz: hooked("timeout: 3s, failurePolicy: Deny, matchConditions: [{expression: 'true'}]")}, "must be v1"},
		{"audit policy that is missing", Config{Audit: Audit{PolicyFile: "/missing", LogPath: "-"}}, "audit policy"},
		{"encryption file of another kind", Config{EncryptionConfig: write(t, "kind: Pod\n")}, "EncryptionConfiguration"},
	} {
		t.Run(x.name, func(t *testing.T) {
			x.cfg.NoLoops, x.cfg.Log = true, slog.New(slog.DiscardHandler)
			x.cfg.Kit = whole.Kit()
			c, err := Start(t.Context(), x.cfg)
			if err == nil {
				_ = c.Stop()
			}
			if err == nil || !strings.Contains(err.Error(), x.want) {
				t.Errorf("want %q, got %v", x.want, err)
			}
		})
	}
}
