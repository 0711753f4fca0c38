package cluster

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/kloop-dev/kloop/auth/token"
	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds/served"
	"github.com/kloop-dev/kloop/kit"
	"github.com/kloop-dev/kloop/strict"
)

// The stores.
const (
	StoreEtcd   = "etcd"   // embedded in this process, or EtcdServers
	StoreMemory = "memory" // gone when the process ends
)

// What a process does about a node of its own.
const (
	NodeAuto = "auto" // a real one if a container runtime can be had
	NodeReal = "real" // a real one, or fail
	NodeNone = "none"
)

// KubeletDir is the root directory of an agent that drivers of volumes and devices know: they mount it under this very name.
const KubeletDir = "/var/lib/kubelet"

// Config says what a process runs. With whole.Kit and nothing else it is a whole cluster in memory, without a node,
// on a free port of the loopback address.
type Config struct {
	DataDir     string   // keys, certificates and the store; needed unless Store is memory
	Store       string   // StoreEtcd or StoreMemory; "": memory without DataDir, etcd with
	EtcdServers []string // use this etcd instead of an embedded one: https://host:2379
	EtcdTLS     EtcdTLS
	Together    Together  // with other servers
	Snapshots   Snapshots // of the embedded store

	// EncryptionConfig names upstream's EncryptionConfiguration file; "": objects are stored in clear. It is read again
	// when it changes.
	EncryptionConfig string

	Authn Authn // who is believed
	Authz Authz // what decides about requests
	Audit Audit // what is recorded of requests

	ShutdownDelay time.Duration // how long it says at /readyz that it ends, and serves on, before it does; 15 s at most

	MaxReads, MaxWrites int // seats for short requests, all priority levels together have the sum; 0: 400 and 200

	Listen string   // host:port of the API; "": 127.0.0.1:0
	Hosts  []string // further names and addresses that the serving certificate is good for

	Advertise netip.Addr // at which pods reach the API; zero: where it listens, or the machine's address

	ServingCert, ServingKey string // files of a serving certificate of the caller's own; "": the cluster's authority issues one
	ClientCA                string // file of a further authority whose client certificates are believed

	ServiceCIDRs              []netip.Prefix // ranges of cluster IPs, the default family first, one of each at most; none: 10.96.0.0/16
	NodePortLow, NodePortHigh int32          // 0: 30000 and 32767
	// addresses of pods, one of each family at most; none: 10.88.0.0/16, of simulated nodes' pods 10.128.0.0/9
	PodCIDRs []netip.Prefix

	Issuer    string   // of service account tokens; "": token.Issuer
	Audiences []string // that the API takes tokens for; none: the issuer
	TokenKey  string   // file of the key that signs them; "": the data directory's
	TokenKeys []string // files of further keys that are believed

	AdmissionOn, AdmissionOff []string        // plugins, by upstream's names, beside the default ones
	AdmissionConfig           string          // file with upstream's AdmissionConfiguration; "": plugins as they are by default
	Authorization             []string        // modes in order, see ModeNode; none: Node, RBAC
	NoAnonymous               bool            // refuse requests without credentials
	Features                  map[string]bool // feature gates that differ from upstream's defaults; see package features

	EmulatedVersion string      // the Kubernetes that this is, 1.36 or 1.37; "": the newest
	RuntimeConfig   served.APIs // what of the API is served
	on              *features.Set

	Flags map[string]string // with what the process was started, for /flagz: no secrets

	Shed func() // called when much of what the past takes in memory is let go; must not block. nil: not called
	// Verbosity sets how much the process logs, as klog counts; safe for concurrent use. nil: nobody can, and /debug/flags is not there.
	Verbosity func(n int)

	Relieved func() // called when much of what clients held in memory is let go, many watches; must not block. nil: nobody is

	// Files of the authority that signs certificate requests, for loops away from the server; "": somebody else signs.
	SigningCert, SigningKey string

	NoLoops     bool     // the front door alone: no controllers, no scheduler
	Controllers []string // which loops run: "*" is all but those that have to be named, "name" one more, "-name" one less; none: all
	Node        string
	Kit         kit.Kit // what the program has: loops, etcd, and so on; whole.Kit has all
	Machine     Machine // what makes this machine the Node; nil: it can't be one
	StaticDir   string  // manifests of the own node's static pods; "": none
	NodeName    string  // "": the host's name
	// RuntimeSocket is the absolute path of the socket of a CRI runtime that the own node has already; "": a containerd is started.
	RuntimeSocket string
	NodeDir       string // runtime and local storage of the own node; "": DataDir
	// RootDir is the root directory of the own node's agent, as the kubelet's: only /var/lib/kubelet is known to CSI drivers and device
	// plugins. No two agents share one. "": NodeDir/node.
	RootDir string
	// NoLocalStorage makes no default storage class of volumes on nodes' disks; the own node offers none.
	NoLocalStorage bool
	// VolumeSnapshots defines the kinds of snapshots, where nobody else did.
	VolumeSnapshots bool

	SimNodes int // how many simulated nodes to make

	ManifestsDir string // whose manifests the cluster applies and prunes; "": DataDir/manifests, and none without a DataDir
	GitSources   bool   // there are GitSources: repositories whose manifests the cluster applies
	GitDir       string // of their copies; "": DataDir/git

	NoConvergence bool // explain nothing, and remember nothing for it: no group convergence.kloop.dev, and no trail

	// Explains is another cluster, which this server explains in place of its own: it serves that cluster as an aggregated API.
	Explains Other

	NoPage bool // serve no page at /ui

	NoTrail     bool   // do not remember who changed what and because of what, and what it was before
	TraceExport string // where cascades go as spans, OTLP over HTTP: http://collector:4318/v1/traces; "": nowhere

	Kubeconfig string // where to write the administrator's kubeconfig; "": nowhere

	NodeMonitorGrace  time.Duration // silence after which a node is not ready; 0: 50 s
	NodeMonitorPeriod time.Duration // nodes are also looked at after this, if nothing wakes them before; 0: 10 h
	AutoscalerPeriod  time.Duration // autoscalers are also looked at after this; 0: 15 s
	BinderPeriod      time.Duration // volumes and claims are also looked at after this; 0: 10 h

	NodeCIDRs    bool // give every node a part of PodCIDRs; without, this process's node takes all of it
	NodeCIDRBits int  // prefix length of such a part where PodCIDRs has one family; 0: as the next two say
	// NodeCIDRBits4 and NodeCIDRBits6 are the prefix lengths of parts of either family; 0: 24 and 64.
	NodeCIDRBits4, NodeCIDRBits6 int

	SchedulerConfig string // file with upstream's KubeSchedulerConfiguration; "": the default profile

	DNS ClusterDNS

	Pressure      Pressure      // of the own node
	NodeResources NodeResources // that it keeps from pods
	NodeImages    NodeImages
	NodeLogQuery  bool         // its agent answers questions for the logs of services
	NodeShutdown  NodeShutdown // how long its pods have to end when the machine shuts down
	NodeTopology  NodeTopology // that it gives to one container alone

	NoPolicies bool // nodes enforce no network policies: somebody else does

	Network string // how pods reach other machines: NetworkAuto, NetworkVXLAN, NetworkRoutes, NetworkWireGuard or NetworkNone; "": auto

	ProxyMode      string // ProxyNftables, ProxyIPVS or ProxyNone; "": nftables
	ProxyScheduler string // how ipvs chooses among endpoints: rr, lc, sh…; "": rr
	IPVS           IPVS
	// NodePortAddresses are the machine's addresses at which node ports are served: ranges, or "primary", the node's internal
	// addresses; none: those.
	NodePortAddresses []string

	LoadBalancer string // where Services of type LoadBalancer get their addresses: nodes, pools or none; "": nodes

	Log *slog.Logger // nil: the default logger
}

