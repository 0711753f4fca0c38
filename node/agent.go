// Package node is the agent, upstream's kubelet: it makes the pods of one node real through a container runtime, and tells the
// cluster what became of them.
//
//	reads   Pods of this node, and the ConfigMaps, Secrets and Services that they use; the runtime
//	writes  Node: create, status; Lease: renew; Pod: status, delete
//	rule    every pod assigned to the node runs as its spec says; no other container does
//
// A pod is a key of an ordinary loop. A reconcile observes the pod's sandbox and containers in the runtime,
// decides by a pure plan, and acts. Nothing is remembered that the runtime or the API could not tell again, but
// for back-offs between attempts and the last answers of probes; so an agent that restarts goes on, and running
// containers do not notice.
package node

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/node/cgroup"
	"github.com/kloop-dev/kloop/node/meter"
	"github.com/kloop-dev/kloop/node/pressure"
	"github.com/kloop-dev/kloop/node/probe"
	"github.com/kloop-dev/kloop/node/provider"
	"github.com/kloop-dev/kloop/node/pullrecord"
	"github.com/kloop-dev/kloop/node/runtime"
	"github.com/kloop-dev/kloop/node/systemd"
	"github.com/kloop-dev/kloop/node/topology"
	"github.com/kloop-dev/kloop/node/volume"
	"github.com/kloop-dev/kloop/resource"
)

// Config says what an agent is.
type Config struct {
	Name    string // of the Node
	Client  client.Client
	Pins    Pins // keeps ConfigMaps and Secrets for Client; nil: it has all of them
	Events  *client.Recorder
	Runtime *runtime.Runtime
	Log     *slog.Logger

	Dir       string // volumes of pods: DIR/pods/UID/volumes
	LogDir    string // logs of containers; "": /var/log/pods
	StaticDir string // manifests of static pods; "": none
	CgroupDir string // parent cgroup of all pods; "": kubepods
	// CgroupRoot is the mount point of cgroups; "": /sys/fs/cgroup.
	CgroupRoot    string
	SystemdCgroup bool // systemd makes the cgroups

	Address  netip.Addr     // of the node
	Second   netip.Addr     // of the node in the other family; zero: none
	PodCIDRs []netip.Prefix // of the node's pods, if they do not come from the cluster: the Node registers with them
	// OwnNetwork says that the pod network is kloop's: pods have addresses of the Node's spec.podCIDRs, and no others.
	OwnNetwork bool
	Port       int // where the agent's own API listens; 0: 10250
	// Serving is the certificate of the agent's own API, for tls.Config.
	Serving func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	Labels  map[string]string // of the Node, beside the usual ones
	Taints  []corev1.Taint    // of the Node when it registers
	MaxPods int               // 0: 110
	// MaxRestartPause is the longest pause of a crash loop; 0: five minutes.
	MaxRestartPause time.Duration
	Beat            time.Duration // between two renewals of the node's lease; 0: 10 s

	// Eviction are the thresholds at which the node is short of something; none: it never is.
	Eviction           []pressure.Threshold
	EvictionMaxGrace   int64         // seconds that a pod has to end because of a soft threshold, at most
	EvictionTransition time.Duration // for how long pressure lasts after the last crossing; 0: pressure.Transition
	// ImageGCHigh and ImageGCLow are percents of the disk of images: above the one, images that nobody uses go until the other. 0: none go.
	ImageGCHigh, ImageGCLow int
	// An image is safe for ImageAge after it came; 0: pressure.ImageAge. One that nobody used for ImageMaxAge goes; 0: none does so.
	ImageAge, ImageMaxAge time.Duration
	Verification          pullrecord.Policy // which images on disk a pod needs credentials for; zero: those that were pulled
	ParallelPulls         int               // 0: 4
	Credentials           []Credential      // of registries, for all pods
	Providers             *provider.Plugins // know more of them; nil: there are none

	LogMax   int64 // bytes of a container's log until it is rotated; 0: 10 MiB
	LogFiles int   // that are kept of it; 0: 5

	// Shutdown has pods end before the machine does: how long those of a priority have. None: the machine does not wait.
	Shutdown []ShutdownGrace

	Resources Resources // what pods do not get, and how they are limited

	// AllowedSysctls are kernel parameters that pods may set beside the safe ones: names, or beginnings with a star.
	AllowedSysctls []string

	Policies Policies // network policies of pods; nil: nobody enforces any

	DNS    []netip.Addr // servers for pods of the policy ClusterFirst; none: the host's
	Domain string       // cluster domain; "": cluster.local

	Topology topology.Settings // what pods get for themselves, and how near to each other
	Sys      string            // mount point of sysfs; "": /sys

	Meter *meter.Meter // counts what the agent does; nil: one of its own

	// Plugins lets device plugins and drivers beside the agent register at sockets in Dir, which is then this agent's alone.
	Plugins bool

	logins func(context.Context) (logins, error) // nil: connectLogind
	power  <-chan os.Signal                      // word of a shutdown; nil: SIGPWR

	left func(nodefs, imagefs string) map[pressure.Signal]pressure.Reading // nil: pressure.Read
}

