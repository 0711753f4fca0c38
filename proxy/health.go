package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
)

// healthPorts answers the load balancers that ask nodes whether they have endpoints of a service whose externalTrafficPolicy is Local:
// its healthCheckNodePort. One goroutine changes it.
type healthPorts struct {
	events *client.Recorder
	open   map[netip.AddrPort]*healthPort
	rules  atomic.Bool // the kernel's rules are as they should be
	ipvs   atomic.Bool // virtual servers are in force
}

// A healthPort serves one service at one address.
type healthPort struct {
	name   key
	local  atomic.Int64
	rules  *atomic.Bool
	server *http.Server
}

func newHealthPorts(events *client.Recorder) *healthPorts {
	return &healthPorts{events: events, open: map[netip.AddrPort]*healthPort{}}
}

// follow opens and closes ports so that they are those of the book, and returns what could not be opened.
func (h *healthPorts) follow(b *book) error {
	var errs []error
	wanted := map[netip.AddrPort]*service{}
	for n := range b.checked {
		s := b.services[n]
		for _, a := range b.here.nodePorts {
			wanted[netip.AddrPortFrom(a, s.health.port)] = s
		}
	}
	for at, p := range h.open {
		if s := wanted[at]; s == nil || s.name != p.name {
			p.server.Close()
			delete(h.open, at)
		}
	}
	for at, s := range wanted {
		p := h.open[at]
		if p == nil {
			var err error
			if p, err = h.listen(at, s); err != nil {
				errs = append(errs, err)
				continue
			}
			h.open[at] = p
		}
		p.local.Store(int64(s.health.local))
	}
	return errors.Join(errs...)
}

// close closes all ports.
func (h *healthPorts) close() {
	for _, p := range h.open {
		p.server.Close()
	}
}

func (h *healthPorts) listen(at netip.AddrPort, s *service) (*healthPort, error) {
	l, err := net.Listen("tcp", at.String())
	if err != nil {
		err = fmt.Errorf("listen for health checks of service %s: %w", s.name, err)
		h.events.Event(kinds.Services, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.name.Namespace, Name: s.name.Name, UID: s.uid}},
			corev1.EventTypeWarning, "FailedToStartServiceHealthcheck", "%v", err)
		return nil, err
	}
	const patience = 5 * time.Second
	p := &healthPort{name: s.name, rules: &h.rules}
	p.server = &http.Server{Handler: p, ReadTimeout: patience, WriteTimeout: patience, IdleTimeout: time.Minute, MaxHeaderBytes: 4096,
		ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = p.server.Serve(l) }() // ends with Close
	return p, nil
}

// ServeHTTP answers 200 if connections that come to this node find an endpoint here, else 503; the body is that of kube-proxy.
func (p *healthPort) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	local, rules := p.local.Load(), p.rules.Load()
	body, _ := json.Marshal(map[string]any{
		"service":             map[string]string{"namespace": p.name.Namespace, "name": p.name.Name},
		"localEndpoints":      local,
		"serviceProxyHealthy": rules,
	})
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("X-Load-Balancing-Endpoint-Weight", strconv.FormatInt(local, 10))
	if local == 0 || !rules {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = w.Write(body)
}
