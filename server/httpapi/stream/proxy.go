package stream

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/proxy"

	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/server/httpapi/reply"
	"github.com/kloop-dev/kloop/webhook"
)

// A target is named by a proxied request: [scheme:]name[:port].
type target struct {
	scheme, name, port string
}

func parseTarget(s string) (target, error) {
	parts := strings.Split(s, ":")
	switch len(parts) {
	case 1:
		return target{name: parts[0]}, nil
	case 2:
		return target{name: parts[0], port: parts[1]}, nil
	case 3:
		if parts[0] == "http" || parts[0] == "https" || parts[0] == "" {
			return target{parts[0], parts[1], parts[2]}, nil
		}
	}
	return target{}, apierrors.NewBadRequest(fmt.Sprintf("invalid proxy request %q: want [scheme:]name[:port]", s))
}

// proxy hands the request to a node's agent, a pod or an endpoint of a service.
func (c *connection) proxy() error {
	t, err := parseTarget(c.req.Name)
	if err != nil {
		return err
	}
	rest := c.rest()
	var opts runtime.Object
	var find func(context.Context, target) (*url.URL, http.RoundTripper, error)
	switch c.req.Kind.Info().Plural {
	case "nodes":
		opts, find = &corev1.NodeProxyOptions{Path: rest}, c.nodeTarget
	case "pods":
		opts, find = &corev1.PodProxyOptions{Path: rest}, c.podTarget
	case "services":
		opts, find = &corev1.ServiceProxyOptions{Path: rest}, c.serviceTarget
	default:
		return reply.Generic(http.StatusNotFound)
	}
	if err := c.admitted(opts); err != nil { // by the name as it was asked for
		return err
	}
	c.req.Name = t.name
	loc, rt, err := find(c.r.Context(), t)
	if err != nil {
		return err
	}
	loc.Path, loc.RawQuery = rest, c.r.URL.RawQuery
	h := proxy.NewUpgradeAwareHandler(loc, rt, true, false, responder{c})
	h.UseLocationHost = c.req.Kind.Info().Plural == "nodes"
	h.ServeHTTP(c.w, c.r)
	return nil
}

// rest is the path below …/proxy, with its leading slash and a trailing one if it had it; empty when the
// request ends with "proxy", which is redirected to the slash.
func (c *connection) rest() string {
	_, rest, _ := strings.Cut(c.r.URL.Path, "/"+c.req.Kind.Info().Plural+"/")
	_, rest, _ = strings.Cut(rest, "/proxy")
	return rest
}

func (c *connection) nodeTarget(ctx context.Context, t target) (*url.URL, http.RoundTripper, error) {
	req := *c.req
	req.Sub = ""
	if _, err := c.h.cfg.Ops.Get(ctx, &req, &metav1.GetOptions{}); err != nil {
		return nil, nil, err
	}
	loc, rt, err := c.agent(ctx, t.name, "", nil)
	if err != nil {
		return nil, nil, err
	}
	if t.port != "" && t.port != loc.Port() {
		if err := reachable(loc.Hostname()); err != nil && net.ParseIP(loc.Hostname()) != nil { // the dialer checks what a name means
			return nil, nil, err
		}
		if t.scheme != "" {
			loc.Scheme = t.scheme
		}
		loc.Host = net.JoinHostPort(loc.Hostname(), t.port)
		return loc, c.h.proxy, nil
	}
	return loc, rt, nil
}

func (c *connection) podTarget(_ context.Context, t target) (*url.URL, http.RoundTripper, error) {
	pod, err := c.pod()
	if err != nil {
		return nil, nil, err
	}
	if t.port == "" {
		for i := range pod.Spec.Containers {
			if ports := pod.Spec.Containers[i].Ports; len(ports) > 0 {
				t.port = strconv.Itoa(int(ports[0].ContainerPort))
				break
			}
		}
	}
	if pod.Status.PodIP == "" {
		return nil, nil, apierrors.NewBadRequest("address not allowed")
	}
	if err := reachable(pod.Status.PodIP); err != nil {
		return nil, nil, err
	}
	return address(t, pod.Status.PodIP, t.port), c.h.proxy, nil
}

