package scheduler

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// ext is an extender that allows some nodes, likes one, and spares some victims.
func ext(t *testing.T, allowed string, likes string, e *Extender) *Extender {
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, v any) { must(json.NewEncoder(w).Encode(v)) }
	names := func(r *http.Request) (list []string) {
		var a extenderArgs
		must(json.NewDecoder(r.Body).Decode(&a))
		if e.Names != (a.NodeNames != nil) || a.Pod == nil {
			t.Errorf("told of names: %v", a.NodeNames != nil)
		}
		if a.NodeNames != nil {
			return *a.NodeNames
		}
		for _, n := range a.Nodes.Items {
			list = append(list, n.Name)
		}
		return list
	}
	mux.HandleFunc("/x/filter", func(w http.ResponseWriter, r *http.Request) {
		out := filterResult{NodeNames: &[]string{}, Nodes: &corev1.NodeList{}, FailedNodes: map[string]string{},
			FailedAndUnresolvableNodes: map[string]string{}}
		if allowed == "error" {
			out.Error = "don't know"
		}
		for _, n := range names(r) {
			switch {
			case strings.Contains(allowed, n):
				*out.NodeNames = append(*out.NodeNames, n)
				out.Nodes.Items = append(out.Nodes.Items, *node(n, "", ""))
			case n == "n3":
				out.FailedAndUnresolvableNodes[n] = "never"
			default:
				out.FailedNodes[n] = "not now"
			}
		}
		answer(w, out)
	})
	mux.HandleFunc("/x/rank", func(w http.ResponseWriter, r *http.Request) {
		var list []hostPriority
		for _, n := range names(r) {
			h := hostPriority{Host: n}
			switch {
			case n == likes:
				h.Score = 10
			case "hates all but "+n == likes:
				h.Score = -100_000
			case strings.HasPrefix(likes, "hates"):
				h.Score = -1_000_000
			}
			list = append(list, h)
		}
		answer(w, list)
	})
	mux.HandleFunc("/x/spare", func(w http.ResponseWriter, r *http.Request) {
		var a victimsArgs
		must(json.NewDecoder(r.Body).Decode(&a))
		out := victimsResult{NodeNameToMetaVictims: map[string]*metaVictims{}}
		for n, v := range a.NodeNameToVictims {
			if strings.Contains(allowed, n) {
				out.NodeNameToMetaVictims[n] = &metaVictims{Pods: []metaPod{{string(v.Pods[0].UID)}}}
			}
		}
		answer(w, out)
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	e.URL = srv.URL + "/x"
	return e
}

// TestExtenders decides one pod with extenders that have a say.
func TestExtenders(t *testing.T) {
	nodes := []*corev1.Node{node("n1", "", ""), node("n2", "", ""), node("n3", "", "")}
	for _, test := range []struct {
		name string
		list []*Extender
		asks string
		want string
	}{
		{"one node", []*Extender{ext(t, "n2", "", &Extender{Filter: "filter"})}, "", "n2"},
		{"by name", []*Extender{ext(t, "n2", "", &Extender{Filter: "filter", Names: true})}, "", "n2"},
		{"none", []*Extender{ext(t, "", "", &Extender{Filter: "filter"})}, "", "0/3 nodes are available: 1 never, 2 not now."},
		{"two in turn", []*Extender{ext(t, "n1 n2", "", &Extender{Filter: "filter"}), ext(t, "n2", "", &Extender{Filter: "filter"})}, "", "n2"},
		{"rank", []*Extender{ext(t, "", "n3", &Extender{Prioritize: "rank", Weight: 10})}, "", "n3"},
		{"rank below zero", []*Extender{ext(t, "", "hates all but n3", &Extender{Prioritize: "rank", Weight: 10})}, "", "n3"},
		{"error", []*Extender{ext(t, "error", "", &Extender{Filter: "filter"})}, "", "don't know"},
		{"error that does not matter", []*Extender{ext(t, "error", "", &Extender{Filter: "filter", Ignorable: true})}, "", "n1"},
		{"of a resource nobody wants",
			[]*Extender{ext(t, "", "", &Extender{Filter: "filter", Manages: []Managed{{"example.com/a", true}}})}, "", "n1"},
		{"of a resource that it looks after",
			[]*Extender{ext(t, "n2", "", &Extender{Filter: "filter", Manages: []Managed{{"example.com/a", true}}})}, "example.com/a=1", "n2"},
		{"of one that nodes must have",
			[]*Extender{ext(t, "n2", "", &Extender{Filter: "filter", Manages: []Managed{{"example.com/a", false}}})}, "example.com/a=1",
			"0/3 nodes are available: 3 Insufficient example.com/a."},
	} {
		t.Run(test.name, func(t *testing.T) {
			st := site(nodes...)
			st.read = noObjects{}
			st.profiles["default-scheduler"] = &Profile{Name: "default-scheduler", Extenders: test.list}
			if got := st.where(pod("p", "", test.asks, "")); got != test.want {
				t.Errorf("%s: got %s, want %s", test.name, got, test.want)
			}
		})
	}
}

// TestExtenderSpares asks for victims where an extender agrees to some.
func TestExtenderSpares(t *testing.T) {
	st := site(node("n1", "", ""), node("n2", "", ""))
	st.read = noObjects{}
	st.profiles["default-scheduler"] = &Profile{Name: "default-scheduler",
		Extenders: []*Extender{ext(t, "n2", "", &Extender{Preempt: "spare"})}}
	st.add(pod("low", "", "cpu=4", "priority: 1"), "n1")
	st.add(pod("high", "", "cpu=4", "priority: 5"), "n2")
	p := st.task(pod("p", "", "cpu=2", "priority: 10"))
	_, f := st.decide(p)
	c, _ := st.preempt(p, f, nil)
	if c == nil || st.nodes[c.node].name != "n2" || len(c.victims) != 1 || c.victims[0].pod.Name != "high" {
		t.Errorf("victims: %+v", c)
	}
}

// TestExtenderBinds has pods bound by an extender; what it refuses is tried again.
func TestExtenderBinds(t *testing.T) {
	w := start(t, false)
	var mu sync.Mutex
	var calls []string
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var a bindingArgs
		must(json.NewDecoder(r.Body).Decode(&a))
		mu.Lock()
		calls = append(calls, fmt.Sprint(a.PodNamespace, "/", a.PodName, " ", a.Node))
		first := len(calls) == 1
		mu.Unlock()
		out := bindingResult{}
		if first {
			out.Error = "not yet"
		} else if _, err := w.Call(r.Context(), w.kind(&corev1.Pod{}), a.PodNamespace, a.PodName, "binding", bindingOf(a)); err != nil {
			out.Error = err.Error()
		}
		must(json.NewEncoder(rw).Encode(out))
	}))
	t.Cleanup(srv.Close)
	w.create(node("n1", "", ""))
	w.create(pod("p", "", "", ""))
	w.scheduleBy(t.Context(), Config{Profiles: []Profile{{Name: "default-scheduler", Extenders: []*Extender{{URL: srv.URL, Bind: "bind"}}}}})
	if p := w.until("p", bound); p.Spec.NodeName != "n1" {
		t.Errorf("bound to %s", p.Spec.NodeName)
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(calls, []string{"default/p n1", "default/p n1"}) {
		t.Errorf("calls: %v", calls)
	}
}

func bindingOf(a bindingArgs) *corev1.Binding {
	b := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: a.Node}}
	b.Namespace, b.Name, b.UID = a.PodNamespace, a.PodName, a.PodUID
	return b
}
