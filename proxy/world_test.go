package proxy

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/nft"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/test/need"
)

// world is a cluster's state, written by a test.
type world struct {
	resource.Reader
	services map[key]*corev1.Service
	slices   map[key][]*discoveryv1.EndpointSlice // by service
	others   map[resource.Kind][]resource.Object
}

func newWorld() *world {
	return &world{services: map[key]*corev1.Service{}, slices: map[key][]*discoveryv1.EndpointSlice{},
		others: map[resource.Kind][]resource.Object{}}
}

func (w *world) Lookup(k resource.Kind, ns, name string) resource.Object {
	if k == kinds.Services {
		if s := w.services[key{Namespace: ns, Name: name}]; s != nil {
			return s
		}
		return nil
	}
	for _, o := range w.others[k] {
		if o.GetName() == name {
			return o
		}
	}
	return nil
}

func (w *world) Each(k resource.Kind, _ string) iter.Seq[resource.Object] {
	return func(yield func(resource.Object) bool) {
		if k == kinds.Services {
			for _, s := range w.services {
				if !yield(s) {
					return
				}
			}
		}
		for _, o := range w.others[k] {
			if !yield(o) {
				return
			}
		}
	}
}

func (w *world) ByLabel(_ resource.Kind, ns, _, value string) iter.Seq[resource.Object] {
	return func(yield func(resource.Object) bool) {
		for _, s := range w.slices[key{Namespace: ns, Name: value}] {
			if !yield(s) {
				return
			}
		}
	}
}

// service puts a service in: TCP port 80 to 8080 at the cluster IP, which edit may change.
func (w *world) service(name, ip string, edit ...func(*corev1.Service)) key {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP,
		ClusterIP: ip, ClusterIPs: []string{ip}, Ports: []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 80}}}}
	for _, e := range edit {
		e(s)
	}
	n := key{Namespace: "d", Name: name}
	w.services[n] = s
	return n
}

// ends gives the service endpoints, each at an address and perhaps on a node: "10.1.0.1:8080 n1 zone=a".
func (w *world) ends(name string, list ...discoveryv1.Endpoint) {
	n := key{Namespace: "d", Name: name}
	w.slices[n] = nil
	port := int32(8080)
	for _, family := range []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6} {
		meta := metav1.ObjectMeta{Namespace: "d", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}}
		s := &discoveryv1.EndpointSlice{ObjectMeta: meta, AddressType: family}
		for _, p := range w.services[n].Spec.Ports {
			s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: &p.Name, Protocol: &p.Protocol, Port: &port})
		}
		for _, e := range list {
			if netip.MustParseAddr(e.Addresses[0]).Is4() == (family == discoveryv1.AddressTypeIPv4) {
				s.Endpoints = append(s.Endpoints, e)
			}
		}
		w.slices[n] = append(w.slices[n], s)
	}
}

// at is a ready endpoint.
func at(ip string, edit ...func(*discoveryv1.Endpoint)) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{Addresses: []string{ip}}
	for _, f := range edit {
		f(&e)
	}
	return e
}

func onNodeNamed(name string) func(*discoveryv1.Endpoint) {
	return func(e *discoveryv1.Endpoint) { e.NodeName = &name }
}

func terminating(e *discoveryv1.Endpoint) {
	yes, no := true, false
	e.Conditions = discoveryv1.EndpointConditions{Ready: &no, Serving: &yes, Terminating: &yes}
}

func unready(e *discoveryv1.Endpoint) {
	no := false
	e.Conditions = discoveryv1.EndpointConditions{Ready: &no, Serving: &no, Terminating: &no}
}

// ownNetwork puts the test's thread into a network namespace of its own, with addresses on its loopback that stand
// for pods and for this node. It needs root.
func ownNetwork(t testing.TB, addresses ...string) {
	t.Helper()
	need.BeRoot(t)
	runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
	need.Have(t, need.Root, unix.Unshare(unix.CLONE_NEWNET))
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		ip := netip.MustParseAddr(a)
		addr := &netlink.Addr{IPNet: &net.IPNet{IP: ip.AsSlice(), Mask: net.CIDRMask(ip.BitLen(), ip.BitLen())}, Flags: unix.IFA_F_NODAD}
		if err := netlink.AddrAdd(lo, addr); err != nil {
			t.Fatal(err)
		}
	}
}

// newProxy returns a loop on a world that is driven by hand.
func newProxy(t testing.TB, w *world, cfg Config) *loop {
	t.Helper()
	cfg.Log = slog.New(slog.DiscardHandler)
	if inIPVS {
		cfg.Mode = ModeIPVS
	}
	if cfg.Node == "" {
		cfg.Node, cfg.Address = "n1", netip.MustParseAddr("10.1.0.100")
	}
	l, err := newLoop(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.close)
	l.replan(w)
	return l
}

// sync has the loop take in the named services, or everything, and program the kernel.
func (l *loop) sync(t testing.TB, w *world, names ...key) {
	t.Helper()
	if len(names) == 0 {
		l.replan(w)
	}
	l.changed.merge(l.book.update(w, names...))
	l.rest = time.Time{}
	if _, err := l.act(); err != nil {
		t.Fatal(err)
	}
}

// inIPVS has all tests of this process use mode ipvs: those of a guest whose kernel has it.
var inIPVS bool

// holds checks that the kernel has what the book wants and nothing else.
func (l *loop) holds(t testing.TB) {
	t.Helper()
	l.serves(t)
	for i, k := range l.kernels {
		if !k.wanted(l.book) {
			continue
		}
		batches, _, err := k.repair(l.conn, l.book)
		if err != nil {
			t.Fatal(err)
		}
		// What is there already is only asked to be there: the table, its sets.
		fresh := nft.NewBatch(k.layout.table())
		fresh.AddTable()
		for s := range setCount {
			fresh.AddSet(set(s, i == 1))
		}
		more := -fresh.Len()
		for _, b := range batches {
			if !b.Empty() {
				more += b.Len()
			}
		}
		if more != 0 {
			t.Errorf("IPv6 %v: the kernel does not hold what the book wants: %d bytes of difference", i == 1, more)
		}
	}
}

// answer listens at addresses and says which.
func answer(t testing.TB, addresses ...string) {
	t.Helper()
	for _, at := range addresses {
		l, err := net.Listen("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
				fmt.Fprint(c, at, " ", host)
				c.Close()
			}
		}()
	}
}

// ask connects and returns who answered, and whom it saw as the client.
func ask(at string) (who, client string, err error) { return askFrom("", at) }

func askFrom(source, at string) (who, client string, err error) {
	d := net.Dialer{Timeout: time.Minute}
	if source != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(source)}
	}
	c, err := d.Dial("tcp", at)
	if err != nil {
		return "", "", err
	}
	defer c.Close()
	if _, err = fmt.Fscan(c, &who, &client); errors.Is(err, io.EOF) {
		err = nil
	}
	return who, client, err
}
