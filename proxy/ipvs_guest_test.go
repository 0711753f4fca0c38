//go:build linux

package proxy

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/ipvs"
	"github.com/kloop-dev/kloop/nft"
	"github.com/kloop-dev/kloop/test/vm"
)

// manyEnv names how many services the test of many has; 5000 take half a minute.
const manyEnv = "KLOOP_IPVS_SERVICES"

// filters are the modules of what the tables need.
var filters = []string{"veth", "nf_tables", "nft_chain_nat", "nft_ct", "nft_masq", "nft_numgen", "nft_reject_ipv4", "nft_reject_ipv6",
	"nft_fib_ipv4", "nft_fib_ipv6", "nft_nat", "nf_conntrack_netlink", "sctp"}

// schedulers are those that Debian's kernel has as modules.
var schedulers = []string{"rr", "wrr", "lc", "wlc", "lblc", "lblcr", "dh", "sh", "sed", "nq", "fo", "ovf", "mh"}

// TestIPVS has a kernel with IPVS serve services. What other tests hold for the tables holds for virtual servers too.
func TestIPVS(t *testing.T) {
	later := []string{"ip_vs", "dummy"}
	for _, s := range schedulers {
		later = append(later, "ip_vs_"+s)
	}
	if !vm.Run(t, vm.Config{Modules: filters, Later: later, Timeout: 5 * time.Minute,
		Env: []string{manyEnv + "=" + os.Getenv(manyEnv)}}) {
		return
	}
	t.Run("modules are missing", modulesMissing)
	inIPVS = true
	for _, tt := range []struct {
		name string
		test func(*testing.T)
	}{
		{"policies", TestPolicies},
		{"addresses", TestVirtualAddressIPVS},
		{"source ranges", TestSourceRanges},
		{"node address as balancer", TestNodeAddressAsBalancer},
		{"follows", TestKernelFollows},
		{"both families", bothFamilies},
		{"UDP", datagrams},
		{"SCTP", associations},
		{"affinity", affinityIPVS},
		{"schedulers", everyScheduler},
		{"its way", leavesAsOwn},
		{"ends with its connections", endsGracefully},
		{"ARP", answersARP},
		{"interface deleted", interfaceDeleted},
		{"many services", manyServers},
		{"modes", changesModes},
	} {
		began := time.Now()
		t.Run(tt.name, tt.test)
		t.Logf("%s: %s", tt.name, time.Since(began).Round(10*time.Millisecond))
	}
}

// serves checks that the kernel's virtual servers and addresses are those that the book wants.
func (l *loop) serves(t testing.TB) {
	t.Helper()
	d := l.mode.director
	if d == nil {
		if inIPVS {
			t.Fatalf("not in mode ipvs: %s", l.mode.problem)
		}
		return
	}
	must(t, d.observe())
	for k, v := range l.book.servers {
		h := d.held[k]
		if h == nil {
			t.Errorf("no virtual server %s", k)
			continue
		}
		var ends []netip.AddrPort
		for e, open := range h.ends {
			if open {
				ends = append(ends, e)
			}
		}
		slices.SortFunc(ends, netip.AddrPort.Compare)
		if !slices.Equal(ends, v.ends) || h.Scheduler != d.cfg.scheduler() {
			t.Errorf("%s has %v by %s, want %v", k, ends, h.Scheduler, v.ends)
		}
	}
	for k, h := range d.held {
		if _, wanted := l.book.servers[k]; !wanted && !d.ending[k] && len(h.ends) == 0 {
			t.Errorf("virtual server %s is still there", k)
		}
	}
	for a := range l.book.addresses() {
		if !d.dummy.have[a] {
			t.Errorf("%s has not %s", dummyName, a)
		}
	}
}

// interfaceDeleted has somebody delete the interface: it is made again with its addresses and what it tells, at a change as well as when
// everything is listed anew.
func interfaceDeleted(t *testing.T) {
	ownNetwork(t, nodeIP)
	w := newWorld()
	w.service("web", "10.96.0.12")
	w.ends("web", at(nodeIP))
	l := newProxy(t, w, Config{})
	l.sync(t, w)
	before, err := netlink.LinkByName(dummyName)
	must(t, err)
	for _, name := range []string{"at a change", "listed anew"} {
		link, err := netlink.LinkByName(dummyName)
		must(t, err)
		must(t, netlink.LinkDel(link))
		if name == "at a change" {
			more := w.service("more", "10.96.0.13")
			w.ends("more", at(nodeIP))
			l.changed.merge(l.book.update(w, more))
			if _, err := l.act(); err == nil {
				t.Error("an address of no interface was given")
			}
		}
		l.sync(t, w)
		after, err := netlink.LinkByName(dummyName)
		must(t, err)
		if after.Attrs().Alias != before.Attrs().Alias || !strings.HasPrefix(after.Attrs().Alias, ours) {
			t.Errorf("%s: it tells %q, before %q", name, after.Attrs().Alias, before.Attrs().Alias)
		}
		list, err := netlink.AddrList(after, netlink.FAMILY_V4)
		must(t, err)
		if len(list) != 2 {
			t.Errorf("%s: its addresses are %v", name, list)
		}
		l.serves(t)
	}
}

