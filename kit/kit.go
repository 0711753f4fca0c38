// Package kit says what a control plane is made of beside its API: the loops, simulated nodes, the store that outlives the process, and
// the connection to plugins that keep keys. main hands it to package cluster, so that a program links only what it uses. Package
// kit/whole has all of it.
package kit

import (
	"context"
	"crypto/x509"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/controllers/namespace"
	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/history"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/metrics/usage"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/server/httpapi/stream"
	"github.com/kloop-dev/kloop/store"
	"github.com/kloop-dev/kloop/store/member"
	"github.com/kloop-dev/kloop/trail"
	"github.com/kloop-dev/kloop/webhook"
)

// A Kit holds the parts of a program. It can't do what is nil, and says so when the configuration asks for it.
type Kit struct {
	// Kinds returns the built-in kinds that are served, if the configuration does not say otherwise: kinds.All, or fewer.
	Kinds func() []resource.Kind
	// Loops returns the loops of a cluster in the order in which they start. It is asked once more when this server is elected.
	Loops func(Cluster) ([]Entry, error)
	// Sources returns the loops that apply what lies outside of the cluster.
	Sources func(Sources) []Source
	Nodes   *Simulation
	Etcd    member.Opener
	// Plugins returns the built-in plugins of admission: plugins.All, or admission.General.
	Plugins func(admission.Config) admission.Chain
	// Admission are plugins of the program's own; they come last.
	Admission admission.Chain
	Streams   func(stream.Config) stream.Server                         // into pods, and to nodes and services: stream.New
	Profiles  func(w http.ResponseWriter, r *http.Request, name string) // of the process
	Explain   converge.Rules                                            // for what is not as it should be
	// Agents decides what agents of nodes may do; nil: there are none.
	Agents func(read func() resource.Reader) auth.Authorizer
	// Extensions returns those of the front door for what needs nodes, as workload.All; nil: there are none.
	Extensions func(*server.Server) []server.Extension
	// Evictions makes the body of an eviction, as workload.Eviction; nil: pods are not evicted.
	Evictions func() resource.Object
	// Ways lead to the servers that kubeconfigs of the configuration name: webhook.Kubeconfigs. The zero value: it names none.
	Ways webhook.Ways
	// Remote and Raw make clients of other servers, or over HTTP of this one: client.NewRemote, client.Raw; nil: none are needed.
	Remote func(cfg *rest.Config, set *resource.Set, agent string, sources ...client.Source) (*client.Remote, error)
	Raw    func(cfg *rest.Config) (rest.Interface, error)
	// HTTP2 has connections to servers behind APIServices speak HTTP/2: http2.ConfigureTransport; nil: net/http's own does.
	HTTP2 func(*http.Transport) error
	// Attached tells of the volumes that are to be attached to nodes, and of those that are: attachdetach.Count; nil: there are none.
	Attached func(read resource.Reader, add func(plugin, state string))
	// Labels tells of pods that want one volume with different labels of SELinux: selinuxwarning.Count; nil: of none.
	Labels func(read resource.Reader, add func(labels [7]string))
	// Meter makes what answers metrics.k8s.io; nil: that API is not served.
	Meter func(MeterConfig) Meter
	News  trail.News // how workloads changed; nil: there are none
	// Sealed makes a store that encrypts what lies in another one, by an EncryptionConfiguration; of says which resource a key is of.
	Sealed func(below store.Store, data []byte, of func(key string) schema.GroupResource) (Sealed, error)
}

// A Meter answers what nodes and pods use. It is safe for concurrent use.
type Meter interface {
	Kinds() []resource.Kind
	// Objects is a server.Compute of those kinds.
	Objects(ctx context.Context, k resource.Kind, ns, name string) ([]resource.Object, error)
	Run(ctx context.Context) // until ctx ends
}

