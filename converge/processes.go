package converge

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/internal/coldsort"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/kinds/coordination"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// Unwell are servers that lack something: this one, and those that tell of it.
func (p *Processes) Unwell() (list []*convergence.Server) {
	if p == nil {
		return nil
	}
	if p.Own != nil {
		if s := p.Own(); s != nil {
			list = append(list, s)
		}
	}
	for _, r := range p.told() {
		if r.Server != nil {
			list = append(list, r.Server)
		}
	}
	return list
}

// UnwellKeys are the Leases of servers that lack something: the gap cache looks at no others.
func (p *Processes) UnwellKeys() (keys []loop.Key) {
	for _, s := range p.Unwell() {
		keys = append(keys, loop.Key{Kind: coordination.Leases, Namespace: OwnNamespace, Name: s.Name})
	}
	return keys
}

// An Engine knows the loops of this process; *loop.Watchers does.
type Engine interface {
	Stats() []loop.Stats
	Records() map[string][]loop.Record
	Record(loop string, key loop.Key) (loop.Record, bool)
}

// What bounds what other processes may tell.
const (
	maxProcesses = 32
	maxReported  = 4096 // records, watches or refusals of one process
	maxText      = 1024 // of an error
	oftenSoon    = 1    // seconds between reports while somebody asks
	oftenElse    = 5    // and when nobody does
	staleReports = 4    // times that a report may be late before it counts no more
)

// Processes knows the loops of a cluster wherever they run: those of this process by the engine, those of others by what
// these report. It is safe for concurrent use.
type Processes struct {
	Here  Engine
	Self  string // this process, by the name that it stands for election with
	Lease string // of the election that this process stands for, NAMESPACE/NAME; "": its loops run here alone
	Kinds *resource.Set
	Read  func() resource.Reader
	Now   func() time.Time           // nil: time.Now
	Own   func() *convergence.Server // what the server of this process lacks; nil, or one that returns nil: nothing is known

	mu     sync.Mutex
	others map[string]*reported
	agents map[string]*reported // of nodes, by node
	wanted time.Time            // when somebody last asked
}

// reported is the last report of another process.
type reported struct {
	*convergence.Report
	until   time.Time
	records map[string]map[loop.Key]loop.Record // by loop
}

func (p *Processes) now() time.Time {
	if p.Now != nil {
		return p.Now()
	}
	return time.Now()
}

// Take takes a report in, and answers when the next one is wanted.
func (p *Processes) Take(r *convergence.Report) *convergence.Report {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	p.fresh(now)
	if _, known := p.others[r.Process]; (known || len(p.others) < maxProcesses) && r.Process != "" && r.Process != p.Self {
		if p.others == nil {
			p.others = map[string]*reported{}
		}
		t := &reported{Report: r, until: now.Add(staleReports * oftenElse * time.Second)}
		t.records = p.recordsOf(r)
		p.others[r.Process] = t
	}
	return &convergence.Report{Process: p.Self, Again: p.again(now)}
}

// again is after how many seconds the next report is wanted. The caller holds the lock.
func (p *Processes) again(now time.Time) int32 {
	if now.Sub(p.wanted) < Patience {
		return oftenSoon
	}
	return oftenElse
}

// recordsOf reads the records of a report.
func (p *Processes) recordsOf(r *convergence.Report) map[string]map[loop.Key]loop.Record {
	out := map[string]map[loop.Key]loop.Record{}
	for i := range r.Records[:min(len(r.Records), maxReported)] {
		x := &r.Records[i]
		k, ok := p.Kinds.GR(schema.ParseGroupResource(x.Resource))
		if !ok {
			continue
		}
		rec := loop.Record{Key: loop.Key{Kind: k, Namespace: x.Namespace, Name: x.Name}, State: x.State, Running: x.State == "running",
			Since: x.Since.Time, Fails: int(x.Fails),
			LastErr: x.Error, FirstFail: x.FirstFail.Time, LastFail: x.LastFail.Time, LastGood: x.LastGood.Time, Next: x.Next.Time,
			Note: x.Note}
		if out[x.Loop] == nil {
			out[x.Loop] = map[loop.Key]loop.Record{}
		}
		out[x.Loop][rec.Key] = rec
	}
	return out
}

