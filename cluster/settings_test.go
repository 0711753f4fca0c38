package cluster_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kloop-dev/kloop/auth/pki"
	"github.com/kloop-dev/kloop/cluster"
)

func TestServiceRanges(t *testing.T) {
	cs := clientset(t, config(t, start(t, cluster.Config{NoLoops: true, Advertise: netip.MustParseAddr("10.9.8.7"), NodePortLow: 31000,
		NodePortHigh: 31003,
		ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.50.1.0/24")}})))
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort,
		Ports: []corev1.ServicePort{{Port: 80}}}}
	made := must[*corev1.Service](t)(cs.CoreV1().Services("default").Create(t.Context(), svc, metav1.CreateOptions{}))
	if p := made.Spec.Ports[0].NodePort; !strings.HasPrefix(made.Spec.ClusterIP, "10.50.1.") || p < 31000 || p > 31003 {
		t.Errorf("got %s and port %d", made.Spec.ClusterIP, p)
	}
	outside := svc.DeepCopy()
	outside.Name, outside.Spec.Ports[0].NodePort = "outside", 30080
	if _, err := cs.CoreV1().Services("default").Create(t.Context(), outside, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("a port outside of the range: %v", err)
	}
	slice := must[*discoveryv1.EndpointSlice](t)(cs.DiscoveryV1().EndpointSlices("default").Get(t.Context(), "kubernetes",
		metav1.GetOptions{}))
	if slice.Endpoints[0].Addresses[0] != "10.9.8.7" {
		t.Errorf("the API is advertised at %v", slice.Endpoints)
	}
	var doc struct {
		Keys string `json:"jwks_uri"`
	}
	text := must[[]byte](t)(cs.RESTClient().Get().AbsPath("/.well-known/openid-configuration").DoRaw(t.Context()))
	if err := json.Unmarshal(text, &doc); err != nil || !strings.HasPrefix(doc.Keys, "https://10.9.8.7:") {
		t.Errorf("pods find the keys of tokens at %s: %v", doc.Keys, err)
	}
	api := must[*corev1.Service](t)(cs.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{}))
	if api.Spec.ClusterIP != "10.50.1.1" {
		t.Errorf("the API's own service has %s", api.Spec.ClusterIP)
	}
	cidr := must[*networkingv1.ServiceCIDR](t)(cs.NetworkingV1().ServiceCIDRs().Get(t.Context(), "kubernetes", metav1.GetOptions{}))
	if !slices.Equal(cidr.Spec.CIDRs, []string{"10.50.1.0/24"}) {
		t.Errorf("published ranges: %v", cidr.Spec.CIDRs)
	}
}

func TestPodRange(t *testing.T) {
	pods := []netip.Prefix{netip.MustParsePrefix("10.77.0.0/24")}
	cs := clientset(t, config(t, start(t, cluster.Config{SimNodes: 1, PodCIDRs: pods})))
	ns := namespace(t, cs)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	must[*corev1.Pod](t)(cs.CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{}))
	eventually(t, "an address", func(ctx context.Context) (bool, error) {
		p, err := cs.CoreV1().Pods(ns).Get(ctx, "p", metav1.GetOptions{})
		if err == nil && p.Status.PodIP != "" && !strings.HasPrefix(p.Status.PodIP, "10.77.0.") {
			t.Fatalf("the pod got %s", p.Status.PodIP)
		}
		return err == nil && p.Status.PodIP != "", nil
	})
}

