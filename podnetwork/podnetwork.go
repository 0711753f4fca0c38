// Package podnetwork is the pod network: every pod reaches every other, on whatever machine, at its own address.
//
//	reads   Nodes: the ranges of their pods, their addresses, their keys; links, addresses, routes and neighbours of the kernel
//	writes  routes of the protocol Protocol, the links Tunnel and Secret and all that is on them, the nftables tables kloop-pods, addresses
//	        of the bridge cni0; the CNI configuration; Node: the conditions NetworkUnavailable and PodNetworkPeersSilent, and the key, of
//	        this one
//	rule    a packet to another node's range goes to that node: by a plain route where both are on one link, in a VXLAN tunnel
//	        elsewhere, and with ModeWireGuard encrypted or not at all; a packet to no pod leaves with the address of the node (masquerade),
//	        every other one keeps its source, as the Kubernetes network model wants
//
// What is wanted follows from the Nodes and from how the kernel would reach their addresses (plan, pure). What is there is read from the
// kernel at every pass: routes are known to be ours by their protocol, everything else by its link. Nothing is remembered. A node that is
// not ready keeps its routes, for its pods may live; only a Node that is gone loses them.
package podnetwork

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/nft"
	"github.com/kloop-dev/kloop/podnetwork/wireguard"
	"github.com/kloop-dev/kloop/resource"
)

// Config says which node this is and what its machine looks like.
type Config struct {
	Client client.Client // reads all Nodes
	Self   client.Client // writes the condition of the own Node; nil: nobody does
	Node   string
	Mode   string // ModeAuto, ModeVXLAN, ModeRoutes or ModeWireGuard; "": auto
	CNI    CNI

	KeyFile string // of ModeWireGuard: has the private key of this node, or will
	Log     *slog.Logger
}

// Ways to bring packets to another machine.
const (
	ModeAuto   = wellknown.NetworkAuto
	ModeVXLAN  = wellknown.NetworkVXLAN
	ModeRoutes = wellknown.NetworkRoutes

	ModeWireGuard = wellknown.NetworkWireGuard
)

const (
	retry   = 5 * time.Second        // after the kernel refused
	settle  = 20 * time.Millisecond  // for what else changes at the same moment
	resync  = time.Minute            // and then everything is compared again
	mending = 100 * time.Millisecond // at least this between two looks at a kernel that others change
	worry   = 5 * time.Second        // trouble that lasts so long stands in the Node's condition
)

// A loop is the running pod network. One goroutine owns it.
type loop struct {
	cfg    Config
	log    *slog.Logger
	kernel *kernel
	filter *nft.Conn

	census  census
	masked  [2][]netip.Prefix // the ranges that the masquerading rules of each family were made for
	said    map[string]bool   // notes that were logged
	since   time.Time         // when the present trouble began; zero: there is none
	trouble string
	public  wireguard.Key               // of this node, with ModeWireGuard
	silent  string                      // peers that don't answer
	waiting map[wireguard.Key]time.Time // since when a peer that does not answer should have
}

// Run keeps the network in step until ctx ends, and leaves it as it is then. ready is called after the first pass, whether or not the node
// has a range of addresses by then. The network is that of the thread that calls.
func Run(ctx context.Context, cfg Config, ready func()) error {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	k, err := openKernel(cfg.Log)
	if err != nil {
		return err
	}
	defer k.close()
	touched, err := watch(ctx, k)
	if err != nil {
		return err
	}
	filter, err := nft.Open()
	if err != nil {
		return err
	}
	defer filter.Close()
	flushed, err := nft.Watch(ctx)
	if err != nil {
		return err
	}
	l := &loop{cfg: cfg, log: cfg.Log, kernel: k, filter: filter, said: map[string]bool{}, waiting: map[wireguard.Key]time.Time{}}
	l.run(ctx, touched, flushed, ready)
	return nil
}

// run waits for changes of the Nodes and of the kernel, and makes a pass over all there is.
func (l *loop) run(ctx context.Context, touched, flushed <-chan struct{}, ready func()) {
	batches := make(chan client.Batch)
	go client.Follow(ctx, l.cfg.Client.Feed(kinds.Nodes), batches)
	tick := time.NewTicker(resync)
	defer tick.Stop()
	var read resource.Reader
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case b := <-batches:
			first := read == nil
			read = b.Read
			if now := newCensus(read, l.cfg.Node); !first && now.equal(l.census) && l.trouble == "" {
				continue
			}
			rest(ctx, settle)
		case <-touched:
			rest(ctx, mending)
			drain(touched)
		case <-flushed:
			if l.masks() {
				continue
			}
		case <-tick.C:
		case <-again:
		}
		if read == nil {
			continue
		}
		again = nil
		l.census = newCensus(read, l.cfg.Node)
		if wait := l.pass(ctx, read); wait > 0 {
			again = time.After(wait)
		}
		if ready != nil {
			ready()
			ready = nil
		}
	}
}

// pass observes, decides, acts and tells. wait > 0: look again then.
func (l *loop) pass(ctx context.Context, read resource.Reader) (wait time.Duration) {
	err := l.bring()
	trouble := l.census.trouble
	if err != nil {
		trouble, wait = err.Error(), retry
	} else {
		wait = l.ask()
	}
	switch {
	case trouble == "":
		l.since = time.Time{}
	case l.since.IsZero():
		l.since = time.Now()
	}
	if trouble != l.trouble && trouble != "" && l.census.own.ranges != nil { // a node that is new waits for its range: no news
		l.log.Warn("the pod network is not as it should be", "node", l.cfg.Node, "trouble", trouble)
	}
	l.trouble = trouble
	if left := worry - time.Since(l.since); trouble != "" && left > 0 {
		return min(max(wait, time.Millisecond), left) + time.Millisecond
	}
	if err := errors.Join(l.publish(ctx), l.tell(ctx, read)); err != nil && ctx.Err() == nil {
		l.log.Warn("write what the pod network says of the Node", "node", l.cfg.Node, "err", err)
		wait = retry
	}
	return wait
}

// bring brings the kernel and the CNI configuration to what is wanted.
func (l *loop) bring() error {
	if len(l.census.own.ranges) == 0 {
		return nil // there is no pod network without addresses, and the trouble says so
	}
	g, err := l.kernel.survey(l.census)
	if err != nil {
		return err
	}
	if l.cfg.Mode == ModeWireGuard && l.public == (wireguard.Key{}) {
		if l.public, err = l.kernel.takeKey(l.cfg.KeyFile); err != nil {
			return err
		}
	}
	g.public = l.public
	want, notes := plan(l.census, g, l.cfg.Mode)
	l.note(append(notes, obstacles()...))
	unmasked := l.masquerade()
	if unmasked != nil && l.cfg.Mode == ModeWireGuard { // something might leave that should be encrypted
		return unmasked
	}
	err = l.kernel.bring(want)
	l.listen(want)
	if unmasked != nil {
		return unmasked
	}
	// Last: with it pods may start. They may, too, when some other machine is not reached.
	return errors.Join(err, l.cfg.CNI.write(l.census.own.ranges, want.mtu))
}

// note logs what is odd but not wrong, once.
func (l *loop) note(notes []string) {
	for _, n := range notes {
		if !l.said[n] {
			l.log.Warn("the pod network", "note", n)
		}
	}
	for n := range l.said {
		if !slices.Contains(notes, n) {
			delete(l.said, n)
		}
	}
	for _, n := range notes {
		l.said[n] = true
	}
}

func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func drain(c <-chan struct{}) {
	select {
	case <-c:
	default:
	}
}
