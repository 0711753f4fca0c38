// Package instance is the instance manager, the first process in each pod: it runs PostgreSQL as primary or standby, as the cluster's
// status and the Lease say, and kills it when it may no longer be primary.
//
//	reads   PostgresCluster, Lease, the primary's Pod
//	writes  Lease; the annotation Report of its own Pod
//	rule    writes are taken only while the Lease is held, and only by whom the status names
package instance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kloop-dev/kloop/examples/postgres/api/v1alpha1"
)

// A Server is one PostgreSQL and its data. Methods are called one at a time, but for Kill, which may be called at any time and
// by any goroutine, and Version, which never changes.
type Server interface {
	Version() string
	Observe(ctx context.Context) (Local, error)
	Init(ctx context.Context, c *v1alpha1.PostgresCluster) error
	StartPrimary(ctx context.Context) error
	StartStandby(ctx context.Context, upstream string) error // of nobody if upstream is empty
	Promote(ctx context.Context) error
	Stop(ctx context.Context) error
	Follow(ctx context.Context, upstream string) error // nobody if upstream is empty
	Rewind(ctx context.Context, upstream string) error
	Clone(ctx context.Context, upstream string) error
	Tend(ctx context.Context, standbys []string) error
	Configure(ctx context.Context, c *v1alpha1.PostgresCluster) (settled bool, err error)
	Kill(reason string)
}

// A Manager runs one instance. All fields are required.
type Manager struct {
	API                     client.Client // reads from the API server, not from a cache
	Server                  Server
	Namespace, Cluster, Pod string
	UID                     types.UID // of the pod
	Timing                  Timing
	Log                     *slog.Logger

	lease    *lease
	ready    atomic.Bool
	reported string
	stuck    time.Time // since when a standby receives nothing; zero: it does
	rewound  bool
	failed   int       // starts that failed in a row
	quorum   time.Time // since when the wanted quorum is in force; zero: it is not
	read     int64     // generation of the cluster whose settings PostgreSQL had read before the present pass; 0: none
	act      Act       // of the last pass
	trouble  string    // why the last act failed
	last     string    // what was last decided, for the log
}

// patience bounds the time that a standby receives nothing before its data is looked at.
const patience = 20 * time.Second

// mostStarts bounds how often a primary tries to start before it lets another be primary.
const mostStarts = 3

// Run runs the instance until ctx ends. Then PostgreSQL is stopped cleanly, and the Lease given up.
func (m *Manager) Run(ctx context.Context) error {
	m.lease = newLease(m.API, client.ObjectKey{Namespace: m.Namespace, Name: m.Cluster}, v1alpha1.Holder(m.Pod, string(m.UID)), m.Timing,
		func() { m.Server.Kill("the lease could not be renewed") })
	renewing, cancel := context.WithCancel(context.WithoutCancel(ctx)) // beyond ctx: while PostgreSQL stops it is still primary
	done := make(chan struct{})
	go func() { defer close(done); m.lease.run(renewing) }()
	defer func() { cancel(); <-done; m.lease.abandon() }()
	for ctx.Err() == nil {
		moved, err := m.pass(ctx)
		if err != nil && ctx.Err() == nil {
			m.Log.Warn("a pass failed", "err", err)
		}
		if !moved || err != nil {
			pause(ctx, m.Timing.Poll)
		}
	}
	m.ready.Store(false)
	return m.leave()
}

// leave ends PostgreSQL, whatever it is.
func (m *Manager) leave() error {
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()
	if err := m.Server.Stop(ctx); err != nil {
		m.Server.Kill("it does not stop")
	}
	if !m.lease.held() {
		return nil
	}
	local, err := m.Server.Observe(ctx)
	if err != nil || local.Running {
		return err
	}
	end := local.LSN
	if !local.Clean {
		end = 0
	}
	return m.lease.release(ctx, end)
}

// Ready says whether clients may be sent here.
func (m *Manager) Ready() bool { return m.ready.Load() }

