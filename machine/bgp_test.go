package machine

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/kit/whole"
	"github.com/kloop-dev/kloop/loadbalancer"
	"github.com/kloop-dev/kloop/node/credential"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
)

const bgpManifests = `
{"apiVersion":"metallb.io/v1beta1","kind":"IPAddressPool","metadata":{"name":"p","namespace":"metallb-system"},
 "spec":{"addresses":["192.0.2.0/24"]}}
{"apiVersion":"metallb.io/v1beta1","kind":"BGPAdvertisement","metadata":{"name":"p","namespace":"metallb-system"},
 "spec":{"communities":["mine"]}}
{"apiVersion":"metallb.io/v1beta1","kind":"Community","metadata":{"name":"p","namespace":"metallb-system"},
 "spec":{"communities":[{"name":"mine","value":"64512:7"}]}}
{"apiVersion":"metallb.io/v1beta2","kind":"BGPPeer","metadata":{"name":"tor","namespace":"metallb-system"},
 "spec":{"myASN":64512,"peerASN":64513,"peerAddress":"127.0.0.1","peerPort":PORT,"passwordSecret":{"name":"tor"}}}
`

// TestJoinedNodeSpeaks: MetalLB's objects lead to a signed session of a joined node, over HTTP and with its own certificate, that has
// the way to a Service; the objects and the Service say so, and say why when the router goes.
func TestJoinedNodeSpeaks(t *testing.T) {
	ctx, quiet := t.Context(), slog.New(slog.DiscardHandler)
	c, err := cluster.Start(ctx, cluster.Config{Kit: whole.Kit(), Log: quiet, LoadBalancer: "pools"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	}()
	ln, port := signedListener(t)
	// Everything but the Secret's reader is an administrator's.
	create := func(k resource.Kind, obj resource.Object) {
		t.Helper()
		if _, err := c.Client().Create(ctx, k, obj); err != nil {
			t.Fatal(err)
		}
	}
	create(kinds.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: corev1.NodeStatus{
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()}}}})
	create(kinds.Services, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}}})
	create(kinds.EndpointSlices, &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web",
		Labels: map[string]string{discoveryv1.LabelServiceName: "web"}}, AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.9.9.9"}}}})
	install(ctx, t, c.Client(), strings.ReplaceAll(bgpManifests, "PORT", port))
	create(kinds.Secrets, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: wellknown.AnnounceSpace, Name: "tor"},
		Type: corev1.SecretTypeBasicAuth, Data: map[string][]byte{"password": []byte("secret"), "username": []byte("x")}})

	remote, gone := joinedClient(ctx, t, c)
	run, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- loadbalancer.Speak(run, loadbalancer.Config{Client: remote, Node: "n1", Address: netip.MustParseAddr("10.0.0.1"),
			Log: quiet})
	}()
	defer func() {
		if t.Failed() {
			t.Logf("%s\n%+v", texts(t, c.Client(), "bgppeers"), resource.List(c.Client().Read(), kinds.Leases, wellknown.AnnounceSpace))
		}
	}()
	r := acceptRouter(t, ln)
	if u := r.next(t, 2); !bytes.Contains(u, []byte{32, 192, 0, 2, 0}) || !bytes.Contains(u, []byte{0xfc, 0, 0, 7}) {
		t.Errorf("an UPDATE without the route, or its community: %x", u)
	}
	says := func(typ string, status metav1.ConditionStatus, words string) {
		t.Helper()
		wait(t, words, func() bool {
			s := resource.Get(c.Client().Read(), kinds.Services, "default", "web")
			for _, cond := range s.Status.Conditions {
				if cond.Type == typ && cond.Status == status && strings.Contains(cond.Message, words) {
					return true
				}
			}
			return false
		})
	}
	says(wellknown.AnnouncedCondition, metav1.ConditionTrue, "1 BGP sessions have the way to it")
	holds := func(plural, words string) {
		t.Helper()
		wait(t, plural+" say "+words, func() bool { return strings.Contains(texts(t, c.Client(), plural), words) })
	}
	holds("bgppeers", `"reason":"Established"`)
	holds("servicebgpstatuses", `"peers":["tor"]`)
	ln.Close()
	r.Close()
	says(wellknown.AnnouncedCondition, metav1.ConditionFalse, "BGPPeer tor: connect:")
	holds("bgppeers", "0 of 1 nodes have a session with it")
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	holds("bgppeers", "agent has stopped")
	gone()
}

