package attack

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kloop-dev/kloop/auth/pki"
	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/kit/whole"
)

// patience is how long anything may take on a machine with much else to do.
const patience = 10 * time.Minute

// A victim is a running cluster, and its administrator.
type victim struct {
	*cluster.Cluster
	t     *testing.T
	admin *caller
}

func newVictim(t *testing.T, cfg cluster.Config) *victim {
	t.Helper()
	cfg.Log = slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	cfg.Kit = whole.Kit()
	c, err := cluster.Start(ctx, cfg)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
		cancel()
	})
	v := &victim{Cluster: c, t: t}
	v.admin = v.as("kubernetes-admin", "system:masters")
	return v
}

// A caller sends requests as somebody.
type caller struct {
	base   string
	http   *http.Client
	header http.Header // sent with every request
}

// as is who has a certificate of the cluster's authority.
func (v *victim) as(user string, groups ...string) *caller {
	v.t.Helper()
	text, err := v.Kubeconfig(user, groups...)
	if err != nil {
		v.t.Fatal(err)
	}
	cfg, err := clientcmd.RESTConfigFromKubeConfig(text)
	if err != nil {
		v.t.Fatal(err)
	}
	return v.by(cfg)
}

func (v *victim) by(cfg *rest.Config) *caller {
	v.t.Helper()
	conf, err := rest.TLSConfigFor(cfg)
	if err != nil {
		v.t.Fatal(err)
	}
	return v.over(conf)
}

func (v *victim) over(conf *tls.Config) *caller {
	conf.NextProtos = []string{"http/1.1"} // for upgrades
	tr := &http.Transport{TLSClientConfig: conf}
	v.t.Cleanup(tr.CloseIdleConnections)
	return &caller{base: v.URL(), http: &http.Client{Transport: tr, Timeout: patience, CheckRedirect: func(*http.Request,
		[]*http.Request) error {
		return http.ErrUseLastResponse
	}}, header: http.Header{}}
}

// nobody has no credentials.
func (v *victim) nobody() *caller { return v.over(&tls.Config{InsecureSkipVerify: true}) }

// stranger has a certificate of another cluster, in which it is a master.
func (v *victim) stranger() *caller {
	keys, err := pki.Open(pki.Config{})
	if err != nil {
		v.t.Fatal(err)
	}
	cert, key, err := keys.Issue("kubernetes-admin", []string{"system:masters"}, 0)
	if err != nil {
		v.t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		v.t.Fatal(err)
	}
	return v.over(&tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}})
}

// with is the caller with another header.
func (c *caller) with(key, value string) *caller {
	next := *c
	next.header = c.header.Clone()
	next.header.Add(key, value)
	return &next
}

// do sends a request and reads the answer, but for a stream, of which it wants the status only.
func (c *caller) do(t *testing.T, method, path, body string, header ...string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, c.base, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	path, query, _ := strings.Cut(path, "?")
	req.URL.Opaque, req.URL.RawQuery = "//"+req.URL.Host+path, query // as it is, with its tricks
	req.Header = c.header.Clone()
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := c.http.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer res.Body.Close()
	if strings.Contains(query, "watch=") || strings.Contains(path, "/watch/") || res.StatusCode == http.StatusSwitchingProtocols {
		return res.StatusCode, ""
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, 16<<20))
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return res.StatusCode, string(text)
}

// must sends a request whose answer has to be good.
func (c *caller) must(t *testing.T, method, path, body string, header ...string) string {
	t.Helper()
	code, text := c.do(t, method, path, body, header...)
	if code >= 300 {
		t.Fatalf("%s %s: %d %s", method, path, code, text)
	}
	return text
}

// make creates an object of a list at a path.
func (v *victim) make(path string, obj map[string]any) {
	v.t.Helper()
	data, err := json.Marshal(obj)
	if err != nil {
		v.t.Fatal(err)
	}
	v.admin.must(v.t, http.MethodPost, path, string(data))
}

func named(name string) map[string]any { return map[string]any{"name": name} }

const rbacPath = "/apis/rbac.authorization.k8s.io/v1"

// bind gives users a role: in a namespace, or everywhere if that is empty.
func (v *victim) bind(ns, role, kind, user string) {
	path, binding := rbacPath+"/clusterrolebindings", "ClusterRoleBinding"
	if ns != "" {
		path, binding = rbacPath+"/namespaces/"+ns+"/rolebindings", "RoleBinding"
	}
	v.make(path, map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": binding,
		"metadata": named(strings.ReplaceAll(user, ":", "-") + "-" + role),
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
		"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": user}}})
}

// role makes a ClusterRole of one rule.
func (v *victim) role(name string, rule map[string]any) {
	v.make(rbacPath+"/clusterroles", map[string]any{"metadata": named(name), "rules": []any{rule}})
}
