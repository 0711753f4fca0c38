package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kloop-dev/kloop/cli/ask"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/netpolicy"
)

// A target is the far end of a connection that somebody asks about: [NAMESPACE/]pod/NAME:PORT, [NAMESPACE/]service/NAME:PORT or an address.
type target struct {
	ns, kind, name string
	addr           netip.Addr
	protocol       corev1.Protocol
	port           uint16
}

const targetForm = "pod/NAME:PORT, service/NAME:PORT or ADDRESS:PORT, with NAMESPACE/ in front and /UDP or /SCTP behind as needed"

func parseTarget(ns, text string) (t target, err error) {
	t.ns, t.protocol = ns, corev1.ProtocolTCP
	bad := fmt.Errorf("%q is no end of a connection: say %s", text, targetForm)
	i := strings.LastIndex(text, ":")
	if i < 0 {
		return t, bad
	}
	what, port, protocol := text[:i], text[i+1:], ""
	if port, protocol, _ = strings.Cut(port, "/"); protocol != "" {
		t.protocol = corev1.Protocol(strings.ToUpper(protocol))
	}
	n, err := strconv.ParseUint(port, 10, 16)
	known := []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}
	if err != nil || n == 0 || !slices.Contains(known, t.protocol) {
		return t, bad
	}
	t.port = uint16(n)
	if a, err := netip.ParseAddr(strings.Trim(what, "[]")); err == nil {
		t.addr = a.Unmap().WithZone("")
		return t, nil
	}
	words := strings.Split(what, "/")
	if len(words) == 3 {
		t.ns, words = words[0], words[1:]
	}
	if len(words) != 2 {
		return t, bad
	}
	t.kind, t.name = strings.TrimSuffix(words[0], "s"), words[1]
	switch t.kind {
	case "po":
		t.kind = "pod"
	case "svc":
		t.kind = "service"
	}
	if t.kind != "pod" && t.kind != "service" {
		return t, bad
	}
	return t, nil
}

// A reacher asks whether one pod may connect to another place. It reads only what the answer needs: both ends, and the policies of their
// namespaces; what the caller may not read is named in the answer.
type reacher struct {
	*ask.Asker
	cluster netpolicy.Cluster
	unseen  []string
}

// reach says whether network policies let a pod connect to a target, and which of them decides.
func reach(ctx context.Context, a *ask.Asker, out io.Writer, kind, name, to string) error {
	if !slices.Contains([]string{"pod", "pods", "po"}, kind) {
		return fmt.Errorf("connections come from pods: say kloop why pod/NAME --to %s", to)
	}
	t, err := parseTarget(a.NS, to)
	if err != nil {
		return err
	}
	r := &reacher{Asker: a}
	from, err := r.pod(ctx, a.NS, name)
	if err != nil {
		return err
	}
	if core.Terminal(from) {
		return fmt.Errorf("pod/%s has ended (%s): it opens no connections, and its address may be another pod's", from.Name, from.Status.Phase)
	}
	if err := r.policies(ctx, a.NS); err != nil {
		return err
	}
	ends, err := r.ends(ctx, from, t)
	if err != nil {
		return err
	}
	ends = reachable(from, ends)
	model := r.cluster.Model()
	for _, e := range ends {
		if err := r.judge(out, model, from, e); err != nil {
			return err
		}
	}
	for _, u := range r.unseen {
		fmt.Fprintf(out, "  not seen   %s\n", u)
	}
	return nil
}

// judge prints the verdict on the way to one end.
func (r *reacher) judge(out io.Writer, m *netpolicy.Model, from *corev1.Pod, e end) error {
	if from.Spec.HostNetwork {
		fmt.Fprintf(out, "pod/%s is on its node's network: no policy applies to what it opens\n", from.Name)
	}
	own, err := sameFamily(from, e.addr)
	if err != nil {
		return err
	}
	v := m.Judge(netpolicy.Connection{From: own, To: e.addr, Protocol: e.protocol, Port: e.port})
	may := "may"
	if !v.Allowed {
		may = "may not"
	}
	fmt.Fprintf(out, "pod/%s %s reach %s on %s %d\n", from.Name, may, e, e.protocol, e.port)
	for _, line := range strings.Split(v.Explain(), "; ") {
		fmt.Fprintf(out, "  %s\n", line)
	}
	return nil
}

