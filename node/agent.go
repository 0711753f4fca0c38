// Package node is the agent: it makes the pods of one node real through a container runtime, and tells the
// cluster what became of them.
//
//	reads   Pods of this node, and the ConfigMaps, Secrets and Services that they use; the runtime
//	writes  Node: create, status; Lease: renew; Pod: status, delete
//	rule    every pod assigned to the node runs as its spec says; no other container does
//
// A pod is a key of an ordinary loop. A reconcile observes the pod's sandbox and containers in the runtime,
// decides by a pure plan, and acts. Nothing is remembered that the runtime or the API could not tell again, but
// for pauses between attempts and the last answers of probes; so an agent that restarts goes on, and running
// containers do not notice.
package node

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/node/probe"
	"github.com/kloop-dev/kloop/node/runtime"
	"github.com/kloop-dev/kloop/node/volume"
	"github.com/kloop-dev/kloop/resource"
)

// Config says what an agent is.
type Config struct {
	Name    string // of the Node
	Client  client.Client
	Events  *client.Recorder
	Runtime *runtime.Runtime
	Log     *slog.Logger

	Dir       string // volumes of pods: DIR/pods/UID/volumes
	LogDir    string // logs of containers; "": /var/log/pods
	StaticDir string // manifests of static pods; "": none
	CgroupDir string // parent cgroup of all pods; "": kubepods

	Address netip.Addr // of the node
	Port    int        // where the agent's own API listens; 0: 10250
	// Serving is the certificate of the agent's own API, for tls.Config.
	Serving func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	Labels  map[string]string // of the Node, beside the usual ones
	Taints  []corev1.Taint    // of the Node when it registers
	MaxPods int               // 0: 110
	Beat    time.Duration     // between two renewals of the node's lease; 0: 10 s

	DNS    []netip.Addr // servers for pods of the policy ClusterFirst; none: the host's
	Domain string       // cluster domain; "": cluster.local
}

// An Agent runs one node. Make it with New.
type Agent struct {
	cfg     Config
	log     *slog.Logger
	vols    *volume.Mounter
	probes  *probe.Set
	images  *puller
	backoff *pauses
	pokes   *loop.Pokes

	mu       sync.Mutex
	let      map[types.UID]bool    // pods let in, until their status says so
	stopping map[types.UID]*ending // pods whose containers are being stopped
}

// New returns an agent. It starts nothing.
func New(cfg Config) *Agent {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.LogDir == "" {
		cfg.LogDir = "/var/log/pods"
	}
	if cfg.CgroupDir == "" {
		cfg.CgroupDir = "kubepods"
	}
	if cfg.Port == 0 {
		cfg.Port = 10250
	}
	if cfg.MaxPods == 0 {
		cfg.MaxPods = 110
	}
	if cfg.Beat == 0 {
		cfg.Beat = leaseEvery
	}
	if cfg.Domain == "" {
		cfg.Domain = "cluster.local"
	}
	a := &Agent{cfg: cfg, log: cfg.Log.With("node", cfg.Name), backoff: newPauses(), pokes: loop.NewPokes(),
		let: map[types.UID]bool{}, stopping: map[types.UID]*ending{}}
	a.images = newPuller(cfg.Runtime.Images)
	a.vols = volume.New(volume.Config{Dir: cfg.Dir, Client: cfg.Client, Node: cfg.Name})
	a.probes = probe.NewSet(a, func(ns, name string) { a.pokes.Wake(loop.Key{Kind: kinds.Pods, Namespace: ns, Name: name}, "probe") })
	a.probes.Event = func(p *corev1.Pod, c, text string) { a.event(p, c, corev1.EventTypeWarning, "Unhealthy", "%s", text) }
	a.probes.Warning = func(p *corev1.Pod, c, text string) {
		a.event(p, c, corev1.EventTypeWarning, "ProbeWarning", "%s", text)
	}
	return a
}

// Loop is the agent's pod loop.
func (a *Agent) Loop() *loop.Controller[*corev1.Pod] {
	return &loop.Controller[*corev1.Pod]{
		Name:      "node",
		For:       kinds.Pods,
		Wake:      []loop.Wake{loop.Each(kinds.ConfigMaps, a.usersOf), loop.Each(kinds.Secrets, a.usersOf)},
		Writes:    []resource.Kind{kinds.Pods},
		Skip:      func(p *corev1.Pod) bool { return p.Spec.NodeName != a.cfg.Name },
		Workers:   a.cfg.MaxPods,
		Pokes:     a.pokes,
		Reconcile: a.reconcile,
		Gone:      a.gone,
	}
}

// unfit says why a new pod can't be let in. Its report notes that it was, by its start time.
func (a *Agent) unfit(w world) (why, message string) {
	if !w.seen.empty() || w.pod.Status.StartTime != nil || w.pod.DeletionTimestamp != nil || finished(w.pod) {
		return "", ""
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.pods()
	maps.DeleteFunc(a.let, func(uid types.UID, _ bool) bool {
		return !slices.ContainsFunc(all, func(p *corev1.Pod) bool { return p.UID == uid })
	})
	let := func(p *corev1.Pod) bool { return p.Status.StartTime != nil || a.let[p.UID] }
	if why, message = Admit(w.pod, all, a.allocatable(), let); why == "" {
		a.let[w.pod.UID] = true
	}
	return why, message
}

// errRemoved says that the pod is gone from the API: there is nothing left to report on.
var errRemoved = errors.New("the pod is removed")

func (a *Agent) reconcile(ctx context.Context, c *loop.Ctx, pod *corev1.Pod) (again time.Duration, err error) {
	seen, err := a.observe(ctx, pod.Namespace, pod.Name) // observe
	if err != nil {
		return 0, err
	}
	if stray := seen.strangers(pod.UID); !stray.empty() { // a namesake that is gone from the API
		return time.Second, a.remove(ctx, stray)
	}
	w := a.world(c, pod, seen)
	if why, text := a.unfit(w); why != "" {
		a.event(pod, "", corev1.EventTypeWarning, why, "%s", text)
		return 0, a.fail(ctx, c, w, why, text)
	}
	todo := plan(w)                     // decide
	again, err = a.act(ctx, c, w, todo) // act
	if errors.Is(err, errRemoved) {
		return 0, nil
	}
	return again, a.report(ctx, c, pod, err)
}
