package cluster_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/auth/pki"
	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/kit/whole"
)

// joined starts a server that takes others, and one that joins it.
func joined(t *testing.T) (first, second *cluster.Cluster, dirs []string) {
	t.Helper()
	dirs = []string{t.TempDir(), t.TempDir()}
	first = start(t, cluster.Config{DataDir: dirs[0], Together: cluster.Together{PeerListen: "127.0.0.1:0", Name: "one"}})
	second = start(t, cluster.Config{DataDir: dirs[1], Together: cluster.Together{PeerListen: "127.0.0.1:0", Name: "two",
		Join: first.URL(), Token: joinToken(t, dirs[0], time.Hour)}})
	return first, second, dirs
}

func joinToken(t *testing.T, dir string, life time.Duration) string {
	t.Helper()
	keys, err := pki.Open(pki.Config{Dir: filepath.Join(dir, "pki")})
	if err != nil {
		t.Fatal(err)
	}
	token, err := cluster.JoinToken(keys, life)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// Two servers that joined are one cluster: the same keys, each sees at once what the other acknowledged, the loops run
// once, and what must be unique is.
func TestJoin(t *testing.T) {
	t.Parallel()
	a, b, dirs := joined(t)
	for _, f := range []string{"ca.key", "ca.crt", "front-proxy-ca.key", "sa.key"} {
		x, err := os.ReadFile(filepath.Join(dirs[0], "pki", f))
		if err != nil {
			t.Fatal(err)
		}
		if y, err := os.ReadFile(filepath.Join(dirs[1], "pki", f)); err != nil || !bytes.Equal(x, y) {
			t.Errorf("%s differs, %v", f, err)
		}
	}
	ca, cb := clientset(t, config(t, a)), clientset(t, config(t, b))
	ctx := t.Context()
	for i := range 50 {
		name := fmt.Sprint("n", i)
		if _, err := ca.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}},
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := cb.CoreV1().ConfigMaps("default").Get(ctx, name, metav1.GetOptions{}); err != nil {
			t.Fatalf("the second server does not see what the first acknowledged: %v", err)
		}
	}
	onlyFive(t, ca, cb)
	ownAddresses(t, ca, cb)
}

// onlyFive makes pods on both servers at once where a quota allows five.
func onlyFive(t *testing.T, clients ...*kubernetes.Clientset) {
	t.Helper()
	ctx := t.Context()
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q"}}
	quota.Spec.Hard = corev1.ResourceList{corev1.ResourceConfigMaps: resource.MustParse("5")}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "narrow"}}
	if _, err := clients[0].CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a loop puts a ConfigMap into the namespace", func(ctx context.Context) (bool, error) {
		_, err := clients[0].CoreV1().ConfigMaps(ns.Name).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		return err == nil, nil
	})
	if _, err := clients[0].CoreV1().ResourceQuotas(ns.Name).Create(ctx, quota, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, c := range clients { // admission judges by the view, and only a read makes sure of it
		eventually(t, "the quota is counted", func(ctx context.Context) (bool, error) {
			q, err := c.CoreV1().ResourceQuotas(ns.Name).Get(ctx, "q", metav1.GetOptions{})
			return err == nil && len(q.Status.Used) > 0, err
		})
	}
	var made sync.Map
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("c", i)}}
			if _, err := clients[i%len(clients)].CoreV1().ConfigMaps(ns.Name).Create(ctx, cm, metav1.CreateOptions{}); err == nil {
				made.Store(i, true)
			}
		})
	}
	all.Wait()
	n := 0
	made.Range(func(any, any) bool { n++; return true })
	if n != 4 {
		t.Errorf("%d were made where one was and the quota is 5", n)
	}
}

// ownAddresses makes services on both servers at once: none share an address or a port.
func ownAddresses(t *testing.T, clients ...*kubernetes.Clientset) {
	t.Helper()
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("s", i)}}
			s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80}}}
			if _, err := clients[i%len(clients)].CoreV1().Services("default").Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	list, err := clients[1].CoreV1().Services("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for _, s := range list.Items {
		for _, what := range []string{s.Spec.ClusterIP, fmt.Sprint(s.Spec.Ports[0].NodePort)} {
			if other := seen[what]; other != "" && what != "0" {
				t.Errorf("%s belongs to %s and to %s", what, other, s.Name)
			}
			seen[what] = s.Name
		}
	}
}

// Nobody joins without a good token, and nobody gets the keys but who joins.
func TestJoinNeedsAToken(t *testing.T) {
	t.Parallel()
	dir, other := t.TempDir(), t.TempDir()
	a := start(t, cluster.Config{DataDir: dir, NoLoops: true, Together: cluster.Together{PeerListen: "127.0.0.1:0", Name: "one"}})
	good := joinToken(t, dir, time.Hour)
	tests := map[string]struct{ token, want string }{
		"none":               {"", "no join token"},
		"of another cluster": {joinToken(t, other, time.Minute), "not of the cluster"},
		"forged":             {strings.Replace(good, ".", ".9", 1), "does not take the token"},
		"expired":            {joinToken(t, dir, time.Nanosecond), "does not take the token"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			c, err := cluster.Start(ctx, cluster.Config{Kit: whole.Kit(), DataDir: t.TempDir(), NoLoops: true, Log: quiet,
				Together: cluster.Together{PeerListen: "127.0.0.1:0", Name: "two", Join: a.URL(), Token: tt.token}})
			if err == nil {
				t.Errorf("%s: joined", name)
				_ = c.Stop()
			} else if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: %v", name, err)
			}
			cancel()
		})
	}
	for who, cfg := range namesakes(t, a) {
		raw := clientset(t, cfg).Discovery().RESTClient()
		for _, path := range []string{"/kloop/keys", "/kloop/join"} {
			if err := raw.Post().AbsPath(path).Do(t.Context()).Error(); !apierrors.IsForbidden(err) {
				t.Errorf("%s gets %s: %v", who, path, err)
			}
		}
	}
}

