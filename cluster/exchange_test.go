package cluster_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/auth/pki"
	"github.com/kloop-dev/kloop/cluster"
)

// post acts on the certificates of a server.
func post(t *testing.T, cs *kubernetes.Clientset, what string, body []byte) error {
	t.Helper()
	return cs.Discovery().RESTClient().Post().RequestURI(cluster.CertsPath + "/" + what).Body(body).Do(t.Context()).Error()
}

// certsOf asks a server for its certificates.
func certsOf(t *testing.T, cs *kubernetes.Clientset) *cluster.Certs {
	t.Helper()
	data, err := cs.Discovery().RESTClient().Get().AbsPath(cluster.CertsPath).DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var list []*cluster.Certs
	if err := json.Unmarshal(data, &list); err != nil || len(list) != 1 {
		t.Fatalf("%v: %s", err, data)
	}
	return list[0]
}

// keysOf are the files of a data directory's keys.
func keysOf(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	keys, err := pki.Open(pki.Config{Dir: filepath.Join(dir, "pki")})
	if err != nil {
		t.Fatal(err)
	}
	files, err := keys.Files()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// writer writes to both servers in turn, over new connections now and then, until stop is called, which says how many writes failed.
func writer(t *testing.T, name string, configs ...*rest.Config) (stop func() (done, failed int64, last error)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var done, failed atomic.Int64
	var last atomic.Value
	var all sync.WaitGroup
	for _, cfg := range configs {
		all.Go(func() {
			pace := time.NewTicker(20 * time.Millisecond) // others have this machine too
			defer pace.Stop()
			for i := 0; ctx.Err() == nil; i++ {
				<-pace.C
				own := rest.CopyConfig(cfg)
				own.QPS = -1
				if i%2 == 0 { // a transport of its own
					own.Dial = nil
					own.Proxy = http.ProxyFromEnvironment
				}
				cs, err := kubernetes.NewForConfig(own)
				if err == nil {
					m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: name}}
					_, err = cs.CoreV1().ConfigMaps("default").Create(ctx, m, metav1.CreateOptions{})
				}
				switch {
				case ctx.Err() != nil:
				case err != nil:
					failed.Add(1)
					last.Store(err)
				default:
					done.Add(1)
				}
			}
		})
	}
	return func() (int64, int64, error) {
		eventually(t, "some writes", func(context.Context) (bool, error) { return done.Load()+failed.Load() >= 10, nil })
		cancel()
		all.Wait()
		err, _ := last.Load().(error)
		return done.Load(), failed.Load(), err
	}
}

// towards is the configuration for another server.
func towards(cfg *rest.Config, c *cluster.Cluster) *rest.Config {
	other := rest.CopyConfig(cfg)
	other.Host = c.URL()
	return other
}

// adminFile is the administrator's kubeconfig of a data directory.
func adminFile(t *testing.T, dir string) *rest.Config {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "admin.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// TestExchangeKeys exchanges the keys of two servers under load. Who knows the authority of before alone goes on until the end of the
// middle phase, in which one server has heard and the other has not; afterwards its certificate is refused.
func TestExchangeKeys(t *testing.T) {
	t.Parallel()
	a, b, dirs := joined(t)
	_, old := as(t, a, "old-hand", auth.GroupMasters)
	sa := clientset(t, old).CoreV1().ServiceAccounts("default")
	mint := func(c *kubernetes.Clientset) string {
		t.Helper()
		ask := &authenticationv1.TokenRequest{}
		r, err := c.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "default", ask, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return r.Status.Token
	}
	eventually(t, "the account is there", func(ctx context.Context) (bool, error) {
		_, err := sa.Get(ctx, "default", metav1.GetOptions{})
		return err == nil, nil
	})
	token := mint(clientset(t, old))
	stop := writer(t, "old-", old, towards(old, b))

	admin := clientset(t, adminFile(t, dirs[0]))
	if err := post(t, admin, "rotate", nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server tells who comes with certificates of before", func(context.Context) (bool, error) {
		c := certsOf(t, admin)
		return c.Exchanging && slices.Contains(c.Outdated(time.Now()), "old-hand"), nil
	})
	fresh := adminFile(t, dirs[0]) // it follows
	if bytes.Equal(fresh.CAData, old.CAData) || bytes.Equal(fresh.CertData, old.CertData) {
		t.Fatal("the administrator's kubeconfig was not written anew")
	}
	// The second server has not heard yet: it believes what the new authority signed all the same.
	stopFresh := writer(t, "fresh-", fresh, towards(fresh, b))
	if _, err := clientset(t, towards(fresh, b)).CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("who has not heard refuses who has: %v", err)
	}
	body, err := json.Marshal(keysOf(t, dirs[0]))
	if err != nil {
		t.Fatal(err)
	}
	if err := post(t, clientset(t, towards(old, b)), "adopt", body); err != nil {
		t.Fatal(err)
	}
	published(t, clientset(t, fresh), fresh.CAData)
	trusted(t, clientset(t, towards(fresh, b)), token, mint(clientset(t, fresh)))
	for name, f := range map[string]func() (int64, int64, error){"old": stop, "fresh": stopFresh} {
		t.Run(name, func(t *testing.T) {
			if done, failed, err := f(); failed > 0 || done < 10 {
				t.Errorf("%s: of %d writes %d failed: %v", name, done+failed, failed, err)
			}
		})
	}

	admin = clientset(t, fresh)
	if err := post(t, admin, "finish", nil); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "old-hand") {
		t.Errorf("the exchange is finished although old certificates are in use: %v", err)
	}
	if c := certsOf(t, admin); !c.Exchanging || c.Watched > 300 {
		t.Errorf("an exchange of just now is said to have been watched for %d s", c.Watched)
	}
	finish(t, a, b, dirs, fresh, old, token)
}

