package podnetwork

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/internal/eventually"
	"github.com/kloop-dev/kloop/test/netspace"
)

// A plot is a cluster's addresses: of its machines and of its pods, of one family or both.
type plot struct {
	name           string
	machines, pods []string // families, "4" or "6"
}

// machineAddr is the address of machine i, of which the last is behind the router: machine 9 is the router on lan 1, machine 10 on lan 2.
func machineAddr(family string, i int) (ip, length string) {
	lan := 1
	if i == 2 || i == 10 {
		lan = 2
	}
	if family == "4" {
		return fmt.Sprintf("192.0.%d.%d", lan, i+1), "/24"
	}
	return fmt.Sprintf("2001:db8:%d::%x", lan, i+1), "/64"
}

func podRange(family string, i int) (cidr, gateway, ip, length string) {
	if family == "4" {
		return fmt.Sprintf("10.88.%d.0/24", i), fmt.Sprintf("10.88.%d.1", i), fmt.Sprintf("10.88.%d.5", i), "/24"
	}
	return fmt.Sprintf("fd88:0:0:%x::/64", i+1), fmt.Sprintf("fd88:0:0:%x::1", i+1), fmt.Sprintf("fd88:0:0:%x::5", i+1), "/64"
}

func everywhere(family string) string {
	if family == "4" {
		return "0.0.0.0/0"
	}
	return "::/0"
}

// lay makes the machines of a plot, two on one link and one behind a router, runs the pod network on each, and gives each a pod.
func lay(t *testing.T, p plot, mode string) (boxes []*box, router netspace.Space) {
	t.Helper()
	router = netspace.New(t)
	router.Do(t, func() error {
		for i, lan := range []string{"lan1", "lan2"} {
			if err := bridge(lan); err != nil {
				return err
			}
			for _, f := range p.machines {
				ip, length := machineAddr(f, 9+i)
				if err := give(lan, ip+length); err != nil {
					return err
				}
			}
		}
		for _, knob := range []string{"ipv4/ip_forward", "ipv6/conf/all/forwarding"} {
			if err := os.WriteFile("/proc/sys/net/"+knob, []byte("1"), 0o644); err != nil {
				return err
			}
		}
		return nil
	})
	var all nodes
	for i, name := range []string{"a", "b", "c"} {
		dir := t.TempDir()
		b := &box{Space: netspace.New(t), t: t, name: name, key: filepath.Join(dir, "key"),
			conf: filepath.Join(dir, "net.d", "10-kloop.conflist")}
		lan := []string{"lan1", "lan1", "lan2"}[i]
		wire(t, b.Space, "eth0", router, "to-"+name, lan, 1500)
		n := node(name, "")
		for _, f := range p.machines {
			ip, length := machineAddr(f, i)
			gateway, _ := machineAddr(f, map[string]int{"lan1": 9, "lan2": 10}[lan])
			b.Do(t, func() error {
				if err := give("eth0", ip+length); err != nil {
					return err
				}
				return via("eth0", everywhere(f), gateway)
			})
			n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip})
		}
		for _, f := range p.pods {
			cidr, _, _, _ := podRange(f, i)
			n.Spec.PodCIDRs = append(n.Spec.PodCIDRs, cidr)
		}
		boxes, all = append(boxes, b), append(all, n)
	}
	for i, b := range boxes {
		b.start(mode, all)
		b.populate(t, p, i)
	}
	if mode == ModeWireGuard {
		exchange(t, boxes, all)
	}
	return boxes, router
}

// populate gives the machine a pod with an address of each family, as the bridge plugin does.
func (b *box) populate(t *testing.T, p plot, i int) {
	const mtu = 1420 // what fits into a tunnel of either family
	b.pod = netspace.New(t)
	b.Do(t, func() error { return bridge(Bridge) })
	wire(t, b.pod, "eth0", b.Space, fmt.Sprintf("veth%d", i), Bridge, mtu)
	for _, f := range p.pods {
		_, gateway, ip, length := podRange(f, i)
		b.Do(t, func() error { return give(Bridge, gateway+length) })
		b.pod.Do(t, func() error {
			if err := give("eth0", ip+length); err != nil {
				return err
			}
			return via("eth0", everywhere(f), gateway)
		})
	}
}

