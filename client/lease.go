package client

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds/coordination"
	"github.com/kloop-dev/kloop/resource"
)

// An Election makes one of several replicas the leader by holding a Lease, as upstream's components do: the
// holder renews it; the others take it when they have seen it unchanged for Duration. They compare their own
// clocks only, so clocks need not agree, only run at about the same speed.
type Election struct {
	Client    Client
	Namespace string // kube-system
	Name      string // of the Lease
	Identity  string // unique to this replica
	Duration  time.Duration
	Renew     time.Duration // at most a third of Duration
}

// Run waits to become leader, calls lead with a context that ends when leadership is lost, and returns when lead
// has returned: after a lost lease the caller must start cold. The lease is released at the end.
func (e Election) Run(ctx context.Context, lead func(ctx context.Context)) {
	held, since := e.acquire(ctx)
	if held == nil {
		return
	}
	slog.Info("leading", "object", "lease/"+e.Name)
	leading, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); lead(leading) }()
	e.hold(leading, held, since, done)
	stop()
	<-done
	e.release()
}

// acquire tries until it holds the lease; nil means that ctx ended. The write that took it began at since: the others may have seen it from
// then on, however late the answer came.
func (e Election) acquire(ctx context.Context) (held *coordinationv1.Lease, since time.Time) {
	var seen string // resourceVersion of the lease as first seen
	var seenAt time.Time
	for ctx.Err() == nil {
		cur, err := e.get(ctx)
		vacant := apierrors.IsNotFound(err)
		switch {
		case vacant:
			cur = nil
		case err != nil:
			slog.Warn("read the lease", "object", "lease/"+e.Name, "err", err)
		default:
			if cur.ResourceVersion != seen {
				seen, seenAt = cur.ResourceVersion, time.Now()
			}
			vacant = free(cur) || holder(cur) == e.Identity || time.Since(seenAt) > e.Duration
		}
		if vacant {
			since = time.Now()
			if held, err = e.write(ctx, cur); err == nil {
				return held, since
			}
		}
		sleep(ctx, e.Renew/2+rand.N(e.Renew))
	}
	return nil, time.Time{}
}

// hold renews until the lease is lost: somebody else has it, or Duration less one renewal passed without success since last, the beginning
// of the newest write that succeeded. No request lasts longer than that: another replica may be about to lead.
func (e Election) hold(ctx context.Context, held *coordinationv1.Lease, last time.Time, done <-chan struct{}) {
	for {
		deadline := last.Add(e.Duration - e.Renew)
		wait := min(e.Renew, time.Until(deadline))
		if wait <= 0 {
			slog.Warn("gave up the lease: it was not renewed in time", "object", "lease/"+e.Name)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-done:
			return
		case <-time.After(wait):
		}
		began := time.Now()
		if !began.Before(deadline) {
			continue
		}
		inTime, cancel := context.WithDeadline(ctx, deadline)
		l, err := e.renew(inTime, held)
		cancel()
		switch {
		case errors.Is(err, errLost):
			slog.Warn("lost the lease", "object", "lease/"+e.Name, "err", err)
			return
		case err == nil:
			held, last = l, began
		case l != nil:
			held = l
		default:
			slog.Warn("renew the lease", "object", "lease/"+e.Name, "err", err)
		}
	}
}

// errLost says that another replica has the lease.
var errLost = errors.New("another replica has it")

// renew writes the lease. Besides an error it may return the lease as it is, to be renewed next: an earlier renewal was written though its
// answer was lost.
func (e Election) renew(ctx context.Context, held *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	l, err := e.write(ctx, held)
	if !apierrors.IsConflict(err) {
		return l, err
	}
	cur, gerr := e.get(ctx)
	switch {
	case gerr != nil:
		return nil, gerr
	case holder(cur) != e.Identity:
		return nil, errLost
	}
	return cur, err
}

// get reads the lease. No request takes longer than the time between two renewals.
func (e Election) get(ctx context.Context) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, e.Renew)
	defer cancel()
	obj, err := e.Client.Get(ctx, coordination.Leases, e.Namespace, e.Name)
	if err != nil {
		return nil, err
	}
	return obj.(*coordinationv1.Lease), nil
}

// write creates the lease (cur is nil), takes it over or renews it.
func (e Election) write(ctx context.Context, cur *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, e.Renew)
	defer cancel()
	now, seconds := metav1.NowMicro(), int32(max(1, e.Duration/time.Second))
	if cur == nil {
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: e.Name}}
		l.Spec = coordinationv1.LeaseSpec{HolderIdentity: &e.Identity, LeaseDurationSeconds: &seconds, AcquireTime: &now,
			RenewTime: &now, LeaseTransitions: new(int32)}
		return lease(e.Client.Create(ctx, coordination.Leases, l))
	}
	l := resource.Clone(cur)
	if holder(l) != e.Identity {
		turns := int32(1)
		if l.Spec.LeaseTransitions != nil {
			turns += *l.Spec.LeaseTransitions
		}
		l.Spec.HolderIdentity, l.Spec.AcquireTime, l.Spec.LeaseTransitions = &e.Identity, &now, &turns
	}
	l.Spec.LeaseDurationSeconds, l.Spec.RenewTime = &seconds, &now
	return lease(e.Client.Update(ctx, coordination.Leases, l, ""))
}

func lease(obj resource.Object, err error) (*coordinationv1.Lease, error) {
	if err != nil {
		return nil, err
	}
	return obj.(*coordinationv1.Lease), nil
}

// release lets the next replica take over at once. Failing to do so only costs it the wait.
func (e Election) release() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	cur, err := e.get(ctx)
	if err != nil || holder(cur) != e.Identity {
		return
	}
	l, nobody, one := resource.Clone(cur), "", int32(1)
	l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds = &nobody, &one
	if _, err := e.Client.Update(ctx, coordination.Leases, l, ""); err != nil {
		slog.Debug("release the lease", "object", "lease/"+e.Name, "err", err)
	}
}

func holder(l *coordinationv1.Lease) string {
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

func free(l *coordinationv1.Lease) bool { return holder(l) == "" }

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