// TestPodFamilies: simulated pods have an address of each of the cluster's families, and so do services' endpoints and the nodes.
func TestPodFamilies(t *testing.T) {
	t.Parallel()
	v4, v6 := netip.MustParsePrefix("10.77.0.0/24"), netip.MustParsePrefix("fd77::/64")
	s4, s6 := netip.MustParsePrefix("10.76.0.0/24"), netip.MustParsePrefix("fd76::/112")
	for name, families := range map[string][2][]netip.Prefix{
		"IPv6": {{v6}, {s6}}, "IPv4 first": {{v4, v6}, {s4, s6}}, "IPv6 first": {{v6, v4}, {s6, s4}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cs := clientset(t, config(t, start(t, cluster.Config{SimNodes: 1, PodCIDRs: families[0], ServiceCIDRs: families[1]})))
			ns, labels, both := namespace(t, cs), map[string]string{"app": "p"}, corev1.IPFamilyPolicyPreferDualStack
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
			must[*corev1.Pod](t)(cs.CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{}))
			svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: corev1.ServiceSpec{Selector: labels, IPFamilyPolicy: &both,
				Ports: []corev1.ServicePort{{Port: 80}}}}
			svc = must[*corev1.Service](t)(cs.CoreV1().Services(ns).Create(t.Context(), svc, metav1.CreateOptions{}))
			if len(svc.Spec.ClusterIPs) != len(families[0]) {
				t.Errorf("the service has %v", svc.Spec.ClusterIPs)
			}
			eventually(t, "addresses of all families, and slices of them", func(ctx context.Context) (bool, error) {
				p, err := cs.CoreV1().Pods(ns).Get(ctx, "p", metav1.GetOptions{})
				if err != nil || len(p.Status.PodIPs) != len(families[0]) || len(p.Status.HostIPs) != len(families[0]) {
					return false, err
				}
				for i, in := range families[0] {
					host := netip.MustParseAddr(p.Status.HostIPs[i].IP)
					if !in.Contains(netip.MustParseAddr(p.Status.PodIPs[i].IP)) || host.Is4() != in.Addr().Is4() {
						t.Fatalf("the pod has %v on %v, want addresses of %v", p.Status.PodIPs, p.Status.HostIPs, families[0])
					}
				}
				list, err := cs.DiscoveryV1().EndpointSlices(ns).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=s"})
				return err == nil && len(list.Items) == len(families[0]) && !slices.ContainsFunc(list.Items,
					func(s discoveryv1.EndpointSlice) bool { return len(s.Endpoints) != 1 }), err
			})
		})
	}
}

// keyFiles writes an authority and its key, as others make them.
func keyFiles(t *testing.T) (dir string, made *pki.PKI) {
	t.Helper()
	dir = t.TempDir()
	made, err := pki.Open(pki.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return dir, made
}

func TestTokenSettings(t *testing.T) {
	dir, _ := keyFiles(t)
	other, _ := keyFiles(t)
	cs := clientset(t, config(t, start(t, cluster.Config{NoLoops: true, Issuer: "https://issuer.test", Audiences: []string{"api", "more"},
		TokenKey: filepath.Join(dir, "sa.key"), TokenKeys: []string{filepath.Join(dir, "sa.pub"), filepath.Join(other, "sa.pub")}})))
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "sa"}}
	must[*corev1.ServiceAccount](t)(cs.CoreV1().ServiceAccounts("default").Create(t.Context(), sa, metav1.CreateOptions{}))
	tok := must[*authenticationv1.TokenRequest](t)(cs.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "sa",
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{}))
	body := must[[]byte](t)(base64.RawURLEncoding.DecodeString(strings.Split(tok.Status.Token, ".")[1]))
	var claims struct {
		Iss string
		Aud []string
	}
	if err := json.Unmarshal(body, &claims); err != nil {
		t.Fatal(err)
	}
	if claims.Iss != "https://issuer.test" || !slices.Equal(claims.Aud, []string{"api", "more"}) {
		t.Errorf("claims: %+v", claims)
	}
	keys := must[[]byte](t)(cs.RESTClient().Get().AbsPath("/openid/v1/jwks").DoRaw(t.Context()))
	if n := strings.Count(string(keys), `"kid"`); n != 2 {
		t.Errorf("%d keys are published: %s", n, keys)
	}
}

func TestAdmissionSettings(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	for off, refused := range map[string]bool{"": true, "ServiceAccount": false} {
		t.Run(off, func(t *testing.T) {
			cfg := cluster.Config{NoLoops: true}
			if off != "" {
				cfg.AdmissionOff = []string{off}
			}
			cs := clientset(t, config(t, start(t, cfg)))
			_, err := cs.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
			if apierrors.IsForbidden(err) != refused {
				t.Errorf("without %q: %v", off, err)
			}
		})
	}
}

