// Package proxy does the work of kube-proxy: it turns Services into rules of the kernel, so that connections to a cluster IP, node
// port, external or load balancer address go to one of the service's endpoints.
//
//	reads   Services, EndpointSlices, ServiceCIDRs, the node's own Node
//	writes  the nftables tables "ip kloop" and "ip6 kloop" of the network namespace that it runs in; UDP flows of conntrack;
//	        in mode ipvs virtual servers and the interface kube-ipvs0, and the node's condition IPVSUnavailable
//	rule    every address of every service leads to the endpoints that its policies allow, and what leads nowhere is refused
//
// A service is a pure function of its objects (service.go), a handful of elements of a constant number of maps (elements.go), which
// constant chains look up (layout.go, layout_pick.go). What changed goes to the kernel as one transaction (kernel.go). What was done is
// remembered only as long as the kernel says that nobody else touched its filter; otherwise, and at the start, the table is listed and
// mended, whatever is in it.
//
// In mode ipvs the same plan has two programmers: the tables decide who may come in and with which source, and virtual servers
// (servers.go, director.go) choose the endpoint. What the kernel lacks for it is said (mode.go), and the tables do all meanwhile.
package proxy

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
)

// Config says whose services to program.
type Config struct {
	Client  client.Client
	Node    string         // name of this node, for policies that prefer or demand local endpoints
	Address netip.Addr     // of this node, while its Node object names none
	Pods    []netip.Prefix // addresses of this node's pods, while its Node object names none
	Log     *slog.Logger
	Events  *client.Recorder // nil: none

	Services []netip.Prefix // ranges of cluster IPs while the cluster has no ServiceCIDR; none: 10.96.0.0/16

	// NodePortAddresses are the addresses at which node ports are served: ranges, or Primary, which stands for the node's internal
	// addresses and is the default. Never those of the loopback.
	NodePortAddresses []string

	Mode string        // ModeIPVS, or "": nftables alone, which also serves while the kernel has no IPVS
	IPVS IPVS          // of ModeIPVS
	Self client.Client // as the node, which tells on its Node whether ModeIPVS is possible; nil: nowhere
	ipvs bool          // it is in force

	Healthz string // host:port at which the proxy says that it works; "": nowhere
}

// settle is the pause in which the loop waits for more changes before it writes rules: a rollout changes many endpoints at
// once. retry is the pause after the kernel refused.
const (
	settle = 20 * time.Millisecond
	retry  = 5 * time.Second
)

// Run keeps the rules in step until ctx ends, and leaves them: connections go on while the process restarts. ready
// is called when the first rules are in place.
func Run(ctx context.Context, cfg Config, ready func()) error {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // what listens beside the loop ends with it
	l, err := newLoop(ctx, cfg)
	if err != nil {
		return err
	}
	defer l.close()
	if cfg.Healthz != "" {
		h := &healthz{cfg: &l.cfg, rules: &l.health.rules, ipvs: &l.health.ipvs}
		go h.serve(ctx, cfg.Healthz)
		go h.serve(ctx, net.JoinHostPort("127.0.0.1", localPort))
	}
	return l.run(ctx, ready)
}

// key names a service.
type key = types.NamespacedName