// TestFamilies: what TestSite says holds in clusters of IPv6 alone and of both families, whichever the machines have: every packet
// below is a real one. Pods' packets to machines leave with the node's address where no pod network has a route back.
func TestFamilies(t *testing.T) {
	for _, p := range []plot{{"IPv6 alone", []string{"6"}, []string{"6"}}, {"both", []string{"4", "6"}, []string{"4", "6"}},
		{"both, IPv6 first", []string{"6", "4"}, []string{"6", "4"}}, {"both over IPv4", []string{"4"}, []string{"4", "6"}},
		{"both over IPv6", []string{"6"}, []string{"6", "4"}}} {
		for _, mode := range []string{ModeAuto, ModeVXLAN} {
			t.Run(p.name+" "+mode, func(t *testing.T) { walk(t, p, mode) })
		}
	}
}

func walk(t *testing.T, p plot, mode string) {
	boxes, router := lay(t, p, mode)
	for _, b := range boxes {
		serve(t, b.pod, ":80")
		serve(t, b.Space, ":81")
	}
	serve(t, router, ":82")
	for i, from := range boxes {
		for _, f := range p.pods {
			_, _, own, _ := podRange(f, i)
			for j, to := range boxes {
				_, _, ip, _ := podRange(f, j)
				at := net.JoinHostPort(ip, "80")
				eventually.True(t, "the pod on "+to.name+" is not reached at "+at, func() bool { _, err := ask(from.pod, at); return err == nil })
				if seen, err := ask(from.pod, at); err != nil || seen != own {
					t.Errorf("pod on %s to %s: seen as %q, %v; want %s", from.name, at, seen, err, own)
				}
				if seen, err := ask(from.Space, at); err != nil {
					t.Errorf("%s to the pod at %s: seen as %q, %v", from.name, at, seen, err)
				}
			}
		}
		for _, f := range p.machines {
			if !strings.Contains(strings.Join(p.pods, ""), f) {
				continue
			}
			as, _ := machineAddr(f, i)
			gateway, _ := machineAddr(f, 9)
			if seen, err := ask(from.pod, net.JoinHostPort(gateway, "82")); err != nil || seen != as {
				t.Errorf("pod on %s to the router: seen as %q, %v; want %s", from.name, seen, err, as)
			}
			for j, to := range boxes {
				ip, _ := machineAddr(f, j)
				if _, err := ask(from.pod, net.JoinHostPort(ip, "81")); err != nil {
					t.Errorf("pod on %s to %s at %s: %v", from.name, to.name, ip, err)
				}
			}
		}
	}
	for _, f := range p.pods {
		cidr, _, _, _ := podRange(f, 1)
		want := Tunnel
		if mode == ModeWireGuard {
			want = Secret
		}
		if mode == ModeAuto && strings.Contains(strings.Join(p.machines, ""), f) {
			want = "eth0" // of a family that the machines have, and on one link
		}
		if got := routes(t, boxes[0])[netip.MustParsePrefix(cidr).String()]; got != want {
			t.Errorf("the route to %s leads to %q, want %q", cidr, got, want)
		}
	}
}

// TestAnotherWay: a route of each family goes over from the link to the tunnel and back while the other machines stand.
func TestAnotherWay(t *testing.T) {
	p := plot{"both", []string{"4", "6"}, []string{"4", "6"}}
	boxes, _ := lay(t, p, ModeAuto)
	var all nodes
	for i, b := range boxes {
		n := node(b.name, "")
		for _, f := range p.machines {
			ip, _ := machineAddr(f, i)
			cidr, _, _, _ := podRange(f, i)
			n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip})
			n.Spec.PodCIDRs = append(n.Spec.PodCIDRs, cidr)
		}
		all = append(all, n)
	}
	for _, next := range []struct{ mode, link string }{{ModeAuto, "eth0"}, {ModeVXLAN, Tunnel}, {ModeAuto, "eth0"}} {
		boxes[0].stop()
		boxes[0].start(next.mode, all)
		for _, f := range p.pods {
			cidr, _, _, _ := podRange(f, 1)
			eventually.True(t, "the route to "+cidr+" leads not to "+next.link, func() bool {
				return routes(t, boxes[0])[netip.MustParsePrefix(cidr).String()] == next.link
			})
		}
	}
}
