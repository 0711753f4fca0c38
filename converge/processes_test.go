package converge

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

// engine has one loop that fails at one key.
type engine struct{ rec loop.Record }

func (e engine) Stats() []loop.Stats { return []loop.Stats{{Name: "replicaset", Done: 7}} }
func (e engine) Records() map[string][]loop.Record {
	return map[string][]loop.Record{"replicaset": {e.rec}}
}
func (e engine) Record(_ string, key loop.Key) (loop.Record, bool) { return e.rec, key == e.rec.Key }

func lease(ns, name, holder string, at time.Time) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder,
			RenewTime: &metav1.MicroTime{Time: at}, LeaseDurationSeconds: new(int32(15))}}
}

// What a process reports is known as if its loops ran here, until it is silent for long.
func TestReports(t *testing.T) {
	now, set := noon, kinds.NewSet()
	v := view.New(set)
	v.Replace(kinds.Leases, 1, []resource.Object{lease("kube-system", "kube-controller-manager", "far-1", now),
		lease("gone", "widget-operator", "pod-7", now.Add(-time.Hour)),
		lease("kube-node-lease", "n", "n", now)})
	p := &Processes{Self: "here", Kinds: set, Now: func() time.Time { return now }, Read: func() resource.Reader { return v.Snapshot() }}
	key := loop.Key{Kind: kinds.ReplicaSets, Namespace: "a", Name: "web"}
	far := engine{loop.Record{Key: key, State: "waiting", Fails: 3, LastErr: strings.Repeat("no", maxText), Next: now.Add(time.Minute)}}
	if a := p.Take(ReportOf(far, "far-1", "kube-system/kube-controller-manager")); a.Again != oftenElse {
		t.Errorf("nobody asks, and reports are wanted every %d s", a.Again)
	}
	p.Take(&convergence.Report{Process: "far-2", Lease: "kube-system/kube-controller-manager"})
	r, ok := p.Record("replicaset", key)
	if !ok || r.Fails != 3 || !r.Next.Equal(far.rec.Next) || len(r.LastErr) > maxText+len("…") {
		t.Errorf("record %+v, %v", r, ok)
	}
	if r, ok := p.Record("replicaset", loop.Key{Kind: kinds.ReplicaSets, Namespace: "a", Name: "calm"}); !ok || r.State != "resting" {
		t.Errorf("a key that is at rest there: %+v, %v", r, ok)
	}
	if a := p.Take(ReportOf(far, "far-1", "kube-system/kube-controller-manager")); a.Again != oftenSoon {
		t.Errorf("somebody asks, and reports are wanted every %d s", a.Again)
	}
	rows := map[string]*convergence.Loop{}
	for _, l := range p.Rows() {
		rows[l.Name] = l
	}
	if l := rows["replicaset"]; len(rows) != 2 || l == nil || l.Leader != "far-1" || l.Replicas != 2 || l.Done != 7 {
		t.Errorf("loops: %+v", rows)
	}
	if l := rows["widget-operator"]; l == nil || l.Leader != "pod-7" || !l.Outside || l.LastError == nil {
		t.Errorf("the operator that is silent: %+v", l)
	}
	if names, sure := p.Running(); !sure || !names["replicaset"] || names["deployment"] {
		t.Errorf("running: %v, %v", names, sure)
	}
	now = now.Add(staleReports*oftenElse*time.Second + time.Second)
	if _, ok := p.Record("replicaset", key); ok || len(p.others) != 0 {
		t.Error("a process that is silent is believed")
	}
	if names, sure := p.Running(); !sure || len(names) != 0 {
		t.Errorf("nobody holds the lease any more, and %v run, %v", names, sure)
	}
}

// A server does not let itself be filled by reports.
func TestReportsBounded(t *testing.T) {
	p := &Processes{Self: "here", Kinds: kinds.NewSet(), Now: func() time.Time { return noon }}
	for i := range 3 * maxProcesses {
		p.Take(&convergence.Report{Process: "p" + time.Duration(i).String(), Records: make([]convergence.Record, maxReported+1)})
	}
	p.Take(&convergence.Report{Process: "here"})
	if len(p.others) != maxProcesses {
		t.Errorf("%d processes are believed", len(p.others))
	}
}

// A controller that talks to another server is there, and so is what was refused to it.
func TestCallersElsewhere(t *testing.T) {
	set := kinds.NewSet()
	there := &Callers{Now: func() time.Time { return noon }}
	gr := kinds.ConfigMaps.Info().GR()
	there.Watching(gr, "widget-operator/v1")
	there.Refused(Refusal{User: "u", Agent: "widget-operator/v1", Verb: "create", Message: "no"}, gr, "a", "")
	r := &convergence.Report{Process: "there"}
	there.Report(r)
	p := &Processes{Self: "here", Kinds: set, Now: there.Now}
	p.Take(r)
	here := &Callers{Now: there.Now, Others: p}
	if n := here.watchers(gr); n != 1 {
		t.Errorf("%d watch", n)
	}
	if f, ok := here.refusalFor(gr, "a", "w"); !ok || f.Message != "no" || !f.Last.Equal(noon) {
		t.Errorf("refusal %+v, %v", f, ok)
	}
}