// pass observes, decides and acts. It says whether something was done, so that there is more to see at once.
func (m *Manager) pass(ctx context.Context) (moved bool, err error) {
	var c v1alpha1.PostgresCluster
	if err := m.API.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: m.Cluster}, &c); err != nil {
		return false, fmt.Errorf("read the cluster: %w", err)
	}
	local, err := m.Server.Observe(ctx)
	if err != nil {
		return false, fmt.Errorf("look at PostgreSQL: %w", err)
	}
	if !local.Running {
		m.read = 0
	}
	s := m.situation(ctx, &c, local)
	if !s.Held && !(local.Running && !local.InRecover) && (c.Status.TargetPrimary != m.Pod || c.Status.Election != nil) {
		m.lease.abandon() // it was lost while nobody was reached: the fence must not fall on a standby
	}
	settled := false
	if local.Data && !local.Broken {
		if settled, err = m.Server.Configure(ctx, &c); err != nil {
			return false, fmt.Errorf("configure: %w", err)
		}
	}
	act, reason := decide(s)
	if said := string(act) + ": " + reason; said != m.last && reason != "" {
		m.Log.Info(string(act), "reason", reason)
		m.last = said
	}
	last := m.act
	m.act = act
	m.ready.Store(local.Running && (local.InRecover || s.Held && act == Tend))
	if err := m.report(ctx, s, act, reason, m.inForce(&c, s, settled)); err != nil {
		return false, fmt.Errorf("report: %w", err)
	}
	if settled {
		m.read = c.Generation // what is observed from now on is of these settings
	}
	if err := m.do(ctx, act, s, &c); err != nil {
		m.trouble = fmt.Sprintf("%s: %v", act, err)
		return false, errors.New(m.trouble)
	}
	m.trouble = ""
	return act != Wait && act != Tend && act != last, nil
}

func (m *Manager) situation(ctx context.Context, c *v1alpha1.PostgresCluster, local Local) Situation {
	s := Situation{Me: m.Pod, Status: c.Status, Local: local, Held: m.lease.held(), Free: m.lease.free(), Rewound: m.rewound}
	s.Last = m.lease.state()
	holder := s.Last.holder
	if !v1alpha1.Satisfies(m.Server.Version(), c.Spec.EngineVersion) {
		s.Version = fmt.Sprintf("the image has PostgreSQL %s, wanted is %s", m.Server.Version(), c.Spec.EngineVersion)
	}
	if target := c.Status.TargetPrimary; target != m.Pod && target != "" && v1alpha1.HolderName(holder) == target {
		var pod corev1.Pod
		if err := m.API.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: target}, &pod); err == nil {
			r := v1alpha1.ReadReport(pod.Annotations)
			if r != nil && r.Role == v1alpha1.Primary && v1alpha1.Holder(pod.Name, string(pod.UID)) == holder {
				s.Upstream = pod.Status.PodIP
			}
		}
	}
	switch {
	case local.Receiving:
		m.stuck, m.rewound = time.Time{}, false
	case s.Upstream == "" || !local.Running || local.Upstream != s.Upstream:
		m.stuck = time.Time{}
	case m.stuck.IsZero():
		m.stuck = time.Now()
	}
	s.Stuck = !m.stuck.IsZero() && time.Since(m.stuck) > patience
	return s
}

// inForce returns the quorum for which commits wait by now. Processes of PostgreSQL read their settings one after the other, so
// what was set holds only after a while.
func (m *Manager) inForce(c *v1alpha1.PostgresCluster, s Situation, settled bool) *v1alpha1.Quorum {
	var before v1alpha1.Report
	_ = json.Unmarshal([]byte(m.reported), &before) // empty at first
	switch {
	case !settled || !s.Local.Running:
		m.quorum = time.Time{}
		return before.Quorum
	case m.quorum.IsZero():
		m.quorum = time.Now()
		return before.Quorum
	case time.Since(m.quorum) < 2*m.Timing.Poll:
		return before.Quorum
	}
	return c.Status.Quorum
}

