// Package serve is the node agent's own API, as API servers know it from the kubelet: logs, exec, attach,
// port-forward, and what the node uses. Exec and its like are tunnelled, byte for byte, to the runtime.
//
// The API server and masters are known by certificates of the cluster's authority. About everybody else the API
// server is asked: metrics-server and the like come with tokens.
package serve

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/node/cgroup"
	"github.com/kloop-dev/kloop/node/csi"
	"github.com/kloop-dev/kloop/node/runtime"
)

// Config holds what the API answers from. Runtime, Pods, Container and ClientCA are required.
type Config struct {
	Node    string // its name, a label in statistics; "": the host's
	Runtime *runtime.Runtime
	// Pods lists the pods of the node.
	Pods func() []*corev1.Pod
	// Container finds a container of a pod, the current one or the one before it, and where the runtime writes its
	// log. A NoLog says why there is none.
	Container func(ns, pod, container string, previous bool) (id, logPath string, running bool, err error)
	// Probes counts the answers of probes; nil: none are exposed.
	Probes         func() []ProbeCount
	SystemLogs     string // directory of the node's own logs, which /logs/ shows; "": it shows none
	SystemLogQuery bool   // /logs/?query= asks services' journals and files
	journalctl     string // "": by its name
	// Configuration is the node's, as the kubelet's KubeletConfiguration, for JSON; nil: it is not told.
	Configuration func() any
	Checkpoints   string // directory of checkpoints; "": none are made
	// Volumes returns how full a pod's volumes are; nil: nobody knows.
	Volumes func(context.Context, *corev1.Pod) []csi.Usage
	// Groups returns what the kernel counted for a pod, and for its containers by their ids; nil: nobody knows.
	Groups func(*corev1.Pod) (pod cgroup.Use, containers map[string]cgroup.Use)
	// Logs is the directory of a pod's logs, with one for each container below; nil: they are not counted.
	Logs  func(*corev1.Pod) string
	Meter prometheus.Gatherer // the agent's counts; nil: none
	// Serving is the agent's certificate; nil: no metric tells of it.
	Serving func(*tls.ClientHelloInfo) (*tls.Certificate, error)

	ClientCA func() *x509.CertPool // signs the certificates of callers
	Client   client.Client         // asks who callers with tokens are and what others may do; nil: only the server's own may call
	Log      *slog.Logger          // nil: the default
}

// The callers that may do everything, without asking.
const (
	serverUser  = "kube-apiserver-kubelet-client"
	masterGroup = "system:masters"
)

type api struct {
	cfg    Config
	log    *slog.Logger
	access *access // nil: nobody is asked
	own    http.Handler
	asked  *asked
	cpus   rate // of the node
}

// New returns the API. It starts nothing.
func New(cfg Config) http.Handler {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	cfg.journalctl = cmp.Or(cfg.journalctl, "journalctl")
	reg := prometheus.NewRegistry()
	a := &api{cfg: cfg, log: cfg.Log, own: processMetrics(reg, cfg.Meter), asked: newAsked(reg)}
	if n, err := readNode(); err == nil {
		a.cpus.look(n.CPU.Time.Time, *n.CPU.UsageCoreNanoSeconds)
	}
	if cfg.Client != nil {
		a.access = &access{client: cfg.Client, node: cfg.Node, known: map[[sha256.Size]byte]verdict{}}
	}
	mux := http.NewServeMux()
	for pattern, h := range map[string]func(http.ResponseWriter, *http.Request) error{
		"GET /containerLogs/{ns}/{pod}/{container}": a.logs,
		"/exec/{ns}/{pod}/{container}":              a.exec,
		"/exec/{ns}/{pod}/{uid}/{container}":        a.exec,
		"/attach/{ns}/{pod}/{container}":            a.attach,
		"/attach/{ns}/{pod}/{uid}/{container}":      a.attach,
		"/portForward/{ns}/{pod}":                   a.portForward,
		"/portForward/{ns}/{pod}/{uid}":             a.portForward,
		"POST /run/{ns}/{pod}/{container}":          a.run,
		"POST /run/{ns}/{pod}/{uid}/{container}":    a.run,
		"POST /checkpoint/{ns}/{pod}/{container}":   a.checkpoint,
		"GET /pods":             a.pods,
		"GET /healthz":          a.healthz,
		"GET /healthz/{check}":  a.healthz,
		"GET /stats/summary":    a.summary,
		"GET /metrics/resource": a.resourceMetrics,
		"GET /metrics":          a.ownMetrics,
		"GET /metrics/cadvisor": a.cadvisorMetrics,
		"GET /metrics/probes":   a.probeMetrics,
		"GET /configz":          a.configz,
		"GET /logs/":            a.nodeLogs,
		"POST /logs/":           a.nodeLogs,
		"GET /runningpods/":     a.runningPods,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := h(w, r); err != nil {
				fail(w, err)
			}
		})
	}
	return a.guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, pattern := mux.Handler(r)
		defer a.asked.begin(r, pattern != "")()
		mux.ServeHTTP(w, r)
	}))
}

