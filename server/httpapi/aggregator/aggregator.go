// Package aggregator is the aggregation layer: it hands requests for the groups of APIServices to the servers behind them (extension API
// servers), and joins what those say of themselves to discovery and OpenAPI.
package aggregator

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/apimachinery/pkg/version"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/internal/coldsort"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server/httpapi/discovery"
	"github.com/kloop-dev/kloop/server/httpapi/reply"
	"github.com/kloop-dev/kloop/webhook"
)

// An Aggregator hands requests for the groups of APIServices to the servers behind them. It serves as
// httpapi.Config.Groups and httpapi.Config.Delegate; it starts nothing by itself. Safe for concurrent use.
type Aggregator struct {
	Kinds *resource.Set
	Read  func() resource.Reader // the newest state
	// Cert is this server's client certificate at the others, the front proxy's; nil: it has none. It fits tls.Config.
	Cert func(*tls.CertificateRequestInfo) (*tls.Certificate, error)
	Dial func(ctx context.Context, network, addr string) (net.Conn, error) // reaches endpoints; nil: the host's network
	// HTTP2 has a transport speak HTTP/2; nil: Go's own does, in programs that are built with it.
	HTTP2 func(*http.Transport) error

	mu      sync.Mutex
	remotes map[string]*remote // by the name of the APIService
}

// remote is the server behind one APIService, as its spec was when it was looked at.
type remote struct {
	spec      string
	transport *http.Transport
	found     listed
	docs      described
}

var apiServices = schema.GroupResource{Group: apiregistrationv1.GroupName, Resource: "apiservices"}

// of returns the APIService of the group version if another server is behind it.
func (a *Aggregator) of(gv schema.GroupVersion) *apiregistrationv1.APIService {
	kind, ok := a.Kinds.GR(apiServices)
	if !ok || gv.Group == "" {
		return nil
	}
	svc, _ := a.Read().Lookup(kind, "", gv.Version+"."+gv.Group).(*apiregistrationv1.APIService)
	if svc == nil || svc.Spec.Service == nil {
		return nil
	}
	return svc
}

// Claims implements discovery.Source.
func (a *Aggregator) Claims(gv schema.GroupVersion) bool { return a.of(gv) != nil }

// ServeHTTP passes a request on. The caller has authenticated and authorized it and says who asks by WithUser.
func (a *Aggregator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if len(parts) < 3 {
		reply.NotFoundPage(w)
		return
	}
	svc := a.of(schema.GroupVersion{Group: parts[1], Version: parts[2]})
	if svc == nil {
		reply.NotFoundPage(w)
		return
	}
	if unreachable(svc) {
		http.Error(w, "service unavailable", http.StatusServiceUnavailable)
		return
	}
	rt, err := a.remote(svc)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	loc := *r.URL
	loc.Scheme, loc.Host = "https", hostOf(svc)
	r = asUser(r)
	h := proxy.NewUpgradeAwareHandler(&loc, rt.transport, false, false, serviceErrors{})
	h.UseLocationHost = true
	h.RejectForwardingRedirects = true
	h.ServeHTTP(w, r)
}

// unreachable says that the server did not answer when it was last asked: nobody need wait for it.
func unreachable(svc *apiregistrationv1.APIService) bool {
	for _, c := range svc.Status.Conditions {
		if c.Type == apiregistrationv1.Available {
			return c.Status == apiregistrationv1.ConditionFalse
		}
	}
	return false
}

func hostOf(svc *apiregistrationv1.APIService) string {
	ref := svc.Spec.Service
	return net.JoinHostPort(ref.Name+"."+ref.Namespace+".svc", strconv.Itoa(int(port(svc))))
}

func port(svc *apiregistrationv1.APIService) int32 {
	if p := svc.Spec.Service.Port; p != nil {
		return *p
	}
	return 443
}

// serviceErrors answers for servers that cannot be reached: with a line of text, as upstream does.
type serviceErrors struct{}

// Error implements proxy.ErrorResponder.
func (serviceErrors) Error(w http.ResponseWriter, _ *http.Request, err error) {
	http.Error(w, "error trying to reach service: "+err.Error(), http.StatusServiceUnavailable)
}

// remote returns the server of the APIService, made anew when the object has changed.
func (a *Aggregator) remote(svc *apiregistrationv1.APIService) (*remote, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	ref, at := *svc.Spec.Service, port(svc)
	spec := fmt.Sprintf("%s/%s:%d %t %s", ref.Namespace, ref.Name, at, svc.Spec.InsecureSkipTLSVerify, svc.Spec.CABundle)
	if rt := a.remotes[svc.Name]; rt != nil && rt.spec == spec {
		return rt, nil
	}
	conf := &tls.Config{InsecureSkipVerify: svc.Spec.InsecureSkipTLSVerify, //nolint:gosec // the object says so
		ServerName: svc.Spec.Service.Name + "." + svc.Spec.Service.Namespace + ".svc"}
	if len(svc.Spec.CABundle) > 0 {
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(svc.Spec.CABundle) {
			return nil, fmt.Errorf("the caBundle of APIService %s holds no certificate", svc.Name)
		}
	}
	conf.GetClientCertificate = a.Cert
	rt := &remote{spec: spec, transport: &http.Transport{TLSClientConfig: conf,
		TLSHandshakeTimeout: 10 * time.Second, MaxIdleConnsPerHost: 25, IdleConnTimeout: 90 * time.Second, ForceAttemptHTTP2: a.HTTP2 == nil,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return a.caller().DialService(ctx, network, ref.Namespace, ref.Name, at)
		}}}
	if a.HTTP2 == nil {
		rt.transport.CloseIdleConnections() // there are none yet: it makes up its mind about HTTP/2 before others read its settings
	} else if err := a.HTTP2(rt.transport); err != nil {
		return nil, fmt.Errorf("set up HTTP/2 to APIService %s: %w", svc.Name, err)
	}
	a.keep(svc.Name, rt)
	return rt, nil
}