// An Agent runs one node. Make it with New.
type Agent struct {
	*common
	seen    *runtimeCache
	vols    *volume.Mounter
	probes  *probe.Set
	status  *statuses
	boxes   *sandboxes
	starter *starter
	stop    *stopper
	clean   *cleaner
	node    *nodeStatus
	admit   *admitter
	evict   *evictor
	alloc   *allocations
	resize  *resizer
	enforce *enforcer
	ends    *shutdowns
	watch   *watcher
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
		cfg.CgroupDir = cgroup.Pods
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
	if cfg.logins == nil {
		cfg.logins = connectLogind
	}
	if cfg.left == nil {
		cfg.left = pressure.Read
	}
	shared := &common{cfg: cfg, log: cfg.Log.With("node", cfg.Name), backoff: newBackoffs(), wakes: loop.NewExternalWakes(), tasks: &tasks{},
		patience: newPatience(), cgroups: cgroup.Open(cmp.Or(cfg.CgroupRoot, cgroup.Root), cfg.CgroupDir)}
	if cfg.SystemdCgroup {
		shared.cgroups.By(systemd.NewSlices(systemd.Socket))
	}
	shared.pulled = pullrecord.Open(filepath.Join(cfg.Dir, "image_manager"), cfg.Verification)
	shared.backoff.restart = cfg.MaxRestartPause
	if shared.meter = cfg.Meter; shared.meter == nil {
		shared.meter = meter.New()
	}
	shared.cgroups.Observe = shared.meter.Group
	cfg.Runtime.Observe(shared.meter.Call)
	shared.hardware = newHardware(cfg, shared.pods, shared.wakePod)
	shared.terms = newTerms(cfg, shared.cgroups, shared.spare(shared.capacity()))
	shared.terms.exclusive = shared.hardware.checkpoint.Exclusive
	a := assemble(shared)
	if cfg.Pins != nil {
		cfg.Pins.OnChange(a.changed)
	}
	return a
}

// assemble makes the agent of its parts. None of them starts anything.
func assemble(c *common) *Agent {
	seen := newRuntimeCache(c.cfg.Runtime.Containers)
	a := &Agent{common: c, seen: seen, evict: &evictor{common: c, of: map[types.UID]*eviction{}}}
	a.boxes = &sandboxes{common: c, users: &userRanges{common: c}}
	a.alloc = &allocations{common: c, of: map[types.UID]*allocation{}}
	a.enforce = &enforcer{common: c, alloc: a.alloc, kick: make(chan struct{}, 1)}
	a.admit = &admitter{common: c, evict: a.evict, alloc: a.alloc, admitted: map[types.UID]bool{}}
	a.resize = &resizer{c, a.alloc, a.admit}
	a.vols = volume.New(volume.Config{Dir: c.cfg.Dir, Client: c.cfg.Client, Node: c.cfg.Name, Log: c.log, Events: c.cfg.Events,
		Memory: c.memory, SELinux: c.labels(), Labelled: c.meter.Labelled,
		Wake: a.driverCame, Took: c.meter.Volume, Called: c.meter.Driver, Bundles: c.bundles})
	a.stop = &stopper{common: c, stopping: map[types.UID]*ending{}}
	a.probes = probe.NewSet(a.stop, func(ns, name string) { c.wake(ns, name, "probe") })
	a.probes.Event = func(p *corev1.Pod, k, text string) { c.event(p, k, corev1.EventTypeWarning, "Unhealthy", "%s", text) }
	a.probes.Warning = func(p *corev1.Pod, k, text string) {
		c.event(p, k, corev1.EventTypeWarning, "ProbeWarning", "%s", text)
	}
	a.stop.probes = a.probes
	images := newPuller(c, c.cfg.Runtime.Images)
	images.token = a.vols.Token
	a.status = &statuses{c, images, a.alloc}
	a.starter = &starter{common: c, resolver: &resolver{c}, boxes: a.boxes, images: images, stop: a.stop, vols: a.vols, alloc: a.alloc}
	a.clean = &cleaner{common: c, boxes: a.boxes, images: images, probes: a.probes, stop: a.stop, vols: a.vols, evict: a.evict,
		users: a.boxes.users, alloc: a.alloc, kick: make(chan struct{}, 1)}
	a.node = &nodeStatus{common: c, clean: a.clean, evict: a.evict}
	a.watch = &watcher{common: c, evict: a.evict, node: a.node}
	a.ends = &shutdowns{common: c, evict: a.evict, node: a.node}
	return a
}

