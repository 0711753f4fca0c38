package instance

import (
	"context"
	"strconv"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kloop-dev/kloop/examples/postgres/api/v1alpha1"
)

// Timing bounds how long a primary that reaches nobody goes on, and how long its place stays empty.
type Timing struct {
	Poll     time.Duration // pause between two passes, and between two renewals
	Deadline time.Duration // a primary that could not renew this long is killed
	Duration time.Duration // a Lease not renewed this long is free; longer than Deadline by what killing takes
}

// Usual is the timing outside of tests.
var Usual = Timing{Poll: 500 * time.Millisecond, Deadline: 4 * time.Second, Duration: 6 * time.Second}

// grant describes the last holder, as the Lease has it.
type grant struct {
	there    bool
	holder   string // empty: it was given up
	epoch    int64  // of the cluster when it was taken
	released uint64 // where the WAL of a holder that gave it up ends; 0: unknown
}

// lease is an instance's end of the Lease. Its clock is its own: no time that another machine wrote is compared.
type lease struct {
	api    client.Client
	key    client.ObjectKey
	holder string
	timing Timing
	fence  *time.Timer // kills PostgreSQL

	mu      sync.Mutex
	want    bool
	owner   *metav1.OwnerReference
	epoch   int64
	until   time.Time // held until then
	seen    string    // resource version last seen
	since   time.Time // when it was first seen
	current string    // holder last seen
	last    grant
	known   bool // the Lease was read
}

func newLease(api client.Client, key client.ObjectKey, holder string, timing Timing, kill func()) *lease {
	l := &lease{api: api, key: key, holder: holder, timing: timing}
	l.fence = time.AfterFunc(time.Hour, func() {
		kill()
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.want && !time.Now().Before(l.until) { // what is being started as the fence falls is killed too
			l.fence.Reset(100 * time.Millisecond)
		}
	})
	l.fence.Stop()
	return l
}

// run reads the Lease, and renews it while it is wanted, until ctx ends.
func (l *lease) run(ctx context.Context) {
	for ctx.Err() == nil {
		l.tick(ctx, false)
		pause(ctx, l.timing.Poll)
	}
}

// tick reads the Lease and renews it if it is ours. It takes one that is free only if it is to: who may is not decided here.
func (l *lease) tick(ctx context.Context, take bool) {
	l.mu.Lock()
	want, owner := l.want, l.owner
	l.mu.Unlock()
	start := time.Now() // before the request: what it grants counts from here
	var obj coordinationv1.Lease
	err := l.api.Get(ctx, l.key, &obj)
	switch {
	case apierrors.IsNotFound(err) && take && owner != nil:
		obj = coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: l.key.Namespace, Name: l.key.Name,
			OwnerReferences: []metav1.OwnerReference{*owner}}}
		l.sign(&obj, start)
		if l.api.Create(ctx, &obj) == nil {
			l.granted(start)
		}
		return
	case err != nil:
		if apierrors.IsNotFound(err) {
			l.observe(&coordinationv1.Lease{})
		}
		return
	}
	l.observe(&obj)
	if !want || !l.mine() && (!take || !l.free()) {
		return
	}
	l.sign(&obj, start)
	delete(obj.Annotations, v1alpha1.ReleasedAnno)
	if l.api.Update(ctx, &obj) == nil { // a conflict: another was faster
		l.observe(&obj)
		l.granted(start)
	}
}

func (l *lease) sign(obj *coordinationv1.Lease, now time.Time) {
	if obj.Spec.HolderIdentity == nil || *obj.Spec.HolderIdentity != l.holder {
		obj.Spec.AcquireTime = &metav1.MicroTime{Time: now}
	}
	obj.Spec.HolderIdentity, obj.Spec.RenewTime = &l.holder, &metav1.MicroTime{Time: now}
	obj.Spec.LeaseDurationSeconds = new(int32(l.timing.Duration / time.Second))
	metav1.SetMetaDataAnnotation(&obj.ObjectMeta, v1alpha1.EpochAnno, strconv.FormatInt(l.epoch, 10))
}

func (l *lease) observe(obj *coordinationv1.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.known || obj.ResourceVersion != l.seen {
		l.seen, l.since, l.known = obj.ResourceVersion, time.Now(), true
	}
	l.current = ""
	if obj.Spec.HolderIdentity != nil {
		l.current = *obj.Spec.HolderIdentity
	}
	l.last = grant{there: obj.ResourceVersion != "", holder: l.current}
	l.last.released, _ = strconv.ParseUint(obj.Annotations[v1alpha1.ReleasedAnno], 16, 64) // none: 0
	l.last.epoch, _ = strconv.ParseInt(obj.Annotations[v1alpha1.EpochAnno], 10, 64)
}

// granted counts from before the request: the fence falls before anybody may think that the Lease has run out.
func (l *lease) granted(start time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.want { // given up meanwhile
		return
	}
	l.until = start.Add(l.timing.Deadline)
	l.fence.Reset(time.Until(l.until))
}

func (l *lease) mine() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known && l.current == l.holder
}

// free says whether nobody holds the Lease: it was given up, or has not changed for its duration.
func (l *lease) free() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known && (l.current == "" || l.current == l.holder || time.Since(l.since) > l.timing.Duration)
}

// held says whether the Lease is ours until the fence falls.
func (l *lease) held() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.want && time.Now().Before(l.until)
}

func (l *lease) state() grant {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// acquire makes the Lease wanted, and tries at once.
func (l *lease) acquire(ctx context.Context, owner metav1.OwnerReference, epoch int64) {
	l.mu.Lock()
	l.want, l.owner, l.epoch = true, &owner, epoch
	l.mu.Unlock()
	l.tick(ctx, true)
}

// abandon lets the Lease run out.
func (l *lease) abandon() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.want, l.until = false, time.Time{}
	l.fence.Stop()
}

// release gives the Lease up at once. PostgreSQL must not take writes any more. The end of its WAL is written down,
// so that nobody is promoted who has less; 0: it is not known.
func (l *lease) release(ctx context.Context, end uint64) error {
	l.abandon()
	var obj coordinationv1.Lease
	if err := l.api.Get(ctx, l.key, &obj); err != nil {
		return client.IgnoreNotFound(err)
	}
	if obj.Spec.HolderIdentity == nil || *obj.Spec.HolderIdentity != l.holder {
		return nil
	}
	obj.Spec.HolderIdentity = nil
	if end > 0 {
		metav1.SetMetaDataAnnotation(&obj.ObjectMeta, v1alpha1.ReleasedAnno, strconv.FormatUint(end, 16))
	}
	return l.api.Update(ctx, &obj)
}

// pause waits, unless ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