// keep remembers a remote and forgets those whose objects are gone; a.mu is held.
func (a *Aggregator) keep(name string, rt *remote) {
	if a.remotes == nil {
		a.remotes = map[string]*remote{}
	}
	if old := a.remotes[name]; old != nil {
		old.transport.CloseIdleConnections()
	}
	a.remotes[name] = rt
	kind, _ := a.Kinds.GR(apiServices)
	read := a.Read()
	for other, old := range a.remotes {
		if other != name && read.Lookup(kind, "", other) == nil {
			old.transport.CloseIdleConnections()
			delete(a.remotes, other)
		}
	}
}

// caller finds the endpoints of services.
func (a *Aggregator) caller() *webhook.Caller {
	return &webhook.Caller{Dial: a.Dial, Resolve: func(ns, name string, port int32) ([]string, error) {
		return webhook.Endpoints(a.Read(), ns, name, port)
	}}
}

type userKey struct{}

// WithUser says who makes the request, for handlers that it is passed on to.
func WithUser(r *http.Request, u *auth.User) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), userKey{}, u))
}

// UserOf is the user that WithUser told, or nil.
func UserOf(ctx context.Context) *auth.User {
	u, _ := ctx.Value(userKey{}).(*auth.User)
	return u
}

// asUser tells the other server who asks, in the headers of the front proxy, and takes away what a client may
// have put there.
func asUser(r *http.Request) *http.Request {
	out := r.Clone(r.Context())
	for name := range out.Header {
		if strings.HasPrefix(name, "X-Remote-") {
			out.Header.Del(name)
		}
	}
	out.Header.Del("Authorization")
	u := UserOf(r.Context())
	if u == nil {
		return out
	}
	out.Header.Set("X-Remote-User", u.Name)
	if u.UID != "" {
		out.Header.Set("X-Remote-Uid", u.UID)
	}
	for _, g := range u.Groups {
		out.Header.Add("X-Remote-Group", g)
	}
	for key, values := range u.Extra {
		for _, v := range values {
			out.Header.Add("X-Remote-Extra-"+headerName(key), v)
		}
	}
	return out
}

// headerName writes a key as part of a header's name: what may not stand there is escaped as in URLs.
func headerName(key string) string {
	var b strings.Builder
	for i := range len(key) {
		c := key[i]
		if '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || strings.IndexByte("!#$&'*+-.^_`|~", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// services lists the APIServices that other servers answer for.
func (a *Aggregator) services() (list []*apiregistrationv1.APIService) {
	kind, ok := a.Kinds.GR(apiServices)
	if !ok {
		return nil
	}
	for o := range a.Read().Each(kind, "") {
		if svc, ok := o.(*apiregistrationv1.APIService); ok && svc.Spec.Service != nil {
			list = append(list, svc)
		}
	}
	return list
}

// Groups implements discovery.Source.
func (a *Aggregator) Groups() []discovery.Group {
	list := a.services()
	if len(list) == 0 {
		return nil
	}
	first := time.Now().Add(askFirst) // for all of them together
	for _, svc := range list {
		_, _ = a.begin(svc) // discovered tells
	}
	byName := map[string]*discovery.Group{}
	rank := map[schema.GroupVersion]int32{}
	for _, svc := range list {
		g := byName[svc.Spec.Group]
		if g == nil {
			g = &discovery.Group{Name: svc.Spec.Group}
			byName[g.Name] = g
		}
		g.Priority = max(g.Priority, int(svc.Spec.GroupPriorityMinimum))
		rank[schema.GroupVersion{Group: g.Name, Version: svc.Spec.Version}] = svc.Spec.VersionPriority
		g.Versions = append(g.Versions, a.discovered(svc, time.Until(first)))
	}
	groups := make([]discovery.Group, 0, len(byName))
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		g := byName[name]
		coldsort.Func(g.Versions, func(x, y discovery.Version) int {
			at := func(v discovery.Version) int32 { return rank[schema.GroupVersion{Group: name, Version: v.Name}] }
			if d := at(y) - at(x); d != 0 {
				return int(d)
			}
			return version.CompareKubeAwareVersionStrings(y.Name, x.Name)
		})
		groups = append(groups, *g)
	}
	return groups
}