// sameFamily is the pod's address of the family of another.
func sameFamily(p *corev1.Pod, other netip.Addr) (netip.Addr, error) {
	own := podAddrs(p)
	for _, a := range own {
		if a.Is4() == other.Is4() {
			return a, nil
		}
	}
	if len(own) == 0 {
		return netip.Addr{}, noAddress(p)
	}
	return netip.Addr{}, fmt.Errorf("pod/%s has no address of the family of %s", p.Name, other)
}

func podAddrs(p *corev1.Pod) (list []netip.Addr) {
	for _, ip := range p.Status.PodIPs {
		if a, err := netip.ParseAddr(ip.IP); err == nil {
			list = append(list, a.Unmap())
		}
	}
	return list
}

// reachable drops the ends of a family that the pod has no address of: it will not choose them. If there are no others all stay.
func reachable(from *corev1.Pod, ends []end) []end {
	near := slices.DeleteFunc(slices.Clone(ends), func(e end) bool {
		_, err := sameFamily(from, e.addr)
		return err != nil
	})
	if len(near) == 0 {
		return ends
	}
	return near
}

func noAddress(p *corev1.Pod) error {
	return fmt.Errorf("pod/%s has no address (it is %s): kloop why pod/%s -n %s says what it waits for", p.Name, p.Status.Phase, p.Name,
		p.Namespace)
}

// An end is an address that a connection arrives at, behind whatever was asked for.
type end struct {
	what     string
	addr     netip.Addr
	protocol corev1.Protocol
	port     uint16
}

func (e end) String() string {
	if e.what == "" {
		return e.addr.String()
	}
	return e.what + " (" + e.addr.String() + ")"
}

// ends are the addresses behind a target.
func (r *reacher) ends(ctx context.Context, from *corev1.Pod, t target) ([]end, error) {
	switch t.kind {
	case "service":
		return r.endpoints(ctx, from, t)
	case "pod":
		p, err := r.pod(ctx, t.ns, t.name)
		if err != nil {
			return nil, err
		}
		return r.podEnds(ctx, p, t)
	}
	return r.behind(ctx, from, t)
}

// podEnds are the addresses of a pod, one of each family: blocks of addresses may let one through and not the other.
func (r *reacher) podEnds(ctx context.Context, p *corev1.Pod, t target) (list []end, err error) {
	for _, a := range podAddrs(p) {
		if !t.addr.IsValid() || t.addr == a {
			list = append(list, end{"pod/" + p.Name, a, t.protocol, t.port})
		}
	}
	if len(list) == 0 {
		return nil, noAddress(p)
	}
	return list, r.policies(ctx, p.Namespace)
}

