package simulation

import (
	"math"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

// checks look at every revision. What they know of the past they have seen themselves.
type checks struct {
	w     *world
	rev   int64
	mover string // who wrote last

	generation map[types.UID]int64
	observed   map[types.UID]int64
	wasReady   map[types.UID]string    // pods that were ever ready: their address
	unready    map[types.UID]time.Time // pods that were ready and are not, or are gone: since when
	limits     map[types.UID]*limit    // replicas that were asked for lately, by workload
	jobs       map[types.UID]*tally
	calm       map[types.UID]bool // deployments that were complete and have not been disturbed since
	doubts     map[string]time.Time
	rules      rules
	busy       time.Time // when something but a heartbeat was last written
	business   string
}

func newChecks(w *world) *checks {
	return &checks{w: w, generation: map[types.UID]int64{}, observed: map[types.UID]int64{}, wasReady: map[types.UID]string{},
		unready: map[types.UID]time.Time{}, limits: map[types.UID]*limit{}, jobs: map[types.UID]*tally{}, calm: map[types.UID]bool{},
		doubts: map[string]time.Time{}, rules: rules{since: map[string]time.Time{}}}
}

// writing notes who is about to write.
func (c *checks) writing(who string) { c.mover = who }

// calmEnd is the time before the end of a run in which nothing may be written: a loop that writes then, writes for ever.
const calmEnd = 5 * time.Minute

// restless tells of what does not come to rest.
func (c *checks) restless() {
	if ago := time.Since(c.busy); ago < calmEnd {
		c.w.fail("no rest: %s ago %s", ago, c.business)
	}
	for name, list := range c.w.loops.Records() {
		for _, r := range list {
			if r.Fails > 0 {
				c.w.fail("%s still fails: %s: %s", name, r.Key, r.LastErr)
			}
		}
	}
}

// doubt notes that somebody was not told what became of a write, or that it forgot. It may do once more what it did
// before it sees that.
func (w *world) doubt(who string) { w.checks.doubts[who] = time.Now() }

// doubtful says whether a loop may do twice what it should do once.
func (c *checks) doubtful(who string) bool {
	at, ok := c.doubts[who]
	return ok && time.Since(at) < stale
}

// stale is the age that a loop's view can have: it was cut off, late, and down.
const stale = 2 * time.Minute

// look checks one moment.
func (c *checks) look(m moment) {
	for _, x := range m.changes {
		c.order(x)
		if x.Kind != resource.Kind(kinds.Leases) {
			c.busy, c.business = time.Now(), c.mover+" wrote a "+x.Kind.Info().Singular
		}
		c.ruled(m, x)
		c.collected(m, x)
		c.kind(m, x)
	}
	c.mover = "admin"
}

// kind checks what holds for one kind.
func (c *checks) kind(m moment, x view.Change) {
	switch x.Kind {
	case resource.Kind(kinds.Pods):
		c.pod(m, x)
		c.renamed(m, x)
		c.condemned(m, x)
	case kinds.EndpointSlices:
		c.endpoints(m, x)
	case kinds.ReplicaSets:
		c.replicaSet(m, x)
	case kinds.ReplicationControllers:
		if _, rc := of[*corev1.ReplicationController](x); rc != nil {
			c.limit(rc.UID).ask(*rc.Spec.Replicas)
		}
	case kinds.Deployments:
		c.deployment(m, x)
		c.bounds(m, x)
	case kinds.Jobs:
		c.job(m, x)
	case kinds.CronJobs:
		c.cronJob(x)
	case kinds.Services:
		c.service(m, x)
	case kinds.PersistentVolumeClaims:
		c.claim(m, x)
	case kinds.VolumeAttachments:
		c.attached(m, x)
	case kinds.ResourceClaims:
		c.device(m, x)
	case kinds.PodDisruptionBudgets:
		c.budget(x)
	case kinds.ResourceQuotas:
		c.quotaSet(x)
	case kinds.MutatingWebhookConfigurations, kinds.ValidatingWebhookConfigurations, kinds.ValidatingAdmissionPolicyBindings:
		c.stand(x)
	}
}

func object(e *view.Entry) resource.Object {
	if e == nil {
		return nil
	}
	return e.Object
}

// order checks what holds for all objects: revisions and generations only grow, and nothing goes that is held.
func (c *checks) order(x view.Change) {
	if x.Rev < c.rev {
		c.w.fail("revision %d after %d", x.Rev, c.rev)
	}
	c.rev = x.Rev
	obj := object(x.New)
	if obj == nil {
		// The write that takes the last finalizer away removes an object that is going.
		if old := object(x.Old); len(old.GetFinalizers()) > 0 && old.GetDeletionTimestamp() == nil {
			c.w.fail("%s removed %s %s although %v hold it", c.mover, x.Kind.Info().Singular, x.Old.Key(), old.GetFinalizers())
		}
		return
	}
	if resource.Revision(obj) != x.Rev {
		c.w.fail("%s %s has revision %s at %d", x.Kind.Info().Singular, x.New.Key(), obj.GetResourceVersion(), x.Rev)
	}
	uid := obj.GetUID()
	if g := obj.GetGeneration(); g < c.generation[uid] {
		c.w.fail("generation of %s %s went from %d to %d", x.Kind.Info().Singular, x.New.Key(), c.generation[uid], g)
	} else if g > 0 {
		c.generation[uid] = g
	}
	if seen, ok := observedOf(obj); ok {
		if seen < c.observed[uid] || seen > obj.GetGeneration() {
			c.w.fail("%s: %s %s says it observed generation %d after %d; it has %d", c.mover, x.Kind.Info().Singular, x.New.Key(), seen,
				c.observed[uid], obj.GetGeneration())
		}
		c.observed[uid] = seen
	}
}

func observedOf(obj resource.Object) (int64, bool) {
	switch x := obj.(type) {
	case *appsv1.Deployment:
		return x.Status.ObservedGeneration, true
	case *appsv1.ReplicaSet:
		return x.Status.ObservedGeneration, true
	case *appsv1.StatefulSet:
		return x.Status.ObservedGeneration, true
	case *appsv1.DaemonSet:
		return x.Status.ObservedGeneration, true
	}
	return 0, false
}

// A limit holds what was asked for lately: a loop may act on any of it.
type limit struct {
	list []asked
}

type asked struct {
	n     int32
	until time.Time // when it was replaced; zero: it stands
}

func (l *limit) ask(n int32) {
	now := time.Now()
	if k := len(l.list); k > 0 {
		if l.list[k-1].n == n {
			return
		}
		l.list[k-1].until = now
	}
	l.list = append(l.list, asked{n: n})
	for len(l.list) > 1 && !l.list[0].until.IsZero() && now.Sub(l.list[0].until) > stale {
		l.list = l.list[1:]
	}
}

func (l *limit) most() (n int32) {
	for _, a := range l.list {
		if a.until.IsZero() || time.Since(a.until) <= stale {
			n = max(n, a.n)
		}
	}
	return n
}

func (l *limit) least() int32 {
	n := int32(math.MaxInt32)
	for _, a := range l.list {
		if a.until.IsZero() || time.Since(a.until) <= stale {
			n = min(n, a.n)
		}
	}
	return n
}

func (c *checks) limit(uid types.UID) *limit {
	if c.limits[uid] == nil {
		c.limits[uid] = &limit{}
	}
	return c.limits[uid]
}

// active pods are those that count: neither ended nor on their way out.
func active(p *corev1.Pod) bool { return p.DeletionTimestamp == nil && !over(p) }

func over(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

func isReady(p *corev1.Pod) bool {
	for _, x := range p.Status.Conditions {
		if x.Type == corev1.PodReady {
			return x.Status == corev1.ConditionTrue
		}
	}
	return false
}