func address(t target, host, port string) *url.URL {
	u := &url.URL{Scheme: "http", Host: host}
	if t.scheme != "" {
		u.Scheme = t.scheme
	}
	switch {
	case port != "":
		u.Host = net.JoinHostPort(host, port)
	case strings.Contains(host, ":"):
		u.Host = "[" + host + "]"
	}
	return u
}

// reachable refuses addresses that would lead the server to itself or to its cloud's metadata: none but global unicast
// addresses may be asked for. 0.0.0.0 and :: are this machine, too.
func reachable(host string) error {
	if ip := net.ParseIP(host); ip == nil || !ip.IsGlobalUnicast() {
		return apierrors.NewBadRequest("address not allowed")
	}
	return nil
}

// dialGlobal reaches what reachable allows, whatever a name turned out to mean.
var dialGlobal = (&net.Dialer{Timeout: 10 * time.Second, Control: func(_, addr string, _ syscall.RawConn) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	host, _, _ = strings.Cut(host, "%") // the zone
	return reachable(host)
}}).DialContext

// serviceTarget chooses a ready endpoint of the service.
func (c *connection) serviceTarget(ctx context.Context, t target) (*url.URL, http.RoundTripper, error) {
	req := *c.req
	req.Sub = ""
	e, err := c.h.cfg.Ops.Get(ctx, &req, &metav1.GetOptions{})
	if apierrors.IsNotFound(err) && !isNumber(t.port) && c.h.cfg.Kinds.Features().AtLeast(37) { // only a number's name is looked up there
		return nil, nil, noEndpoints(t.name)
	}
	if err != nil {
		return nil, nil, err
	}
	svc, ok := e.Object.(*corev1.Service)
	if !ok {
		return nil, nil, apierrors.NewInternalError(fmt.Errorf("expected a service, not a %T", e.Object))
	}
	if svc.Spec.Type == corev1.ServiceTypeExternalName {
		return nil, nil, apierrors.NewBadRequest("address not allowed")
	}
	name, ok := portName(svc, t.port)
	if !ok {
		return nil, nil, apierrors.NewServiceUnavailable(fmt.Sprintf("no service port %q found for service %q", t.port, t.name))
	}
	host, port, err := c.endpoint(ctx, svc, name)
	if err != nil {
		return nil, nil, err
	}
	if err := reachable(host); err != nil {
		return nil, nil, err
	}
	return address(t, host, strconv.Itoa(int(port))), c.h.proxy, nil
}

// portName finds the service's port by name or number; without either a service of one port has that.
func portName(svc *corev1.Service, port string) (string, bool) {
	ports := svc.Spec.Ports
	if port == "" {
		for _, p := range ports {
			if p.Name == "" {
				return "", true
			}
		}
		if len(ports) == 1 {
			return ports[0].Name, true
		}
		return "", false
	}
	for _, p := range ports {
		if p.Name == port || strconv.Itoa(int(p.Port)) == port {
			return p.Name, true
		}
	}
	return "", false
}

func (c *connection) endpoint(ctx context.Context, svc *corev1.Service, port string) (host string, number int32, err error) {
	kind, ok := c.h.cfg.Kinds.GR(schema.GroupResource{Group: discoveryv1.GroupName, Resource: "endpointslices"})
	if !ok {
		return "", 0, apierrors.NewServiceUnavailable("endpoint slices are not served")
	}
	req := &server.Request{User: c.req.User, Kind: kind, GVK: kind.Info().GVK, Namespace: svc.Namespace}
	l, err := c.h.cfg.Ops.List(ctx, req, &metav1.ListOptions{ResourceVersion: "0",
		LabelSelector: discoveryv1.LabelServiceName + "=" + svc.Name})
	if err != nil {
		return "", 0, err
	}
	if len(l.Entries) == 0 && !c.h.cfg.Kinds.Features().AtLeast(37) {
		return "", 0, apierrors.NewNotFound(c.gr(), svc.Name)
	}
	for _, e := range l.Entries {
		slice, ok := e.Object.(*discoveryv1.EndpointSlice)
		if !ok {
			continue
		}
		if hosts, number := webhook.Ready(slice, port); len(hosts) > 0 {
			return hosts[0], number, nil
		}
	}
	return "", 0, noEndpoints(svc.Name)
}

func noEndpoints(service string) error {
	return apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", service))
}

func isNumber(port string) bool {
	_, err := strconv.ParseInt(port, 10, 64)
	return err == nil
}