// fresh are the reports that still count, by process. The caller holds the lock.
func (p *Processes) fresh(now time.Time) (list []*reported) {
	if len(p.others) == 0 {
		return nil
	}
	for name, r := range p.others {
		if r.until.Before(now) {
			delete(p.others, name)
			continue
		}
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b *reported) int { return cmp.Compare(a.Process, b.Process) })
	return list
}

// told are the reports that still count; to ask for them is to want them often.
func (p *Processes) told() []*reported {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wanted = p.now()
	return p.fresh(p.wanted)
}

func (p *Processes) here() []loop.Stats {
	if p.Here == nil {
		return nil
	}
	return p.Here.Stats()
}

// Rows are all loops that are known, with who leads them.
func (p *Processes) Rows() (list []*convergence.Loop) {
	told := p.told()
	replicas := map[string]int32{} // by lease
	if p.Lease != "" {
		replicas[p.Lease]++
	}
	for _, r := range told {
		if r.Lease != "" {
			replicas[r.Lease]++
		}
	}
	known := map[string]bool{}
	add := func(l *convergence.Loop, process, lease string) {
		if known[l.Name] {
			return
		}
		known[l.Name] = true
		l.Leader, l.Lease, l.Replicas = process, lease, max(replicas[lease], 1)
		list = append(list, l)
	}
	for _, s := range p.here() {
		add(loopOf(s), p.Self, p.Lease)
	}
	for _, r := range told {
		for i := range r.Loops[:min(len(r.Loops), maxReported)] {
			add(r.Loops[i].DeepCopyObject().(*convergence.Loop), r.Process, r.Lease)
		}
	}
	list = append(list, p.agentRows()...)
	for _, l := range p.leases() {
		key := l.Namespace + "/" + l.Name
		if p.follow(list, key, ptr.Deref(l.Spec.HolderIdentity, "")) {
			continue
		}
		add(elsewhere(l, p.now(), known[l.Name]), ptr.Deref(l.Spec.HolderIdentity, ""), key)
	}
	slices.SortFunc(list, func(a, b *convergence.Loop) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// follow says that loops of the list are elected by the lease, and has them led by its holder.
func (p *Processes) follow(list []*convergence.Loop, lease, holder string) (found bool) {
	for _, l := range list {
		if l.Lease == lease {
			l.Leader, found = holder, true
		}
	}
	return found
}

// leases are those by which controllers are elected: held ones that are no node's and no server's.
func (p *Processes) leases() (list []*coordinationv1.Lease) {
	if p.Read == nil {
		return nil
	}
	for _, l := range resource.List(p.Read(), coordination.Leases, "") {
		if l.Namespace != corev1.NamespaceNodeLease && ptr.Deref(l.Spec.HolderIdentity, "") != "" &&
			l.Labels["apiserver.kubernetes.io/identity"] == "" {
			list = append(list, l)
		}
	}
	return list
}

// elsewhere is a controller of which nothing but its lease is known.
func elsewhere(l *coordinationv1.Lease, now time.Time, taken bool) *convergence.Loop {
	row := &convergence.Loop{Outside: true}
	row.Name = l.Name
	if taken {
		row.Name += "." + l.Namespace
	}
	if at := l.Spec.RenewTime; at != nil {
		row.LastSuccess = Stamp(at.Time)
		if late := now.Sub(at.Time); late > LeaseLife(l) {
			row.LastError = &convergence.Failure{Message: "its lease was renewed last " + words.Ago(late) + " ago", Last: Stamp(at.Time)}
		}
	}
	return row
}

// LeaseLife is the time after which a lease that nobody renews is free.
func LeaseLife(l *coordinationv1.Lease) time.Duration {
	return time.Duration(ptr.Deref(l.Spec.LeaseDurationSeconds, 15)) * time.Second
}

// Patience is the time for which somebody who asked for gaps or loops is thought to look at them.
const Patience = 5 * time.Minute

// The lease of upstream's controller manager, which kloop's loops hold too.
const OwnNamespace, ownLease = "kube-system", "kube-controller-manager"

// Running are the loops that are known to run, and whether those that are not among them are known not to.
func (p *Processes) Running() (names map[string]bool, sure bool) {
	names = map[string]bool{}
	for _, s := range p.here() {
		names[s.Name] = true
	}
	for _, r := range p.told() {
		for i := range r.Loops {
			names[r.Loops[i].Name] = true
		}
	}
	if len(names) > 0 || p.Read == nil {
		return names, len(names) > 0
	}
	// Somebody who does not report may run them: upstream's controller manager. It holds the lease then.
	l := resource.Get(p.Read(), coordination.Leases, OwnNamespace, ownLease)
	return names, l == nil || ptr.Deref(l.Spec.HolderIdentity, "") == "" || l.Spec.RenewTime == nil ||
		p.now().Sub(l.Spec.RenewTime.Time) > LeaseLife(l)
}

// Records are those of all loops.
func (p *Processes) Records() map[string][]loop.Record {
	out := map[string][]loop.Record{}
	if p.Here != nil {
		out = p.Here.Records()
	}
	for _, r := range p.told() {
		for name, list := range r.records {
			out[name] = slices.AppendSeq(out[name], maps.Values(list))
		}
	}
	for _, r := range p.agentsNow() {
		out[agentLoop] = slices.AppendSeq(out[agentLoop], maps.Values(r.records[agentLoop]))
	}
	return out
}

// Record returns a loop's knowledge of a key, wherever it runs. A loop that reports tells only of keys that are not at rest:
// of others it is known that they are.
func (p *Processes) Record(name string, key loop.Key) (loop.Record, bool) {
	if p.Here != nil {
		if r, ok := p.Here.Record(name, key); ok {
			return r, true
		}
	}
	if name == agentLoop {
		if r, ok := p.ofAgent(key); ok {
			return r, true
		}
	}
	for _, r := range p.told() {
		if rec, ok := r.records[name][key]; ok {
			return rec, true
		}
		if len(r.Records) < maxReported && slices.ContainsFunc(r.Loops, func(l convergence.Loop) bool { return l.Name == name }) {
			return loop.Record{Key: key, State: "resting"}, true
		}
	}
	return loop.Record{}, false
}

// ReportOf returns a process's report of its loops: those that failed first, if there are more keys than a report takes.
func ReportOf(e Engine, process, lease string) *convergence.Report {
	r := &convergence.Report{Process: process, Lease: lease}
	r.Name = strings.ToLower(process)
	for _, s := range e.Stats() {
		r.Loops = append(r.Loops, *loopOf(s))
	}
	for name, list := range e.Records() {
		for i := range list {
			x := &list[i]
			r.Records = append(r.Records, convergence.Record{Loop: name, Resource: x.Key.Kind.Info().GR().String(),
				Namespace: x.Key.Namespace, Name: x.Key.Name, State: x.State,
				Since: micro(x.Since), Fails: int32(x.Fails), Error: cut(x.LastErr), FirstFail: micro(x.FirstFail),
				LastFail: micro(x.LastFail),
				LastGood: micro(x.LastGood), Next: micro(x.Next), Note: cut(x.Note)})
		}
	}
	coldsort.Func(r.Records, func(a, b convergence.Record) int {
		return cmp.Or(-cmp.Compare(a.Fails, b.Fails), -cmp.Compare(len(a.Note), len(b.Note)), cmp.Compare(a.Loop, b.Loop),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	r.Records = r.Records[:min(len(r.Records), maxReported)]
	return r
}

func micro(t time.Time) convergence.WireTime { return convergence.WireTime{Time: t} }

// cut bounds a text.
func cut(s string) string {
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText], "") + "…"
}
