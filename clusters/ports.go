package clusters

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Port is a TCP port of the machine that leads to one of a node.
type Port struct {
	Address netip.Addr // of the machine; default: 127.0.0.1
	Host    uint16
	Node    int    // the first is 1
	Port    uint16 // of the node: a host port or a node port
}

// ParsePort reads [ADDRESS:]PORT:NODEPORT[@NODE].
func ParsePort(text string) (p Port, err error) {
	bad := fmt.Errorf("%q is no mapping of a port: use [ADDRESS:]PORT:NODEPORT[@NODE], as 8080:30080 or 0.0.0.0:443:443@2", text)
	p = Port{Address: netip.AddrFrom4([4]byte{127, 0, 0, 1}), Node: 1}
	rest, node, named := strings.Cut(text, "@")
	if named {
		if p.Node, err = strconv.Atoi(node); err != nil || p.Node < 1 {
			return p, bad
		}
	}
	rest, port, ok := cutLast(rest, ":")
	if !ok {
		return p, bad
	}
	if address, host, ok := cutLast(rest, ":"); ok {
		if p.Address, err = netip.ParseAddr(strings.Trim(address, "[]")); err != nil {
			return p, bad
		}
		rest = host
	}
	if p.Host, ok = number(rest); !ok {
		return p, bad
	}
	if p.Port, ok = number(port); !ok {
		return p, bad
	}
	return p, nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

func number(text string) (uint16, bool) {
	n, err := strconv.ParseUint(text, 10, 16)
	return uint16(n), err == nil && n > 0
}

// String writes the form that ParsePort reads.
func (p Port) String() string {
	return fmt.Sprintf("%s:%d@%d", netip.AddrPortFrom(p.Address, p.Host), p.Port, p.Node)
}

func (p Port) check(c *Cluster) error {
	switch {
	case c.Simulated:
		return errors.New("simulated nodes have no ports that anything could lead to")
	case p.Node > c.Nodes:
		return fmt.Errorf("port %d leads to node %d, and there are %d", p.Host, p.Node, c.Nodes)
	}
	return nil
}

// How many connections one port carries at once, and how long it waits for the node.
const (
	mostConnections = 1024
	dialPatience    = 10 * time.Second
)

// carry passes the connections of a listener on to an address until ctx ends, and then ends them.
func carry(ctx context.Context, l net.Listener, to string) {
	var all sync.WaitGroup
	defer all.Wait()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	seats := make(chan struct{}, mostConnections)
	for {
		select {
		case seats <- struct{}{}:
		case <-ctx.Done():
			return
		}
		in, err := l.Accept()
		if ctx.Err() != nil {
			if in != nil {
				_ = in.Close()
			}
			return
		}
		if err != nil { // too many open files: others will close some
			<-seats
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		all.Go(func() {
			defer func() { <-seats }()
			join(ctx, in, to)
		})
	}
}

// join copies both ways until both have ended.
func join(ctx context.Context, in net.Conn, to string) {
	defer in.Close()
	d := net.Dialer{Timeout: dialPatience}
	out, err := d.DialContext(ctx, "tcp", to)
	if err != nil {
		return // who asked sees the connection end, as with any port behind which nobody listens
	}
	defer out.Close()
	defer context.AfterFunc(ctx, func() { _, _ = in.Close(), out.Close() })()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], way[1]) // an end that went away ends the copy
			if half, ok := way[0].(interface{ CloseWrite() error }); ok {
				_ = half.CloseWrite()
			}
		})
	}
	both.Wait()
}