// virtualServers is the kernel's own list.
func virtualServers(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile("/proc/thread-self/net/ip_vs")
	must(t, err)
	return string(text)
}

func bothFamilies(t *testing.T) {
	ownNetwork(t, "10.1.0.1", "fd00::1", "fd00::2", "10.1.0.100")
	answer(t, "10.1.0.1:8080", "[fd00::1]:8080", "[fd00::2]:8080")
	w := newWorld()
	w.service("web", "10.96.0.12", func(s *corev1.Service) {
		s.Spec.ClusterIPs = append(s.Spec.ClusterIPs, "fd00:96::12")
		s.Spec.ExternalIPs = []string{"2001:db8::5"}
	})
	w.ends("web", at("10.1.0.1"), at("fd00::1"), at("fd00::2"))
	l := newProxy(t, w, Config{Services: prefixes([]string{"10.96.0.0/16", "fd00:96::/112"})})
	l.sync(t, w)
	l.holds(t)
	met := map[string]int{}
	for range 10 {
		for _, to := range []string{"10.96.0.12:80", "[fd00:96::12]:80", "[2001:db8::5]:80"} {
			who, _, err := ask(to)
			if err != nil {
				t.Fatalf("%s: %v", to, err)
			}
			met[who]++
		}
	}
	if met["10.1.0.1:8080"] != 10 || met["[fd00::1]:8080"] != 10 || met["[fd00::2]:8080"] != 10 {
		t.Errorf("met %v", met)
	}
	for _, to := range []string{"[fd00:96::12]:81", "[fd00:96::99]:80", "[2001:db8::5]:81"} {
		if got := outcome(ask(to)); got != "refused" {
			t.Errorf("%s: %s, want refused", to, got)
		}
	}
}

func datagrams(t *testing.T) { TestUDPFlows(t) }

// associations has both modes lead SCTP to a service's endpoints, from its cluster IPs and its node port.
func associations(t *testing.T) {
	ownNetwork(t, "10.1.0.1", "10.1.0.2", "10.1.0.100", "fd00::1", "fd00::100")
	for _, a := range []string{"10.1.0.1:8080", "10.1.0.2:8080", "[fd00::1]:8080"} {
		l := sctpListener(t, a)
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = c.Write([]byte(a)) // the client finds out
				c.Close()
			}
		}()
	}
	w := newWorld()
	w.service("calls", "10.96.0.12", func(s *corev1.Service) {
		s.Spec.Ports[0].Protocol, s.Spec.Ports[0].NodePort = corev1.ProtocolSCTP, 30080
		s.Spec.ClusterIPs = append(s.Spec.ClusterIPs, "fd00:96::12")
	})
	w.ends("calls", at("10.1.0.1"), at("10.1.0.2"), at("fd00::1"))
	defer func() { inIPVS = true }()
	for _, inIPVS = range []bool{true, false} {
		l := newProxy(t, w, Config{IPVS: IPVS{Scheduler: "rr"}, Services: prefixes([]string{"10.96.0.0/16", "fd00:96::/112"})})
		l.sync(t, w)
		l.holds(t)
		met := map[string]int{}
		for range 10 {
			for to, from := range map[string]string{"10.96.0.12:80": "10.1.0.100", "10.1.0.100:30080": "10.1.0.100",
				"[fd00:96::12]:80": "[fd00::100]"} {
				who, err := askSCTP(from, to)
				if err != nil {
					t.Fatalf("ipvs %v: %s: %v", inIPVS, to, err)
				}
				met[who]++
			}
		}
		if met["10.1.0.1:8080"] == 0 || met["10.1.0.2:8080"] == 0 || met["[fd00::1]:8080"] != 10 || len(met) != 3 {
			t.Errorf("ipvs %v: met %v", inIPVS, met)
		}
	}
}

