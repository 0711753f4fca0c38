package scheduler

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// TestNominees decides a pod while another one waits for its room on n1: what that one would mean there counts, unless
// the pod is more important.
func TestNominees(t *testing.T) {
	apart := affinity("podAntiAffinity", "kubernetes.io/hostname", "app: x")
	near := affinity("podAffinity", "zone", "app: x")
	for _, test := range []struct {
		name, waits, spec string // the pod that waits, the pod that is decided
		priority, want    string
	}{
		{"keeps apart", "", apart, "5", "n2"},
		{"keeps apart from an equal", "", apart, "10", "n2"},
		{"is more important", "", apart, "11", "n1"},
		{"is kept away", affinity("podAntiAffinity", "kubernetes.io/hostname", "app: a"), "", "5", "n2"},
		{"of the zone, by its own rule", affinity("podAntiAffinity", "zone", "app: a"), hardSpread("kubernetes.io/hostname", 1), "5", "n2"},
		{"spreads", "",
			"topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, " +
				"labelSelector: {matchExpressions: [{key: app, operator: In, values: [a, x]}]}}]", "5", "n2"},
		{"nobody to be near to without it", "", near, "5", "0/2 nodes are available: 2 node(s) didn't match pod affinity rules."},
	} {
		t.Run(test.name, func(t *testing.T) {
			st := site(node("n1", "zone: z1", ""), node("n2", "zone: z2", ""))
			st.read = noObjects{}
			st.add(pod("there", "app: other", "cpu=1", ""), "n2") // n1 is the better node
			w := st.task(pod("w", "app: x", "cpu=100m", "priority: 10\n"+test.waits))
			st.nominate(w, st.indexOf("n1"))
			for range 2 { // the second time, from what is remembered
				if got := st.where(pod("p", "app: a", "cpu=100m", "priority: "+test.priority+"\n"+test.spec)); got != test.want {
					t.Errorf("got %s, want %s", got, test.want)
				}
			}
		})
	}
}

// TestExpectedElsewhere has others say where a pod that fits nowhere will go: its room is kept from those who are not more
// urgent.
func TestExpectedElsewhere(t *testing.T) {
	w := start(t, true)
	w.create(node("n1", "", ""))
	w.create(pod("here", "", "cpu=3", ""))
	w.until("here", bound)
	w.create(pod("big", "", "cpu=4", ""))
	w.until("big", refused)
	if c := find(resource.Get(w.Read(), kinds.Pods, "default", "big"), corev1.PodScheduled); c.ObservedGeneration != 1 {
		t.Errorf("%+v: what was observed has the generation 1", c)
	}
	say := func(node string) {
		t.Helper()
		if _, err := w.Patch(t.Context(), kinds.Pods, "default", "big", client.Patch{Type: types.MergePatchType, Sub: "status",
			Data: []byte(`{"status":{"nominatedNodeName":` + node + `}}`)}); err != nil {
			t.Fatal(err)
		}
	}
	say(`"n1"`)
	w.create(pod("small", "", "cpu=1", ""))
	w.until("small", refused)
	say("null")
	w.until("small", bound)
}

// clumsy fails to bind a pod the first time.
type clumsy struct {
	client.Client
	pod string
}

func (c *clumsy) Call(ctx context.Context, k resource.Kind, ns, name, sub string, in resource.Object) (resource.Object, error) {
	if name == c.pod {
		c.pod = ""
		return nil, errors.New("not now")
	}
	return c.Client.Call(ctx, k, ns, name, sub, in)
}

// TestRoomAfterAFailedBinding keeps the room of a pod whose binding failed from those who come meanwhile.
func TestRoomAfterAFailedBinding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, false)
		w.create(node("n1", "", ""))
		w.create(pod("big", "", "cpu=4", ""))
		if _, err := w.Patch(t.Context(), kinds.Pods, "default", "big", client.Patch{Type: types.MergePatchType, Sub: "status",
			Data: []byte(`{"status":{"nominatedNodeName":"n1"}}`)}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- New(Config{}).Run(ctx, loop.Env{Client: &clumsy{Client: w.Local, pod: "big"}, Log: slog.New(slog.DiscardHandler)})
		}()
		time.Sleep(100 * time.Millisecond) // the first try is over, the next is not due
		c := find(resource.Get(w.Read(), kinds.Pods, "default", "big"), corev1.PodScheduled)
		if c == nil || c.Message != `running Bind plugin "DefaultBinder": not now` {
			t.Errorf("after the failure: %+v", c)
		}
		w.create(pod("small", "", "cpu=1", ""))
		time.Sleep(time.Minute)
		synctest.Wait()
		for name, want := range map[string]string{"big": "n1", "small": ""} {
			if p := resource.Get(w.Read(), kinds.Pods, "default", name); p.Spec.NodeName != want {
				t.Errorf("%s is on %q", name, p.Spec.NodeName)
			}
		}
		cancel()
		<-done
	})
}