// guard lets callers through that may.
func (a *api) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := a.admit(r); err != nil {
			fail(w, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (a *api) admit(r *http.Request) error {
	user, own, err := a.caller(r)
	if errors.Is(err, errNobody) {
		return refusal{http.StatusUnauthorized, "Unauthorized"}
	}
	if err != nil {
		return err
	}
	if own || slices.Contains(user.Groups, masterGroup) {
		return nil
	}
	if a.access != nil {
		ok, err := a.access.allowed(r.Context(), user, r)
		if ok || err != nil {
			return err
		}
	}
	return refusal{http.StatusForbidden, fmt.Sprintf("Forbidden (user=%s, verb=%s, resource=nodes, subresource(s)=%v)",
		user.Username, verb(r.Method), subresources(r.URL.Path))}
}

// caller names the user who calls, by certificate or by token; errNobody: there is neither, or it is not good. own: it is the API server,
// which shows a certificate; an issuer of tokens may call anybody so.
func (a *api) caller(r *http.Request) (user *authenticationv1.UserInfo, own bool, err error) {
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 && a.verify(r.TLS.PeerCertificates) {
		s := r.TLS.PeerCertificates[0].Subject
		return &authenticationv1.UserInfo{Username: s.CommonName, Groups: append(slices.Clone(s.Organization), "system:authenticated")},
			s.CommonName == serverUser, nil
	}
	token := bearer(r)
	if token == "" || a.access == nil {
		return nil, false, errNobody
	}
	user, err = a.access.user(r.Context(), token)
	if err == nil && user == nil {
		err = errNobody
	}
	return user, false, err
}

func (a *api) verify(chain []*x509.Certificate) bool {
	if a.cfg.ClientCA == nil {
		return false
	}
	opts := x509.VerifyOptions{Roots: a.cfg.ClientCA(), Intermediates: x509.NewCertPool(),
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for _, c := range chain[1:] {
		opts.Intermediates.AddCert(c)
	}
	_, err := chain[0].Verify(opts)
	return err == nil
}

// NoLog says why a container has no log, and nothing that could run: container "c" in pod "p" is waiting to start.
type NoLog string

// Error implements error.
func (n NoLog) Error() string { return string(n) }

// A refusal is an error with its status code.
type refusal struct {
	code int
	text string
}

func (e refusal) Error() string { return e.text }

// fail answers with the error as text, which API servers put into theirs.
func fail(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	var r refusal
	var s apierrors.APIStatus
	switch {
	case errors.As(err, &r):
		code = r.code
	case errors.As(err, &s) && s.Status().Code != 0:
		code = int(s.Status().Code)
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(err.Error())) // the caller may have gone
}

// pod finds the pod that the URL names.
func (a *api) pod(r *http.Request) (*corev1.Pod, error) {
	ns, name, uid := r.PathValue("ns"), r.PathValue("pod"), r.PathValue("uid")
	for _, p := range a.cfg.Pods() {
		if p.Namespace == ns && p.Name == name && (uid == "" || string(p.UID) == uid) {
			return p, nil
		}
	}
	return nil, refusal{http.StatusNotFound, "pod does not exist"}
}

func hasContainer(p *corev1.Pod, name string) bool {
	for _, list := range [][]corev1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		if slices.ContainsFunc(list, func(c corev1.Container) bool { return c.Name == name }) {
			return true
		}
	}
	return slices.ContainsFunc(p.Spec.EphemeralContainers, func(c corev1.EphemeralContainer) bool { return c.Name == name })
}

func (a *api) pods(w http.ResponseWriter, _ *http.Request) error {
	list := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []corev1.Pod{}}
	for _, p := range a.cfg.Pods() {
		one := *p
		one.TypeMeta = metav1.TypeMeta{}
		list.Items = append(list.Items, one)
	}
	return writeJSON(w, list)
}

func writeJSON(w http.ResponseWriter, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // the caller may have gone
	return nil
}

func (a *api) healthz(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("ok"))
	return nil
}

// Bounds of connections.
const (
	headerTimeout = 30 * time.Second
	idleConn      = 90 * time.Second
	headerLimit   = 64 << 10 // bytes
	drain         = 2 * time.Second
)

// Serve answers on the listener until ctx ends. Streams under way are then cut. A caller without a certificate gets as far as a 401.
func Serve(ctx context.Context, l net.Listener, h http.Handler, cert func(*tls.ClientHelloInfo) (*tls.Certificate, error)) error {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleConn, MaxHeaderBytes: headerLimit,
		ErrorLog:  slog.NewLogLogger(slog.Default().Handler(), slog.LevelDebug), // handshakes of strangers
		Protocols: new(http.Protocols),
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: cert, ClientAuth: tls.RequestClientCert}}
	srv.Protocols.SetHTTP1(true) // SPDY takes connections over, which HTTP/2 can't give
	srv.BaseContext = func(net.Listener) context.Context { return ctx }
	failed := make(chan error, 1)
	go func() { failed <- srv.ServeTLS(l, "", "") }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve the node's API on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	short, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	err := srv.Shutdown(short)
	if err != nil {
		err = srv.Close()
	}
	<-failed
	return err
}