// socketAddress is an address and a port as system calls take them, and their family.
func socketAddress(text string) (unix.Sockaddr, int) {
	a := netip.MustParseAddrPort(text)
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Addr: a.Addr().As4(), Port: int(a.Port())}, unix.AF_INET
	}
	return &unix.SockaddrInet6{Addr: a.Addr().As16(), Port: int(a.Port())}, unix.AF_INET6
}

func sctpSocket(from string, then func(fd int) error) (*os.File, error) {
	own, family := socketAddress(from)
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_SCTP)
	if err != nil {
		return nil, err
	}
	if err = unix.Bind(fd, own); err == nil {
		err = then(fd)
	}
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "sctp"), nil
}

func sctpListener(t *testing.T, at string) net.Listener {
	t.Helper()
	f, err := sctpSocket(at, func(fd int) error { return unix.Listen(fd, 16) })
	must(t, err)
	defer f.Close()
	l, err := net.FileListener(f) // a stream is a stream
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

// askSCTP connects from one address, not from all that the machine has, and returns who answered.
func askSCTP(from, to string) (string, error) {
	f, err := sctpSocket(from+":0", func(fd int) error {
		limit := unix.NsecToTimeval(int64(10 * time.Second))
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit); err != nil {
			return err
		}
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit); err != nil {
			return err
		}
		there, _ := socketAddress(to)
		return unix.Connect(fd, there)
	})
	if err != nil {
		return "", err
	}
	defer f.Close()
	buf := make([]byte, 64)
	n, err := unix.Read(int(f.Fd()), buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

func affinityIPVS(t *testing.T) {
	ownNetwork(t, "10.1.0.1", "10.1.0.2", "10.1.0.3", "10.1.0.100")
	answer(t, "10.1.0.1:8080", "10.1.0.2:8080", "10.1.0.3:8080")
	w := newWorld()
	name := w.service("web", "10.96.0.12", sticky(10800))
	w.ends("web", at("10.1.0.1"), at("10.1.0.2"))
	l := newProxy(t, w, Config{})
	l.sync(t, w)
	l.holds(t)
	stays := func() string {
		t.Helper()
		first, _, err := ask("10.96.0.12:80")
		must(t, err)
		for range 10 {
			if who, _, err := ask("10.96.0.12:80"); err != nil || who != first {
				t.Fatalf("first %s, then %s (%v)", first, who, err)
			}
		}
		return first
	}
	first := stays()
	if !strings.Contains(virtualServers(t), "persistent") {
		t.Errorf("not persistent:\n%s", virtualServers(t))
	}
	w.ends("web", at(netip.MustParseAddrPort(first).Addr().String()), at("10.1.0.3"))
	l.sync(t, w, name)
	if next := stays(); next != first {
		t.Errorf("first %s, then, with another beside it, %s", first, next)
	}
	w.ends("web", at("10.1.0.3"))
	l.sync(t, w, name)
	if next := stays(); next != "10.1.0.3:8080" {
		t.Errorf("its endpoint is gone: %s", next)
	}
	w.service("web", "10.96.0.12")
	l.sync(t, w, name)
	l.holds(t)
	if strings.Contains(virtualServers(t), "persistent") {
		t.Errorf("still persistent:\n%s", virtualServers(t))
	}
}

// everyScheduler changes the scheduler of what is there, as a restart with another setting does.
func everyScheduler(t *testing.T) {
	ownNetwork(t, "10.1.0.1", "10.1.0.2", "10.1.0.100")
	answer(t, "10.1.0.1:8080", "10.1.0.2:8080")
	w := newWorld()
	w.service("web", "10.96.0.12")
	w.ends("web", at("10.1.0.1"), at("10.1.0.2"))
	for _, s := range schedulers {
		must(t, vm.Load("ip_vs_"+s))
		l := newProxy(t, w, Config{IPVS: IPVS{Scheduler: s}})
		l.sync(t, w)
		l.holds(t)
		if !strings.Contains(virtualServers(t), " "+s+" ") {
			t.Errorf("%s is not set:\n%s", s, virtualServers(t))
		}
		if _, _, err := ask("10.96.0.12:80"); err != nil {
			t.Errorf("by %s: %v", s, err)
		}
	}
}

// leavesAsOwn holds what network policies count on (netpolicy/hook.go): what a virtual server leads to a pod passes the
// hook of the machine's own packets, to the endpoint and with the client's address.
func leavesAsOwn(t *testing.T) {
	c := newTown(t)
	name := c.w.service("web", "10.96.0.10")
	c.w.ends("web", at(podIP, onNodeNamed("n1")))
	c.l.sync(t, c.w, name)
	k := newLayout(false)
	b := nft.NewBatch(nft.Table{Family: nft.IPv4, Name: "probe"})
	b.AddTable()
	b.AddChain(nft.Chain{Name: "led", Hook: &nft.Hook{Type: "filter", Num: unix.NF_INET_LOCAL_OUT, Priority: -5}})
	host := func(ip string) netip.Prefix { return netip.PrefixFrom(netip.MustParseAddr(ip), 32) }
	b.AddRule("led", k.rule("", k.match(host(otherIP), true), k.match(host(podIP), false), to(expr.VerdictDrop, "")))
	must(t, c.l.conn.Commit(b))
	const vip = "10.96.0.10:80"
	if got := c.from("pod", vip, "dropped"); got != "dropped" {
		t.Errorf("from the pod: %s, want dropped", got)
	}
	if got := c.from("abroad", vip, ""); got != podIP+" saw 10.1.0.1" {
		t.Errorf("from abroad: %s", got)
	}
}

// manyServers programs a thousand services, one more, and finds them again after a restart.
func manyServers(t *testing.T) {
	ownNetwork(t, "10.1.0.100")
	n := 1000
	if text := os.Getenv(manyEnv); text != "" {
		var err error
		n, err = strconv.Atoi(text)
		must(t, err)
	}
	w := newWorld()
	w.many(0, n)
	l := newProxy(t, w, Config{})
	began := time.Now()
	l.sync(t, w)
	cold := time.Since(began)
	began = time.Now()
	l.sync(t, w, w.many(n, n+1)...)
	more := time.Since(began)
	l.holds(t)
	again := newProxy(t, w, Config{})
	began = time.Now()
	again.sync(t, w)
	seen := time.Since(began)
	t.Logf("%d services of 3 endpoints, interpreted: cold %v, one more %v, observed %v", n, cold, more, seen)
	again.holds(t)
	var c ipvs.Changes
	d := again.mode.director
	d.make(&c, ipvs.Key{Addr: netip.MustParseAddr("10.100.0.1"), Protocol: 6, Port: 80}, d.wantedAt(again.book, "10.100.0.1:80"))
	if !reflect.DeepEqual(c, ipvs.Changes{}) {
		t.Errorf("%+v where there is nothing to change", c)
	}
}

func (r *director) wantedAt(b *book, at string) server {
	ap := netip.MustParseAddrPort(at)
	return b.servers[ipvs.Key{Addr: ap.Addr(), Protocol: unix.IPPROTO_TCP, Port: ap.Port()}]
}

// changesModes goes from one mode to the other and back, and finds nothing of the one in the other.
func changesModes(t *testing.T) {
	ownNetwork(t, "10.1.0.1", "10.1.0.100")
	answer(t, "10.1.0.1:8080")
	w := newWorld()
	w.service("web", "10.96.0.12", func(s *corev1.Service) {
		s.Spec.Ports[0].NodePort = 30080
	})
	w.ends("web", at("10.1.0.1"))
	before := settings(t)
	for i := range 4 {
		inIPVS = i%2 == 0
		l := newProxy(t, w, Config{})
		l.sync(t, w)
		l.holds(t)
		for _, to := range []string{"10.96.0.12:80", "10.1.0.100:30080"} {
			if _, _, err := ask(to); err != nil {
				t.Errorf("ipvs %v: %s: %v", inIPVS, to, err)
			}
		}
		held, err := l.conn.Elements(l.kernels[0].layout.table(), "endpoints")
		must(t, err)
		servers := strings.Contains(virtualServers(t), "->  ") || strings.Contains(virtualServers(t), "TCP ")
		d, err := findDummy()
		must(t, err)
		if d != nil {
			d.close()
		}
		if servers != inIPVS || (d != nil) != inIPVS || (len(held) > 0) == inIPVS || !inIPVS && settings(t) != before {
			t.Errorf("ipvs %v: servers %v, %s %v, %d endpoints in the table, %s",
				inIPVS, servers, dummyName, d != nil, len(held), settings(t))
		}
	}
	inIPVS = true
	l := newProxy(t, w, Config{})
	l.sync(t, w)
	must(t, Cleanup())
	if text := virtualServers(t); strings.Contains(text, "TCP ") || settings(t) != before {
		t.Errorf("left: %s %s", text, settings(t))
	}
}

// settings are the kernel's that mode ipvs changes.
func settings(t *testing.T) string {
	t.Helper()
	var list []string
	for _, a := range answers {
		text, err := os.ReadFile(a.file)
		must(t, err)
		list = append(list, strings.TrimSpace(string(text)))
	}
	return fmt.Sprint(list)
}