func TestAuthorizationModes(t *testing.T) {
	tests := []struct {
		name        string
		modes       []string
		user, agent bool // may list nodes, may get its own
	}{
		{"the default", nil, false, true},
		{"RBAC alone", []string{cluster.ModeRBAC}, false, false},
		{"all allowed", []string{cluster.ModeAlwaysAllow}, true, true},
		{"all denied", []string{cluster.ModeAlwaysDeny}, false, false},
		{"the node authorizer before all allowed", []string{cluster.ModeNode, cluster.ModeAlwaysAllow}, true, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := start(t, cluster.Config{NoLoops: true, Authorization: tt.modes})
			as := func(name string, groups ...string) error {
				cfg := config(t, c)
				cfg.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: append(groups, "system:authenticated")}
				if len(groups) > 0 {
					_, err := clientset(t, cfg).CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
					return err
				}
				_, err := clientset(t, cfg).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
				return err
			}
			if err := as("somebody"); apierrors.IsForbidden(err) == tt.user {
				t.Errorf("%v: a user: %v", tt.modes, err)
			}
			if err := as("system:node:n", "system:nodes"); apierrors.IsForbidden(err) == tt.agent {
				t.Errorf("%v: a node: %v", tt.modes, err)
			}
		})
	}
}

func TestNoAnonymous(t *testing.T) {
	for no, code := range map[bool]int{false: http.StatusOK, true: http.StatusUnauthorized} {
		cfg := config(t, start(t, cluster.Config{NoLoops: true, NoAnonymous: no}))
		anonymous := must[*http.Client](t)(rest.HTTPClientFor(rest.AnonymousClientConfig(cfg)))
		resp := must[*http.Response](t)(anonymous.Get(cfg.Host + "/healthz"))
		resp.Body.Close()
		if resp.StatusCode != code {
			t.Errorf("no anonymous %v: %s", no, resp.Status)
		}
		anonymous.CloseIdleConnections()
	}
}

func TestFeatureGates(t *testing.T) {
	yes := true
	for _, on := range []bool{true, false} {
		cs := clientset(t, config(t, start(t, cluster.Config{NoLoops: true, Features: map[string]bool{"WatchList": on}})))
		w, err := cs.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{SendInitialEvents: &yes, AllowWatchBookmarks: true,
			ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan})
		if err == nil {
			w.Stop()
		}
		if (err == nil) != on || err != nil && !apierrors.IsInvalid(err) {
			t.Errorf("WatchList=%v: %v", on, err)
		}
	}
}

// TestOwnCertificates starts the API with a serving certificate and an authority of clients that others made.
func TestOwnCertificates(t *testing.T) {
	dir, other := keyFiles(t)
	cert, key, err := other.CA.Issue(pki.Leaf{User: "api", Hosts: []string{"127.0.0.1"}, Server: true}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"api.crt": cert, "api.key": key} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		})
	}
	c := start(t, cluster.Config{NoLoops: true, ServingCert: filepath.Join(dir, "api.crt"), ServingKey: filepath.Join(dir, "api.key"),
		ClientCA: filepath.Join(dir, "ca.crt")})
	if cert, key, err = other.CA.Issue(pki.Leaf{User: "boss", Groups: []string{"system:masters"}, Client: true}, time.Now()); err != nil {
		t.Fatal(err)
	}
	theirs := &rest.Config{Host: c.URL(), TLSClientConfig: rest.TLSClientConfig{CAData: other.CA.PEM(), CertData: cert, KeyData: key}}
	for whose, cfg := range map[string]*rest.Config{"the other authority's": theirs, "the cluster's own": config(t, c)} {
		t.Run(whose, func(t *testing.T) {
			if _, err := clientset(t, cfg).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err != nil {
				t.Errorf("%s administrator: %v", whose, err)
			}
		})
	}
}
