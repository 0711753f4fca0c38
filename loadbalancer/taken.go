package loadbalancer

import (
	"bufio"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/resource"
)

const (
	lookEvery = 5 * time.Second // programs begin to listen without a word to us
	mostPorts = 512             // in the annotation; a machine that listens on more is not one to lend its ports
	mostLines = 100_000         // of a table of sockets
)

// Ports says which node tells its taken ports.
type Ports struct {
	Client client.Client // reads Services, the node's own Node and pods
	Node   string
	Off    bool // another program serves services here: the node lends no addresses, and takes back that it did
	Log    *slog.Logger
	files  string // directory of the tables of sockets; "": this network namespace's
}

// Tell keeps the annotation of the own Node at the ports on which its programs listen, and those of its pods' hostPorts, until ctx
// ends. Without a Service of type LoadBalancer in the cluster it says nothing and looks at nothing.
func (p Ports) Tell(ctx context.Context) error {
	p.files = cmp.Or(p.files, "/proc/thread-self/net")
	batches := make(chan client.Batch)
	go client.Follow(ctx, p.Client.Feed(kinds.Services, kinds.Nodes, kinds.Pods), batches)
	for again := time.Duration(0); ; {
		var tick <-chan time.Time
		if again > 0 {
			tick = time.After(again)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-batches:
		case <-tick:
		}
		var err error
		if again, err = p.look(ctx); err != nil {
			p.Log.Warn("tell which ports of the node are taken", "again", again, "err", err)
		}
	}
}

// look writes the annotation where it says something else; again is the pause until the next look, 0: after a change.
func (p Ports) look(ctx context.Context) (again time.Duration, err error) {
	read := p.Client.Read()
	n := resource.Get(read, kinds.Nodes, "", p.Node)
	if n == nil {
		return 0, nil
	}
	now, there := n.Annotations[wellknown.TakenPortsAnnotation]
	switch {
	case p.Off && there:
		return lookEvery, p.annotate(ctx, nil)
	case p.Off || !anyBalanced(read):
		return 0, nil
	}
	list, err := p.taken(read, n)
	if err != nil {
		return lookEvery, err
	}
	value := strings.Join(list, ",")
	if there && now == value {
		return lookEvery, nil
	}
	return lookEvery, p.annotate(ctx, value)
}

// annotate writes the annotation; nil: it goes.
func (p Ports) annotate(ctx context.Context, value any) error {
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{wellknown.TakenPortsAnnotation: value}}})
	if err != nil {
		return err
	}
	_, err = p.Client.Patch(ctx, kinds.Nodes, "", p.Node, client.Patch{Type: types.MergePatchType, Data: data})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func anyBalanced(read resource.Reader) bool {
	for obj := range read.Each(kinds.Services, "") {
		if resource.As[*corev1.Service](obj).Spec.Type == corev1.ServiceTypeLoadBalancer {
			return true
		}
	}
	return false
}

// taken lists the ports, sorted.
func (p Ports) taken(read resource.Reader, n *corev1.Node) ([]string, error) {
	own := map[netip.Addr]bool{}
	for _, a := range n.Status.Addresses {
		if ip, err := netip.ParseAddr(a.Address); err == nil {
			own[ip] = true
		}
	}
	set := map[string]bool{}
	short := ephemeral()
	for _, t := range []struct {
		name, proto, state string
		below              uint16 // ports from here on are lent to clients
	}{{"tcp", "TCP", "0A", 0}, {"tcp6", "TCP", "0A", 0}, {"udp", "UDP", "07", short}, {"udp6", "UDP", "07", short}} {
		f, err := os.Open(filepath.Join(p.files, t.name))
		if errors.Is(err, os.ErrNotExist) {
			continue // a kernel without IPv6
		} else if err != nil {
			return nil, err
		}
		found, err := sockets(f, t.state)
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", f.Name(), err)
		}
		for _, a := range found {
			if (a.Addr().IsUnspecified() || own[a.Addr()]) && (t.below == 0 || a.Port() < t.below) {
				set[strconv.Itoa(int(a.Port()))+"/"+t.proto] = true
			}
		}
	}
	for _, pod := range resource.Where(read, kinds.Pods, "spec.nodeName", p.Node) {
		for _, c := range pod.Spec.Containers {
			for _, hp := range c.Ports {
				if hp.HostPort != 0 && !core.Terminal(pod) {
					set[strconv.Itoa(int(hp.HostPort))+"/"+string(cmp.Or(hp.Protocol, corev1.ProtocolTCP))] = true
				}
			}
		}
	}
	var list []string
	for s := range set {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	return list[:min(len(list), mostPorts)], nil
}

// ephemeral is the first port that the kernel lends to clients.
func ephemeral() uint16 {
	data, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if fields := strings.Fields(string(data)); err == nil && len(fields) == 2 {
		if low, err := strconv.ParseUint(fields[0], 10, 16); err == nil {
			return uint16(low)
		}
	}
	return 32768
}

// sockets are the local addresses of the sockets in a state, as the kernel's table in /proc/net has them.
func sockets(r io.Reader, state string) (list []netip.AddrPort, err error) {
	lines := bufio.NewScanner(r)
	for n := 0; lines.Scan() && n < mostLines; n++ {
		f := strings.Fields(lines.Text())
		if len(f) < 4 || f[3] != state {
			continue
		}
		host, portText, _ := strings.Cut(f[1], ":")
		raw, err := hex.DecodeString(host)
		number, perr := strconv.ParseUint(portText, 16, 16)
		if err != nil || perr != nil {
			continue
		}
		for word := range slices.Chunk(raw, 4) { // each in the machine's order, which is little-endian where kloop runs
			slices.Reverse(word)
		}
		if a, ok := netip.AddrFromSlice(raw); ok {
			list = append(list, netip.AddrPortFrom(a.Unmap(), uint16(number)))
		}
	}
	return list, lines.Err()
}