// finish ends the exchange on both servers, and restarts one.
func finish(t *testing.T, a, b *cluster.Cluster, dirs []string, fresh, old *rest.Config, token string) {
	t.Helper()
	if err := post(t, clientset(t, fresh), "finish?force", nil); err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(keysOf(t, dirs[0]))
	if err != nil {
		t.Fatal(err)
	}
	if err := post(t, clientset(t, towards(fresh, b)), "adopt", body); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*cluster.Cluster{a, b} {
		_, err := clientset(t, towards(old, c)).CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
		if !apierrors.IsUnauthorized(err) {
			t.Errorf("a certificate of before, in the end: %v", err)
		}
		if _, err := clientset(t, towards(fresh, c)).CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Error(err)
		}
	}
	last := adminFile(t, dirs[0])
	published(t, clientset(t, last), last.CAData)
	trusted(t, clientset(t, last), token)
	// A server that knows only the new authority, and one whose store knows only the one of before, are one cluster.
	address := peerAddress(t, clientset(t, last), "two")
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	again := start(t, cluster.Config{DataDir: dirs[1], Together: cluster.Together{PeerListen: address, Name: "two"}})
	maps := clientset(t, towards(last, again)).CoreV1().ConfigMaps("default")
	if _, err := maps.Create(t.Context(), configMap("after"), metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := clientset(t, last).CoreV1().ConfigMaps("default").Get(t.Context(), "after", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

// peerAddress finds the address of a member of the store.
func peerAddress(t *testing.T, cs *kubernetes.Clientset, name string) string {
	t.Helper()
	data, err := cs.Discovery().RESTClient().Get().AbsPath(cluster.MembersPath).DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var list []struct{ Name, URL string }
	if err := json.Unmarshal(data, &list); err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		if m.Name == name {
			return strings.TrimPrefix(m.URL, "https://")
		}
	}
	t.Fatalf("no member %s in %s", name, data)
	return ""
}

// published waits until pods can read the authorities.
func published(t *testing.T, cs *kubernetes.Clientset, ca []byte) {
	t.Helper()
	for ns, name := range map[string]string{"default": "kube-root-ca.crt", "kube-system": cluster.AuthorityName} {
		eventually(t, "ConfigMap "+name, func(ctx context.Context) (bool, error) {
			m, err := cs.CoreV1().ConfigMaps(ns).Get(ctx, name, metav1.GetOptions{})
			return err == nil && m.Data["ca.crt"] == string(ca), nil
		})
	}
	m, err := cs.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "extension-apiserver-authentication", metav1.GetOptions{})
	if err != nil || m.Data["client-ca-file"] != string(ca) {
		t.Errorf("servers of aggregated APIs are told of others, %v", err)
	}
}

// trusted checks that tokens are good.
func trusted(t *testing.T, cs *kubernetes.Clientset, tokens ...string) {
	t.Helper()
	for i, token := range tokens {
		r, err := cs.AuthenticationV1().TokenReviews().Create(t.Context(),
			&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
		if err != nil || !r.Status.Authenticated {
			t.Errorf("token %d: %v, %v", i, r.Status.Error, err)
		}
	}
}

// TestRenewCertificates has a server issue everything anew while it runs, as it does by itself every four months.
func TestRenewCertificates(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := start(t, cluster.Config{DataDir: dir, NoLoops: true})
	before := adminFile(t, dir)
	admin := clientset(t, before)
	was := certsOf(t, admin)
	if err := post(t, admin, "renew", nil); err != nil {
		t.Fatal(err)
	}
	if now := adminFile(t, dir); bytes.Equal(now.CertData, before.CertData) || !bytes.Equal(now.CAData, before.CAData) {
		t.Error("the administrator's certificate is the one of before, or the authority is not")
	}
	if _, err := admin.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	if len(was.Certificates) != 3 || len(was.Clients) != 1 || was.Clients[0].User != "kubernetes-admin" {
		t.Errorf("it tells of %v", was)
	}
	for _, bad := range []string{"nonsense", "adopt"} {
		if err := post(t, admin, bad, []byte("{}")); err == nil {
			t.Errorf("%s was done", bad)
		}
	}
	nobody, _ := as(t, c, "nobody")
	if err := post(t, nobody, "rotate", nil); !apierrors.IsForbidden(err) {
		t.Errorf("a stranger may exchange the keys: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "pki", "ca-cross.crt")); err == nil {
		t.Error("renewing exchanged the authority")
	}
}
