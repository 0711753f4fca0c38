package converge_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/rules"
	"github.com/kloop-dev/kloop/internal/states"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

// A balancerRow is a service of type LoadBalancer in a small world, and what is said of it.
type balancerRow struct {
	s     *corev1.Service
	w     map[resource.Kind][]resource.Object
	cause string // "": no gap
	state string
	says  string
}

// balancerRows are the ways in which an address is missing or not answered, by name.
func balancerRows() map[string]balancerRow {
	const ip = "192.0.2.1"
	service := func(ip string, conditions ...string) *corev1.Service { // TYPE, REASON, and so on; all are False
		s := &corev1.Service{ObjectMeta: meta("web"), Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}
		if ip != "" {
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip}}
		}
		for i := 0; i < len(conditions); i += 2 {
			s.Status.Conditions = append(s.Status.Conditions, metav1.Condition{Type: conditions[i], Reason: conditions[i+1],
				Status: metav1.ConditionFalse, Message: "because"})
		}
		return s
	}
	lease := func(holder, trouble string, age time.Duration) *coordinationv1.Lease {
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: wellknown.AnnounceSpace, Name: "l2-" + ip,
			CreationTimestamp: metav1.NewTime(noon.Add(-age)), Labels: map[string]string{wellknown.AnnounceLabel: "layer2"},
			Annotations: map[string]string{wellknown.AnnouncedAddress: ip, wellknown.AnnouncedTrouble: trouble}},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}}
		if trouble == "" {
			delete(l.Annotations, wellknown.AnnouncedTrouble)
		}
		return l
	}
	node := &corev1.Node{ObjectMeta: meta("n1"), Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady,
		Status: corev1.ConditionTrue}}}}
	node.Namespace = ""
	metalLB := &appsv1.Deployment{ObjectMeta: meta("controller")}
	metalLB.Labels = map[string]string{"app": "metallb"}
	class := "example.com/lb"
	theirs := service("")
	theirs.Spec.LoadBalancerClass = &class
	far := lease("n1", "", time.Hour)
	far.Annotations[wellknown.AnnouncedForeign] = "eth0 10.0.0.5/24"
	at, told := wellknown.AddressCondition, wellknown.AnnouncedCondition
	type world = map[resource.Kind][]resource.Object
	rows := map[string]balancerRow{
		"nobody gives addresses": {service(""), nil, "LoadBalancerMissing", converge.Waiting, "whether one runs is not known"},
		"another class":          {theirs, nil, "LoadBalancerMissing", converge.Waiting, "from example.com/lb"},
		"MetalLB runs": {service(""), world{kinds.Deployments: {metalLB}}, "LoadBalancerOfMetalLB", converge.Waiting,
			"from MetalLB"},
		"answered": {service(ip), world{kinds.Nodes: {node}, kinds.Leases: {lease("n1", "", time.Hour)}}, "", "",
			"for which node n1 answers ARP"},
		"in no network of the node": {service(ip), world{kinds.Nodes: {node}, kinds.Leases: {far}}, "", "",
			"no network of that node holds it " +
				"(eth0 10.0.0.5/24): clients reach it only where a router sends it to the node"},
		"being taken over": {service(ip), world{kinds.Leases: {lease("", "", time.Second)}}, "", "", ""},
		"nobody takes it": {service(ip), world{kinds.Leases: {lease("", "", time.Minute)}}, "LoadBalancerUnanswered",
			converge.Blocked, "no node has taken " + ip},
		"its node is gone": {service(ip), world{kinds.Leases: {lease("n2", "", time.Hour)}}, "LoadBalancerUnanswered", converge.Waiting,
			"n2"},
		"another machine answers": {service(ip), world{kinds.Nodes: {node}, kinds.Leases: {lease("n1",
			"the machine 02:00 answers for the address too", time.Hour)}}, "LoadBalancerUnanswered", converge.Blocked, "02:00"},
		"an interface without ARP": {service(ip), world{kinds.Leases: {lease("", "n1 can't answer: eth0 does no ARP", time.Second)}},
			"LoadBalancerUnanswered", converge.Blocked, "eth0 does no ARP"},
		"no packet socket": {service(ip), world{kinds.Leases: {lease("",
			"n1 can't answer: open a packet socket (this needs CAP_NET_RAW)", 0)}}, "LoadBalancerUnanswered", converge.Blocked,
			"CAP_NET_RAW"},
		"endpoints are others' turn": {service(ip, told, wellknown.LBNoEndpoint), nil, "", "", ""},
	}
	for _, reason := range []string{wellknown.LBNoNode, wellknown.LBPortsTaken, wellknown.LBNoPool, wellknown.LBPoolExhausted,
		wellknown.LBRequestRefused} {
		r := rows["answered"]
		r.s, r.w, r.cause, r.state, r.says = service("", at, reason), nil, "LoadBalancerAddressMissing", converge.Blocked, "because"
		rows["no address: "+reason] = r
	}
	for _, reason := range []string{wellknown.LBNoNode, wellknown.LBNoAdvertisement, wellknown.LBSharedSelector, wellknown.LBAggregate,
		wellknown.LBNoPeer, wellknown.LBNoSession} {
		r := rows["answered"]
		r.s, r.w, r.cause, r.state, r.says = service(ip, told, reason), nil, "LoadBalancerNotAnnounced", converge.Blocked, "because"
		rows["not announced: "+reason] = r
	}
	for _, c := range []struct{ typ, ip, cause string }{{at, "", "LoadBalancerAddressMissing"}, {told, ip, "LoadBalancerNotAnnounced"}} {
		r := rows["answered"]
		r.s, r.w, r.cause, r.state, r.says = service(c.ip, c.typ, wellknown.LBNoLocalEndpoint), nil, c.cause, converge.Waiting, "because"
		rows["Local without endpoints: "+c.typ] = r
	}
	return rows
}