// namesakes are clients that are called like one who holds a join token, or may do everything else.
func namesakes(t *testing.T, c *cluster.Cluster) map[string]*rest.Config {
	t.Helper()
	admin := config(t, c)
	posing := rest.CopyConfig(admin)
	posing.Impersonate = rest.ImpersonationConfig{UserName: "system:kloop:joiner", Groups: []string{auth.GroupMasters}}
	_, byName := as(t, c, "system:kloop:joiner", auth.GroupMasters)
	return map[string]*rest.Config{"the administrator": admin, "an impersonator": posing, "a namesake by certificate": byName}
}

// A server that joins speaks to one that has the key of the authority: a certificate of the authority, such as nodes have,
// is not enough, whatever names are in it.
func TestJoinBelievesServersOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	keys, err := pki.Open(pki.Config{Dir: filepath.Join(dir, "pki")})
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := keys.CA.Issue(pki.Leaf{User: "kube-apiserver", Hosts: []string{"join.kloop.internal", "127.0.0.1"},
		Server: true}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	pair.Certificate = append(pair.Certificate, keys.CA.Cert().Raw)
	var asked atomic.Bool
	between := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Store(true) }))
	between.TLS, between.Config.ErrorLog = &tls.Config{Certificates: []tls.Certificate{pair}}, log.New(io.Discard, "", 0)
	between.StartTLS()
	defer between.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // what is no refusal is tried again
	defer cancel()
	c, err := cluster.Start(ctx, cluster.Config{Kit: whole.Kit(), DataDir: t.TempDir(), NoLoops: true, Log: quiet,
		Together: cluster.Together{PeerListen: "127.0.0.1:0", Name: "two", Join: between.URL, Token: joinToken(t, dir, time.Hour)}})
	if err == nil {
		_ = c.Stop()
	}
	if err == nil || !strings.Contains(err.Error(), "not of the cluster") || asked.Load() {
		t.Errorf("error %v, the one in between was told the token: %v", err, asked.Load())
	}
}

// The whole store and the members are for administrators: who may read all paths may not have them.
func TestServerPagesNeedTheirOwnRight(t *testing.T) {
	t.Parallel()
	a := start(t, cluster.Config{DataDir: t.TempDir(), NoLoops: true, Together: cluster.Together{PeerListen: "127.0.0.1:0", Name: "one"}})
	admin := clientset(t, config(t, a))
	grant := func(name string, rule rbacv1.PolicyRule) *kubernetes.Clientset {
		t.Helper()
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{rule}}
		if _, err := admin.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := admin.RbacV1().ClusterRoleBindings().Create(t.Context(),
			&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
				RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
				Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		c, _ := as(t, a, name)
		return c
	}
	paths := grant("paths", rbacv1.PolicyRule{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}})
	saver := grant("saver", rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{"server.kloop.dev"},
		Resources: []string{"snapshot"}})
	for _, tt := range []struct {
		who  string
		c    *kubernetes.Clientset
		path string
		ok   bool
	}{
		{"who may read all paths", paths, "/kloop/snapshot", false}, {"who may read all paths", paths, "/kloop/members", false},
		{"who may read all paths", paths, "/kloop/members/one", false}, {"who may read all paths", paths, "/metrics", true},
		{"who may take copies", saver, "/kloop/snapshot", true}, {"who may take copies", saver, "/kloop/members", false},
		{"the administrator", admin, "/kloop/snapshot", true}, {"the administrator", admin, "/kloop/members", true},
	} {
		t.Run(tt.who, func(t *testing.T) {
			err := tt.c.Discovery().RESTClient().Get().AbsPath(tt.path).Do(t.Context()).Error()
			if (err == nil) != tt.ok || err != nil && !apierrors.IsForbidden(err) {
				t.Errorf("%s asks for %s: %v", tt.who, tt.path, err)
			}
		})
	}
}

// A server without an address for others says so.
func TestAloneTakesNobody(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := start(t, cluster.Config{DataDir: dir, NoLoops: true})
	_, err := cluster.Start(t.Context(), cluster.Config{Kit: whole.Kit(), DataDir: t.TempDir(), NoLoops: true, Log: quiet,
		Together: cluster.Together{PeerListen: "127.0.0.1:0", Join: a.URL(), Token: joinToken(t, dir, time.Hour)}})
	if err == nil || !strings.Contains(err.Error(), "--peer-listen") {
		t.Errorf("got %v", err)
	}
}
