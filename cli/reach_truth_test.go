package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/client-go/rest"

	"github.com/kloop-dev/kloop/cli/ask"
	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/internal/testpolicy"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/netpolicy"
	"github.com/kloop-dev/kloop/resource"
)

// snapshotServer answers the questions of a reacher from a cluster that was made up.
func snapshotServer(t *testing.T, s testpolicy.Snapshot) *ask.Asker {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer any
		words := strings.Split(strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/api/v1/"), "/apis/networking.k8s.io/v1/"), "/")
		switch {
		case words[0] == "nodes":
			answer = s.Lookup(kinds.Nodes, "", words[1])
		case words[0] == "services":
			answer = &corev1.ServiceList{}
		case words[0] == "pods":
			answer = &corev1.PodList{Items: podsAt(s, r.URL.Query().Get("fieldSelector"))}
		case len(words) == 2:
			answer = s.Lookup(kinds.Namespaces, "", words[1])
		case words[2] == "pods":
			answer = s.Lookup(kinds.Pods, words[1], words[3])
		case words[2] == "networkpolicies":
			list := &networkingv1.NetworkPolicyList{}
			for o := range s.Each(kinds.NetworkPolicies, words[1]) {
				list.Items = append(list.Items, *o.(*networkingv1.NetworkPolicy))
			}
			answer = list
		}
		if answer == nil {
			t.Errorf("nobody answers %s", r.URL)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(srv.Close)
	raw, err := client.Raw(&rest.Config{Host: srv.URL, QPS: -1}) // without the pace that a person's questions keep
	if err != nil {
		t.Fatal(err)
	}
	return &ask.Asker{Raw: raw, Now: time.Now}
}

// podsAt are all pods, or those that have the address of the selector status.podIP, which holds a pod's first alone.
func podsAt(s testpolicy.Snapshot, selector string) (list []corev1.Pod) {
	for o := range s.Each(kinds.Pods, "") {
		if p := o.(*corev1.Pod); selector == "" || selector == "status.podIP="+p.Status.PodIPs[0].IP {
			list = append(list, *p)
		}
	}
	return list
}

// TestReachIsTheTruth: the answers are those of the packets. The clusters are among those that netpolicy's TestRealPackets sends a packet
// through for every connection; the answer to each, by the pod's name and by its address, is that of the whole cluster's model, which the
// packets followed there.
func TestReachIsTheTruth(t *testing.T) {
	t.Parallel()
	asked, denied := 0, 0
	for seed := range uint64(3) {
		s := testpolicy.Random{Rand: rand.New(rand.NewPCG(seed, 4))}.Cluster(3)
		whole, asker := netpolicy.NewModel(s, nil, nil), snapshotServer(t, s)
		pods := resource.List(s, kinds.Pods, "")
		for i, from := range pods {
			for j, to := range pods {
				n, d := 0, 0
				switch (i + j) % 5 {
				case 0: // every port
					for port := 79; port <= 83; port++ {
						n, d = compareAnswers(t, asker, whole, from, to, port)
						asked, denied = asked+n, denied+d
					}
				default:
					n, d = compareAnswers(t, asker, whole, from, to, 79+int(seed+uint64(i+j))%5)
					asked, denied = asked+n, denied+d
				}
			}
		}
	}
	t.Logf("%d answers, %d of them that it may not", asked, denied)
	if asked < 2000 || denied < asked/10 || denied > asked*9/10 {
		t.Errorf("of %d answers %d deny: the table says little", asked, denied)
	}
}

// compareAnswers asks for a connection by all protocols, and both families.
func compareAnswers(t *testing.T, a *ask.Asker, whole *netpolicy.Model, from, to *corev1.Pod, port int) (asked, denied int) {
	t.Helper()
	a.NS = from.Namespace
	for _, protocol := range testpolicy.Protocols {
		byName := ""
		for family, at := range to.Status.PodIPs {
			c := netpolicy.Connection{From: netip.MustParseAddr(from.Status.PodIPs[family].IP), To: netip.MustParseAddr(at.IP), Protocol: protocol,
				Port: uint16(port)}
			may := "may"
			if !whole.Judge(c).Allowed {
				may = "may not"
				denied++
			}
			asked++
			want := fmt.Sprintf("pod/%s %s reach pod/%s (%s) on %s %d\n", from.Name, may, to.Name, c.To, protocol, port)
			ask := func(target string) string {
				var out bytes.Buffer
				if err := reach(t.Context(), a, &out, "pod", from.Name, fmt.Sprintf("%s:%d/%s", target, port, protocol)); err != nil {
					t.Fatal(err)
				}
				return out.String()
			}
			if family == 0 {
				byName = ask(to.Namespace + "/pod/" + to.Name)
			}
			for _, got := range []string{byName, ask("[" + c.To.String() + "]")} {
				if !strings.Contains(got, want) {
					t.Fatalf("%v from %s: %s; want %s", c, from.Namespace, got, want)
				}
			}
		}
	}
	return asked, denied
}