// TestBalancers: each way in which a load balancer's address is missing or not answered has its cause, and says whose move it is.
func TestBalancers(t *testing.T) {
	for name, tt := range balancerRows() {
		t.Run(name, func(t *testing.T) {
			set := kinds.NewSet()
			v := view.New(set)
			for k, list := range tt.w {
				v.Replace(k, 1, list)
			}
			v.Replace(kinds.Services, 1, []resource.Object{tt.s})
			w := &converge.World{Read: v.Snapshot(), Kinds: set, Now: noon, Rules: rules.All()}
			step := w.Explain(kinds.Services, tt.s)
			switch {
			case tt.cause == "" && step != nil && strings.HasPrefix(step.Cause, "LoadBalancer"):
				t.Errorf("%s: %s", step.Cause, step.Says)
			case tt.cause == "" && !strings.Contains(restText(w, tt.s), tt.says):
				t.Errorf("says %q of it, want %q", restText(w, tt.s), tt.says)
			case tt.cause != "" && (step == nil || step.Cause != tt.cause || step.State != tt.state ||
				!strings.Contains(step.Says, tt.says)):
				t.Errorf("%+v, want %s (%s): %s", step, tt.cause, tt.state, tt.says)
			case tt.cause != "" && (step.Owner == "" || step.Next.What == ""):
				t.Errorf("nobody has the next move: %+v", step)
			}
		})
	}
}

// TestUnansweredCauses goes through the 21 reasons for which ARP for a load balancer's address is known to go unanswered: each has a row
// above, a cause of a service's endpoints, or, where nothing on the nodes shows it, what is told of an address that is answered, and its
// words in docs/network.md.
func TestUnansweredCauses(t *testing.T) {
	page, err := os.ReadFile("../docs/network.md")
	if err != nil {
		t.Fatal(err)
	}
	text, rows := strings.Join(strings.Fields(string(page)), " "), balancerRows()
	endpoints := map[string]bool{}
	for _, s := range rules.All().Situations {
		if slices.Contains(s.Of, resource.Kind(kinds.Services)) && !strings.HasPrefix(s.Name, "LoadBalancer") {
			endpoints[s.Name] = true
		}
	}
	for i, c := range []struct{ what, row, cause, page string }{
		{"no pool is for the service", "no address: " + wellknown.LBNoPool, "", ""},
		{"the address that was asked for", "no address: " + wellknown.LBRequestRefused, "", ""},
		{"a class of others", "another class", "", ""},
		{"no advertisement", "not announced: " + wellknown.LBNoAdvertisement, "", ""},
		{"serviceSelectors and a shared address", "not announced: " + wellknown.LBSharedSelector, "", ""},
		{"no endpoint serves", "endpoints are others' turn", "BackendsNotReady", ""},
		{"Local, and no endpoint on a candidate", "Local without endpoints: " + wellknown.AnnouncedCondition, "", ""},
		{"every candidate excluded by label", "not announced: " + wellknown.LBNoNode, "", ""},
		{"the node's network is unavailable", "not announced: " + wellknown.LBNoNode, "", ""},
		{"interfaces without ARP, down, or in a bridge", "an interface without ARP", "", ""},
		{"its node is gone", "its node is gone", "", ""},
		{"no packet socket", "no packet socket", "", ""},
		{"kube-ipvs0 of others answers on all nodes", "another machine answers", "", "kube-ipvs0 of another proxy"},
		{"another machine has the address", "another machine answers", "", ""},
		{"a network that answers for others", "another machine answers", "", "proxy ARP"},
		{"a hypervisor drops it", "answered", "", "anti-spoofing of a cloud or hypervisor"},
		{"broadcasts are filtered", "answered", "", "access points that filter broadcasts"},
		{"a router remembers", "answered", "", "routers with a long memory for ARP"},
		{"no way to the address", "in no network of the node", "", "lies in no network of the node that answers"},
		{"packets die behind an answer", "answered", "", "packets that a firewall drops behind an answered ARP request"},
		{"no proxy runs", "nobody takes it", "", "kloop's own proxy runs there"},
	} {
		t.Run(c.what, func(t *testing.T) {
			if r := rows[c.row]; c.row != "" && r.s == nil || c.row == "" && c.page == "" {
				t.Errorf("%d, %s: no row %q", i+1, c.what, c.row)
			}
			if c.cause != "" && !endpoints[c.cause] || !strings.Contains(text, c.page) {
				t.Errorf("%d, %s: neither the cause %q nor the words %q", i+1, c.what, c.cause, c.page)
			}
		})
	}
}

// restText is what is said of a service that rests.
func restText(w *converge.World, s *corev1.Service) string {
	if g := w.Rest(kinds.Services, s); g != nil {
		return g.Because
	}
	return ""
}

var noon = states.Noon

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "a", Name: name, CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour)), Generation: 2}
}