// DefaultIssuer is the issuer of service account tokens.
const DefaultIssuer = token.Issuer

// DefaultNodeGrace is the silence after which a node is not ready.
const DefaultNodeGrace = 50 * time.Second

// DefaultServiceCIDRs are the ranges of cluster IPs.
func DefaultServiceCIDRs() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}
}

// EtcdTLS names the files of a client of an external etcd.
type EtcdTLS struct{ CA, Cert, Key string }

// Check says what in a configuration can't be meant, before anything is made of it: a strict.Wrong. CheckFiles looks into the files that
// it names; Start does both.
func (c Config) Check() error {
	_, err := c.withDefaults()
	return strict.Refuse(err)
}

// withDefaults fills in and checks.
func (c Config) withDefaults() (Config, error) {
	if c.Store == "" {
		c.Store = StoreEtcd
		if c.DataDir == "" && len(c.EtcdServers) == 0 {
			c.Store = StoreMemory
		}
	}
	if c.Explains != nil {
		c.NoLoops, c.NoTrail, c.Controllers = true, true, nil
	}
	if c.Listen == "" {
		c.Listen = "127.0.0.1:0"
	}
	if c.Node == "" {
		c.Node = NodeNone
	}
	if c.NodeDir == "" {
		c.NodeDir = c.DataDir
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.ManifestsDir == "" && c.DataDir != "" {
		c.ManifestsDir = filepath.Join(c.DataDir, "manifests")
	}
	if c.GitDir == "" && c.DataDir != "" {
		c.GitDir = filepath.Join(c.DataDir, "git")
	}
	if err := c.refuse(); err != nil {
		return c, err
	}
	if err := c.Together.fill(c); err != nil {
		return c, err
	}
	if err := c.Snapshots.fill(c.DataDir); err != nil {
		return c, err
	}
	if err := c.settle(); err != nil {
		return c, err
	}
	return c, c.check()
}

// refuse says what can't be, of stores, nodes and what the program was not built with.
func (c *Config) refuse() error {
	switch {
	case c.Store != StoreEtcd && c.Store != StoreMemory:
		return fmt.Errorf("store %q: use etcd or memory", c.Store)
	case c.Store == StoreEtcd && c.DataDir == "" && len(c.EtcdServers) == 0:
		return errors.New("the etcd store needs a data directory")
	case c.Store == StoreMemory && len(c.EtcdServers) > 0:
		return errors.New("the memory store and etcd servers exclude each other")
	case c.Node != NodeAuto && c.Node != NodeReal && c.Node != NodeNone:
		return fmt.Errorf("node %q: use auto, real or none", c.Node)
	case c.Node != NodeNone && c.NodeDir == "":
		return errors.New("a node of its own needs a directory: NodeDir or DataDir")
	case c.GitSources && c.GitDir == "":
		return errors.New("copies of Git repositories need a directory: GitDir or DataDir")
	case c.SimNodes < 0:
		return fmt.Errorf("%d simulated nodes: can't be negative", c.SimNodes)
	case c.SimNodes > 0 && c.Kit.Nodes == nil:
		return errors.New("this program has no simulated nodes (cluster.Config.Kit)")
	case c.GitSources && c.Kit.Sources == nil:
		return errors.New("this program reads no Git sources (cluster.Config.Kit)")
	case c.EncryptionConfig != "" && c.Kit.Sealed == nil:
		return errors.New("this program encrypts nothing at rest (cluster.Config.Kit)")
	case c.Store == StoreEtcd && c.Kit.Etcd == nil:
		return errors.New("this program has no store that outlives it (cluster.Config.Kit): keep all in memory")
	}
	return nil
}