// endpoints are the ready endpoints of a service's port: policies see them, not the service's address.
func (r *reacher) endpoints(ctx context.Context, from *corev1.Pod, t target) (list []end, err error) {
	var s corev1.Service
	if err := r.Get(ctx, "/api/v1/namespaces/"+t.ns+"/services/"+t.name, &s); err != nil {
		return nil, err
	}
	wanted := func(p corev1.ServicePort) bool { return uint16(p.Port) == t.port && p.Protocol == t.protocol }
	i := slices.IndexFunc(s.Spec.Ports, wanted)
	if i < 0 {
		return nil, fmt.Errorf("service/%s has no port %d of %s", t.name, t.port, t.protocol)
	}
	var slices discoveryv1.EndpointSliceList
	data, err := r.Raw.Get().AbsPath("/apis/discovery.k8s.io/v1/namespaces/"+t.ns+"/endpointslices").
		Param("labelSelector", discoveryv1.LabelServiceName+"="+t.name).SetHeader("Accept", "application/json").DoRaw(ctx)
	if err != nil {
		return nil, ask.Refusal(data, err)
	}
	if err := json.Unmarshal(data, &slices); err != nil {
		return nil, fmt.Errorf("read the endpoints of service/%s: %w", t.name, err)
	}
	for _, slice := range slices.Items {
		for _, e := range slice.Endpoints {
			for _, p := range slice.Ports {
				ready := e.Conditions.Ready == nil || *e.Conditions.Ready
				if !ready || p.Name == nil || *p.Name != s.Spec.Ports[i].Name || p.Port == nil {
					continue
				}
				one, err := r.endpoint(ctx, from, e, t.protocol, uint16(*p.Port))
				if err != nil {
					return nil, err
				}
				if one.addr.IsValid() {
					list = append(list, one)
				}
			}
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("service/%s has no ready endpoint for port %d: kloop why service/%s -n %s", t.name, t.port, t.name, t.ns)
	}
	for _, p := range r.cluster.Pods { // endpoints that people write may lie in other namespaces
		if err := r.policies(ctx, p.Namespace); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// endpoint is one of a service's. Endpoints need not name their pod: the pod that has the address is found. Without an address it is no
// end.
func (r *reacher) endpoint(ctx context.Context, from *corev1.Pod, e discoveryv1.Endpoint, pr corev1.Protocol, port uint16) (end, error) {
	if len(e.Addresses) == 0 {
		return end{}, nil
	}
	addr, err := netip.ParseAddr(e.Addresses[0]) // of several only the first is used
	if err != nil {
		return end{}, nil
	}
	if e.TargetRef == nil || e.TargetRef.Kind != "Pod" {
		p, err := r.holder(ctx, from, addr)
		if err != nil || p == nil {
			return end{"", addr, pr, port}, err
		}
		return end{"pod/" + p.Name, addr, pr, port}, nil
	}
	if _, err := r.pod(ctx, e.TargetRef.Namespace, e.TargetRef.Name); err != nil {
		r.unseen = append(r.unseen, "pod/"+e.TargetRef.Name+": "+err.Error())
	}
	return end{"pod/" + e.TargetRef.Name, addr, pr, port}, nil
}

// pod reads a pod with what policies may ask of it: its namespace's labels and its node's addresses.
func (r *reacher) pod(ctx context.Context, ns, name string) (*corev1.Pod, error) {
	var p corev1.Pod
	if err := r.Get(ctx, "/api/v1/namespaces/"+ns+"/pods/"+name, &p); err != nil {
		return nil, err
	}
	r.cluster.Pods = append(r.cluster.Pods, &p)
	var space corev1.Namespace
	hidden := "the labels of namespace " + ns + ": what selects it by them is not counted"
	if r.see(r.Get(ctx, "/api/v1/namespaces/"+ns, &space), hidden) {
		r.cluster.Namespaces = append(r.cluster.Namespaces, &space)
	}
	var node corev1.Node
	if p.Spec.NodeName != "" && r.see(r.Get(ctx, "/api/v1/nodes/"+p.Spec.NodeName, &node), "the addresses of node "+p.Spec.NodeName) {
		r.cluster.Nodes = append(r.cluster.Nodes, &node)
	}
	return &p, nil
}

// see notes what could not be read.
func (r *reacher) see(err error, what string) bool {
	if err == nil {
		return true
	}
	if apierrors.IsForbidden(err) {
		what += " (you may not read it)"
	}
	if !slices.Contains(r.unseen, what) {
		r.unseen = append(r.unseen, what)
	}
	return false
}

// policies reads the policies of a namespace, once.
func (r *reacher) policies(ctx context.Context, ns string) error {
	if slices.ContainsFunc(r.cluster.Policies, func(p *networkingv1.NetworkPolicy) bool { return p.Namespace == ns }) {
		return nil
	}
	var list networkingv1.NetworkPolicyList
	if err := r.Get(ctx, "/apis/networking.k8s.io/v1/namespaces/"+ns+"/networkpolicies", &list); err != nil {
		return err
	}
	for i := range list.Items {
		r.cluster.Policies = append(r.cluster.Policies, &list.Items[i])
	}
	return nil
}
