package node

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// logged keeps what an agent logs.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Who deletes a Node leaves its agent running. It makes no Lease that nobody owns, says once what happened and what to do about it, and
// goes on where somebody makes the Node again: then a Lease without an owner gets one.
func TestDeletedNode(t *testing.T) {
	simulate(t, func(r *rig) {
		r.stop()
		var said logged
		r.cfg.Log = slog.New(slog.NewTextHandler(&said, nil))
		r.start()
		lease := func() *coordinationv1.Lease {
			return resource.Get(r.Read(), kinds.Leases, corev1.NamespaceNodeLease, "n")
		}
		r.until("the node is ready", func() bool { s, _ := r.readiness(); return s == corev1.ConditionTrue && lease() != nil })
		if err := r.Delete(r.t.Context(), kinds.Nodes, "", "n", &metav1.DeleteOptions{}); err != nil {
			r.t.Fatal(err)
		}
		if err := r.Delete(r.t.Context(), kinds.Leases, corev1.NamespaceNodeLease, "n", &metav1.DeleteOptions{}); err != nil {
			r.t.Fatal(err)
		}
		r.rests(20 * time.Minute)
		if l := lease(); l != nil {
			t.Errorf("a Lease was made for a Node that is not there: owners %v", l.GetOwnerReferences())
		}
		if text := said.String(); strings.Count(text, "the Node is gone") != 1 || strings.Count(text, "not found") > 0 {
			t.Errorf("in twenty minutes it said:\n%s", text)
		} else if !strings.Contains(text, "restart this agent") {
			t.Errorf("it does not say what to do:\n%s", text)
		}
		create(r, kinds.Leases, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "n"}})
		r.rests(time.Minute)
		n := create(r, kinds.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
		r.until("the node is ready again", func() bool { s, _ := r.readiness(); return s == corev1.ConditionTrue })
		r.until("the Lease is the Node's", func() bool {
			o := lease().GetOwnerReferences()
			return len(o) == 1 && o[0].Kind == "Node" && o[0].Name == "n" && o[0].UID == n.UID
		})
	})
}