// joinedClient makes the client over HTTP of a node that edit may change, and returns how to end it.
func joinedClient(ctx context.Context, t *testing.T, c *cluster.Cluster, edit ...func(*Config)) (client.Client, func()) {
	t.Helper()
	cfg, err := c.Rest()
	if err != nil {
		t.Fatal(err)
	}
	token, err := cluster.NodeToken(ctx, c.Client(), c.URL(), cfg.CAData, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	n := Joined{Config: Config{Name: "n1", Address: netip.MustParseAddr("10.0.0.1"), Proxy: true, Log: slog.New(slog.DiscardHandler)},
		Keys: t.TempDir(), Join: credential.Discovery{Server: c.URL(), Token: token, Hashes: []string{hashOf(t, cfg)}}}
	for _, e := range edit {
		e(&n.Config)
	}
	_, remote, err := n.enrol(ctx)
	if err != nil {
		t.Fatal(err)
	}
	run, stop := context.WithCancel(ctx)
	complete, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- remote.Run(run, func() { close(complete) }) }()
	select {
	case <-complete:
	case <-time.After(2 * time.Minute):
		t.Fatalf("the node can't read what its loops need: %s", remote.Trouble())
	}
	return remote, func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// install makes objects of MetalLB's kinds, once they are served.
func install(ctx context.Context, t *testing.T, c client.Client, text string) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(text))
	for {
		var raw json.RawMessage
		if err := dec.Decode(&raw); err == io.EOF {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		var is metav1.TypeMeta
		if err := json.Unmarshal(raw, &is); err != nil {
			t.Fatal(err)
		}
		var last error
		wait(t, "a "+is.Kind+" is made", func() bool {
			gvk := schema.FromAPIVersionAndKind(is.APIVersion, is.Kind)
			k, ok := c.Kinds().Kind(gvk)
			if !ok {
				return false
			}
			obj := k.New(gvk)
			if _, err := codec.UnmarshalJSON(raw, obj); err != nil {
				t.Fatal(err)
			}
			_, last = c.Create(ctx, k, obj)
			return last == nil
		})
	}
}

func texts(t *testing.T, c client.Client, plural string) (all string) {
	t.Helper()
	k, ok := c.Kinds().GR(schema.GroupResource{Group: "metallb.io", Resource: plural})
	if !ok {
		return ""
	}
	for obj := range c.Read().Each(k, wellknown.AnnounceSpace) {
		text, err := codec.MarshalJSON(resource.Opened(obj))
		if err != nil {
			t.Fatal(err)
		}
		all += string(text)
	}
	return all
}

func wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited for a minute: %s", what)
		}
	}
}

// signedListener takes connections on the loopback that are signed with the password.
func signedListener(t *testing.T) (ln net.Listener, port string) {
	t.Helper()
	sign := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		m := &unix.TCPMD5Sig{Keylen: 6}
		copy(m.Key[:], "secret")
		m.Addr.Family = unix.AF_INET
		m.Addr.Data[2], m.Addr.Data[5] = 127, 1
		if cerr := c.Control(func(fd uintptr) {
			err = unix.SetsockoptTCPMD5Sig(int(fd), unix.IPPROTO_TCP, unix.TCP_MD5SIG,
				m)
		}); cerr != nil {
			return cerr
		}
		return err
	}}
	for p := 16000; p < 16384; p++ { // MetalLB allows no higher ones
		l, err := sign.Listen(t.Context(), "tcp", netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(p)).String())
		if err == nil {
			t.Cleanup(func() { l.Close() })
			_, port, _ = net.SplitHostPort(l.Addr().String())
			return l, port
		}
	}
	t.Fatal("no port is free")
	return nil, ""
}

// A bgpRouter is the other end of a BGP session, by hand.
type bgpRouter struct{ net.Conn }

// acceptRouter takes a session as AS 64513 that takes routes of IPv4.
func acceptRouter(t *testing.T, ln net.Listener) bgpRouter {
	t.Helper()
	if err := ln.(*net.TCPListener).SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	r := bgpRouter{conn}
	r.next(t, 1)
	for _, body := range [][]byte{{0, 29, 1, 4, 0xfc, 1, 0, 0, 10, 0, 0, 2, 0}, {0, 19, 4}} { // an OPEN without a hold time, a KEEPALIVE
		if _, err := conn.Write(append(bytes.Repeat([]byte{0xff}, 16), body...)); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// next reads up to a message of a type.
func (r bgpRouter) next(t *testing.T, typ byte) []byte {
	t.Helper()
	if err := r.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	for {
		head := make([]byte, 19)
		if _, err := io.ReadFull(r, head); err != nil {
			t.Fatal(err)
		}
		body := make([]byte, binary.BigEndian.Uint16(head[16:])-19)
		if _, err := io.ReadFull(r, body); err != nil {
			t.Fatal(err)
		}
		if head[18] == typ {
			return body
		}
	}
}