// Loop is the agent's pod loop.
func (a *Agent) Loop() *loop.Controller[*corev1.Pod] {
	return &loop.Controller[*corev1.Pod]{
		Name: "node",
		For:  kinds.Pods,
		Wake: []loop.Wake{a.usersOf(kinds.ConfigMaps), a.usersOf(kinds.Secrets), a.usersOf(kinds.ClusterTrustBundles),
			a.usersOf(kinds.PodCertificateRequests), a.usersOf(kinds.PersistentVolumeClaims), {Kind: kinds.Nodes, Keys: a.moved},
			{Kind: kinds.Pods, Keys: a.ended}},
		Writes:        []resource.Kind{kinds.Pods},
		Skip:          func(p *corev1.Pod) bool { return p.Spec.NodeName != a.cfg.Name },
		Workers:       a.cfg.MaxPods,
		ExternalWakes: a.wakes,
		Reconcile:     a.reconcile,
		Gone:          a.gone,
	}
}

// errRemoved says that there is nothing left to report on: the pod is gone from the API, or its end has been told.
var errRemoved = errors.New("the pod is removed")

// reconcile does what the plan says and then reports.
//
// Unlike Kubernetes, a pod that is new is reported when its sandbox has been made: nothing is written that says only that it is not yet.
func (a *Agent) reconcile(ctx context.Context, c *loop.Ctx, pod *corev1.Pod) (again time.Duration, err error) {
	began, what := time.Now(), "sync"
	defer func() { a.meter.Worked(what, time.Since(began)) }()
	if pod.DeletionTimestamp != nil || core.Terminal(pod) {
		what = "kill"
	} else if pod.Status.Phase == "" || pod.Status.Phase == corev1.PodPending {
		a.meter.Seen(pod.UID, len(pod.Spec.Containers), began)
	}
	seen, err := a.observe(ctx, pod.Namespace, pod.Name) // observe
	if err != nil {
		return 0, err
	}
	if stray := seen.strangers(pod.UID); !stray.empty() { // a namesake that is gone from the API
		return time.Second, a.clean.remove(ctx, stray)
	}
	if seen.empty() && what == "sync" {
		what = "create"
	}
	asked, err := a.grant(pod, seen)
	if err != nil {
		return 0, err
	}
	w := a.world(c, pod, seen)
	switch r, wait := a.admit.rejection(ctx, w); {
	case wait:
		return time.Second, nil
	case r != nil:
		return 0, a.reject(ctx, c, w, r)
	}
	todo := plan(w)                      // decide
	again, err = a.act(ctx, c, w, &todo) // act
	switch {
	case errors.Is(err, errRemoved):
		return again, nil
	case err != nil && !todo.stop && a.patience.over(pod.UID):
		return loop.Now, nil // it waited for a pod that is to end now
	}
	if todo.idle() {
		return soonest(again, asked), a.tell(ctx, c, pod, w, err)
	}
	return soonest(again, asked), a.report(ctx, c, pod, err)
}

// grant takes up a resize of a pod that runs here. again: ask anew then, if there is no room for it yet.
func (a *Agent) grant(pod *corev1.Pod, seen runtimeState) (again time.Duration, err error) {
	if seen.empty() || pod.DeletionTimestamp != nil || core.Terminal(pod) {
		return 0, nil
	}
	return a.resize.grant(pod)
}