// A MeterConfig has what a Meter stands on.
type MeterConfig struct {
	Read func() resource.Reader
	// Ask reads one node's counts. It is called concurrently.
	Ask func(ctx context.Context, n *corev1.Node) (*usage.Summary, error)
	Log *slog.Logger
}

// A Sealed is a store whose values are encrypted in the one below.
type Sealed interface {
	store.Store
	history.Cipher
	Configure(data []byte) error                         // by another EncryptionConfiguration
	Stale(ctx context.Context, key string) (bool, error) // the value is not as it would be written now
	Remote() bool                                        // plugins have keys
	Healthy(ctx context.Context) error
}

// An Entry is a loop with the names that upstream knows it by.
type Entry struct {
	loop.Loop
	Account   string // service account in kube-system that it acts as
	Component string // source of its events
	Asked     bool   // it runs only if the configuration names it
}

// A Cluster tells the loops of the one that they keep.
type Cluster struct {
	Kinds            *resource.Set
	RootCA           []byte           // certificate of the cluster's CA, in PEM
	CA               CertSigner       //  signs certificate requests; nil: somebody else does
	Tokens           TokenSigner      // signs tokens of service accounts; nil: somebody else does
	NodeGrace        time.Duration    // silence after which a node counts as lost; 0: 50 s
	Others           namespace.Others // servers behind APIServices; nil: nobody empties them
	REST             rest.Interface   // the API as the autoscaler, for metrics of every kind; nil: there are none
	AutoscalerPeriod time.Duration    // how often autoscalers look; 0: 15 s
	DNS              []netip.Addr     // cluster IPs of the cluster DNS; none: agents serve none
	LoadBalancer     string           // where Services of type LoadBalancer get their addresses: nodes, pools or none; "": nodes
	LocalStorage     bool             // volumes on nodes' disks, and a default class of them
	Snapshots        bool             // the kinds of VolumeSnapshots are defined
	Pods             []Pool           // ranges that nodes get their pod addresses from, one of each family; none: nodes have their own
	Scheduler        []byte           // upstream's KubeSchedulerConfiguration; nil: the default profile
	Figures          *loop.Figures    // what loops count; nil: nobody asks
}

// A CertSigner is an authority for certificates.
type CertSigner interface {
	// SignRequest signs a request for life at most and returns the certificate in PEM.
	SignRequest(req *x509.CertificateRequest, usage x509.KeyUsage, ext []x509.ExtKeyUsage, life time.Duration, now time.Time) ([]byte,
		error)
}

// A TokenSigner makes the token of a service account that lies in a Secret.
type TokenSigner interface {
	Secret(sa *corev1.ServiceAccount, secret string) (string, error)
}

// A Pool is a range of pod addresses that is cut into ranges for nodes.
type Pool struct {
	Range netip.Prefix
	Bits  int // length of a node's prefix, at most 16 more than the range's
}

// Sources says what is applied from outside.
type Sources struct {
	Manifests string // directory; "": none
	Server    string // tells this server from others with such a directory
	Git       bool   // there are GitSources
	GitDir    string // of their copies
	// Health returns a judge of the present state: it says what differs between an object and what it should be, "" for nothing.
	Health func() func(k resource.Kind, obj resource.Object) string
}

// A Source is a loop that applies what lies outside.
type Source struct {
	loop.Loop
	Manager string                                     // of the fields that it writes
	First   func(context.Context, client.Client) error // must succeed before it runs; nil: nothing
}

// A Simulation is of nodes and of the pods on them.
type Simulation struct {
	// Make makes n simulated nodes.
	Make func(ctx context.Context, c client.Client, n int) error
	// Loops returns what keeps them and their pods, with pod addresses of a range, or of one of each family; none means 10.128.0.0/9.
	Loops func(pods ...netip.Prefix) []loop.Loop
	// Use sums up what a simulated node's pods say that they use.
	Use func(read resource.Reader, node string, now time.Time) *usage.Summary
}