// report writes what changed into the annotation.
func (m *Manager) report(ctx context.Context, s Situation, act Act, reason string, quorum *v1alpha1.Quorum) error {
	l := s.Local
	r := v1alpha1.Report{Version: m.Server.Version(), SystemID: l.SystemID, Generation: m.read, Restart: l.Restart, Paused: l.Paused,
		ArchiveBad: l.Archive}
	switch {
	case l.Running && l.InRecover:
		r.Role = v1alpha1.Replica
	case l.Running && s.Held:
		r.Role, r.Timeline, r.Streaming, r.Quorum = v1alpha1.Primary, l.Timeline, l.Streaming, quorum
	}
	if s.Status.Election != nil && act == Wait && s.Version == "" && (l.Running && l.AtEnd || !l.Running && l.Clean) {
		// Nothing is received and nothing written: the end of WAL stays where it is until there is a primary.
		r.Epoch, r.Timeline, r.LSN = s.Status.Epoch, l.Timeline, l.LSN
	}
	switch {
	case r.Role != "":
	case m.trouble != "":
		r.Problem = m.trouble[:min(len(m.trouble), 300)]
	case act == Wait:
		r.Problem = reason
	}
	if m.failed >= mostStarts {
		r.Problem = fmt.Sprintf("PostgreSQL has failed to start %d times; see the pod's log", mostStarts)
	}
	text, err := json.Marshal(r)
	if err != nil || string(text) == m.reported {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": m.UID, "annotations": map[string]string{
		v1alpha1.ReportAnno: string(text)}}})
	if err != nil {
		return err
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Pod}}
	if err := m.API.Patch(ctx, pod, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return err
	}
	m.reported = string(text)
	return nil
}

func (m *Manager) do(ctx context.Context, act Act, s Situation, c *v1alpha1.PostgresCluster) error {
	switch act {
	case Acquire:
		m.failed = 0
		m.lease.acquire(ctx, *metav1.NewControllerRef(c, v1alpha1.GroupVersion.WithKind("PostgresCluster")), c.Status.Epoch)
	case Release:
		if !s.Local.Clean { // what it has of WAL, nobody can know: let the Lease run out
			m.lease.abandon()
			return nil
		}
		return m.lease.release(ctx, s.Local.LSN)
	case Init:
		return m.Server.Init(ctx, c)
	case Start:
		return m.start(ctx, s)
	case Promote:
		return m.Server.Promote(ctx)
	case Stop:
		return m.Server.Stop(ctx)
	case Pause:
		return m.Server.Follow(ctx, "")
	case Follow:
		return m.Server.Follow(ctx, s.Upstream)
	case Rewind:
		m.rewound, m.stuck = true, time.Time{}
		return m.Server.Rewind(ctx, s.Upstream)
	case Clone:
		m.rewound, m.stuck = false, time.Time{}
		return m.Server.Clone(ctx, s.Upstream)
	case Tend:
		m.failed = 0
		return m.Server.Tend(ctx, others(c, m.Pod))
	}
	return nil
}

// start starts PostgreSQL. A primary that can't be started does not keep the Lease from one that can.
func (m *Manager) start(ctx context.Context, s Situation) (err error) {
	switch {
	case s.Status.Election == nil && s.Status.TargetPrimary == m.Pod && !s.Local.Signal:
		err = m.Server.StartPrimary(ctx)
	case s.Status.Election == nil && s.Status.TargetPrimary != m.Pod:
		err = m.Server.StartStandby(ctx, s.Upstream)
	default:
		err = m.Server.StartStandby(ctx, "")
	}
	if err == nil {
		return nil
	}
	if m.failed++; m.failed >= mostStarts {
		m.lease.abandon()
	}
	return err
}

// others lists the instances of a cluster but one.
func others(c *v1alpha1.PostgresCluster, me string) (list []string) {
	for i := range c.Instances() {
		if name := c.InstanceName(i + 1); name != me {
			list = append(list, name)
		}
	}
	return list
}
