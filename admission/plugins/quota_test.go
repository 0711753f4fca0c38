package plugins

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/auth/authtest"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/quota"
	kloop "github.com/kloop-dev/kloop/resource"
)

func amounts(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func limits(name string, hard, used corev1.ResourceList, scopes ...corev1.ResourceQuotaScope) *corev1.ResourceQuota {
	return &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "u", ResourceVersion: "1"},
		Spec: corev1.ResourceQuotaSpec{Hard: hard, Scopes: scopes}, Status: corev1.ResourceQuotaStatus{Hard: hard, Used: used}}
}

// ledger is a store of quotas; the view that requests read stays behind it.
type ledger struct {
	mu     sync.Mutex
	quotas map[string]*corev1.ResourceQuota
	writes int
	before func(l *ledger, q *corev1.ResourceQuota) // called with the lock held, before a charge
}

func newLedger(list ...*corev1.ResourceQuota) *ledger {
	l := &ledger{quotas: map[string]*corev1.ResourceQuota{}}
	for _, q := range list {
		l.quotas[q.Name] = q
	}
	return l
}

func (l *ledger) charge(_ context.Context, q *corev1.ResourceQuota) (*corev1.ResourceQuota, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.before != nil {
		l.before(l, q)
	}
	have := l.quotas[q.Name]
	if have == nil {
		return nil, apierrors.NewNotFound(core.ResourceQuotas.Info().GR(), q.Name)
	}
	if have.ResourceVersion != q.ResourceVersion {
		return nil, apierrors.NewConflict(core.ResourceQuotas.Info().GR(), q.Name, errors.New("changed"))
	}
	l.writes++
	l.put(q)
	return l.quotas[q.Name], nil
}

func (l *ledger) put(q *corev1.ResourceQuota) {
	q = q.DeepCopy()
	n, _ := strconv.Atoi(l.quotas[q.Name].ResourceVersion)
	q.ResourceVersion = strconv.Itoa(n + 1)
	l.quotas[q.Name] = q
}

func (l *ledger) live(_ context.Context, _ kloop.Kind, _, name string) (kloop.Object, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q := l.quotas[name]; q != nil {
		return q, nil
	}
	return nil, apierrors.NewNotFound(core.ResourceQuotas.Info().GR(), name)
}

func (l *ledger) used(name, what string) string {
	q := l.quotas[name].Status.Used[corev1.ResourceName(what)]
	return q.String()
}

func quotaChain(l *ledger) admission.Chain {
	c := Default(admission.Config{Charge: l.charge})
	return c[len(c)-1:]
}

func TestQuotaExact(t *testing.T) {
	const allowed, asking = 20, 64
	q := limits("q", amounts("pods", "20"), amounts("pods", "0"))
	l := newLedger(q)
	servers := []admission.Chain{quotaChain(l), quotaChain(l)} // two servers at one store, both with a view that never moves
	read := authtest.Of(core.ResourceQuotas, q)
	var wg sync.WaitGroup
	var mu sync.Mutex
	ok, refusals := 0, 0
	for i := range asking {
		wg.Go(func() {
			p := simplePod()
			p.Name = fmt.Sprint("p", i)
			_, err := admit(servers[i%2], &admission.Request{Op: admission.Create, Kind: core.Pods, Read: read, Live: l.live}, p)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				ok++
			case apierrors.IsForbidden(err):
				refusals++
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if ok != allowed || refusals != asking-allowed || l.used("q", "pods") != "20" {
		t.Errorf("%d let in, %d refused, used %s", ok, refusals, l.used("q", "pods"))
	}
}

// Claims that grow at once, through two servers, get exactly what is left.
func TestQuotaExactUpdates(t *testing.T) {
	const fits, asking = 10, 64
	q := limits("q", amounts("requests.storage", "74Gi"), amounts("requests.storage", "64Gi")) // 64 claims of 1 Gi
	l := newLedger(q)
	servers := []admission.Chain{quotaChain(l), quotaChain(l)}
	read := authtest.Of(core.ResourceQuotas, q)
	var wg sync.WaitGroup
	var grown, refusals atomic.Int64
	for i := range asking {
		wg.Go(func() {
			claim := func(size string) *corev1.PersistentVolumeClaim {
				return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("c", i),
					ResourceVersion: "1"},
					Spec: corev1.PersistentVolumeClaimSpec{Resources: corev1.VolumeResourceRequirements{Requests: amounts("storage",
						size)}}}
			}
			_, err := admit(servers[i%2], &admission.Request{Op: admission.Update, Kind: core.PersistentVolumeClaims, Read: read,
				Live: l.live,
				Old:  claim("1Gi")}, claim("2Gi"))
			switch {
			case err == nil:
				grown.Add(1)
			case apierrors.IsForbidden(err):
				refusals.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if grown.Load() != fits || refusals.Load() != asking-fits || l.used("q", "requests.storage") != "74Gi" {
		t.Errorf("%d grown, %d refused, used %s", grown.Load(), refusals.Load(), l.used("q", "requests.storage"))
	}
}

func TestQuotaMessages(t *testing.T) {
	for _, c := range []struct {
		name  string
		quota *corev1.ResourceQuota
		pod   func(p *corev1.Pod)
		text  string // "": let in
		used  string // pods
	}{
		{"fits", limits("q", amounts("pods", "2"), amounts("pods", "1")), nil, "", "2"},
		{"exceeded", limits("q", amounts("pods", "2"), amounts("pods", "2")), nil,
			`pods "p" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2`, "2"},
		{"undeclared", limits("q", amounts("pods", "2", "limits.cpu", "1", "cpu", "1"), amounts("pods", "0", "limits.cpu", "0", "cpu",
			"0")), nil,
			`failed quota: q: must specify cpu for: c; limits.cpu for: c`, "0"},
		{"unknown", limits("q", amounts("pods", "2"), nil), nil, "status unknown for quota: q, resources: pods", "0"},
		{"best effort", limits("q", amounts("pods", "0"), amounts("pods", "0"), corev1.ResourceQuotaScopeBestEffort), nil,
			"exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0", "0"},
		{"burstable is out of scope", limits("q", amounts("pods", "0"), amounts("pods", "0"), corev1.ResourceQuotaScopeBestEffort),
			func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = amounts("cpu", "1m") }, "", "0"},
		{"other resources", limits("q", amounts("services", "0"), amounts("services", "0")), nil, "", "0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLedger(c.quota)
			p := simplePod()
			if c.pod != nil {
				c.pod(p)
			}
			_, err := admit(quotaChain(l), &admission.Request{Op: admission.Create, Kind: core.Pods, Live: l.live,
				Read: authtest.Of(core.ResourceQuotas, c.quota)}, p)
			if c.text == "" && err != nil {
				t.Error(err)
			} else if c.text != "" {
				refused(t, err, metav1.StatusReasonForbidden, c.text)
			}
			if got := l.used("q", "pods"); got != c.used {
				t.Errorf("used %s", got)
			}
		})
	}
}

func TestQuotaDryRun(t *testing.T) {
	q := limits("q", amounts("pods", "1"), amounts("pods", "0"))
	l := newLedger(q)
	r := &admission.Request{Op: admission.Create, Kind: core.Pods, DryRun: true, Live: l.live, Read: authtest.Of(core.ResourceQuotas, q)}
	if _, err := admit(quotaChain(l), r, simplePod()); err != nil || l.writes != 0 {
		t.Errorf("%v, %d writes", err, l.writes)
	}
}

func TestQuotaUpdate(t *testing.T) {
	q := limits("q", amounts("services.nodeports", "1"), amounts("services.nodeports", "1"))
	l := newLedger(q)
	old := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s", ResourceVersion: "1"},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Ports: []corev1.ServicePort{{Port: 80}}}}
	next := old.DeepCopy()
	next.Spec.Type = corev1.ServiceTypeNodePort
	read := authtest.Of(core.ResourceQuotas, q)
	_, err := admit(quotaChain(l), &admission.Request{Op: admission.Update, Kind: core.Services, Old: old, Live: l.live, Read: read}, next)
	refused(t, err, metav1.StatusReasonForbidden, "exceeded quota: q, requested: services.nodeports=1")
	if _, err := admit(quotaChain(l), &admission.Request{Op: admission.Update, Kind: core.Services, Old: next, Live: l.live, Read: read},
		next); err != nil || l.writes != 0 {
		t.Errorf("no change costs: %v %d", err, l.writes)
	}
}

// A pod that grows while it runs is charged for what it grows by.
func TestQuotaResize(t *testing.T) {
	for _, c := range []struct{ cpu, memory, text string }{
		{"300m", "300Mi", ""}, {"500m", "500Mi", ""}, {"200m", "200Mi", ""},
		{"501m", "200Mi", "exceeded quota: q, requested: cpu=201m, used: cpu=800m, limited: cpu=1"},
		{"300m", "501Mi", "exceeded quota: q, requested: memory=201Mi, used: memory=800Mi, limited: memory=1000Mi"},
		{"501m", "501Mi", "exceeded quota: q, requested: cpu=201m,memory=201Mi"},
	} {
		q := limits("q", amounts("cpu", "1", "memory", "1000Mi"), amounts("cpu", "800m", "memory", "800Mi"))
		l := newLedger(q)
		old, next := simplePod(), simplePod()
		old.ResourceVersion = "1"
		old.Spec.Containers[0].Resources.Requests = amounts("cpu", "300m", "memory", "300Mi")
		next.Spec.Containers[0].Resources.Requests = amounts("cpu", c.cpu, "memory", c.memory)
		_, err := admit(quotaChain(l), &admission.Request{Op: admission.Update, Sub: "resize", Kind: core.Pods, Old: old, Live: l.live,
			Read: authtest.Of(core.ResourceQuotas, q)}, next)
		if c.text != "" {
			refused(t, err, metav1.StatusReasonForbidden, c.text)
		} else if err != nil {
			t.Errorf("to %s and %s: %v", c.cpu, c.memory, err)
		}
	}
}

// TestQuotaRace lets somebody else charge between reading and writing, and delete the quota.
func TestQuotaRace(t *testing.T) {
	q := limits("q", amounts("pods", "2"), amounts("pods", "0"))
	read := authtest.Of(core.ResourceQuotas, q)
	l := newLedger(q)
	left := 2
	l.before = func(l *ledger, _ *corev1.ResourceQuota) {
		if left > 0 {
			left--
			other := l.quotas["q"].DeepCopy()
			quota.Add(other.Status.Used, amounts("pods", "1"))
			l.put(other)
		}
	}
	_, err := admit(quotaChain(l), &admission.Request{Op: admission.Create, Kind: core.Pods, Live: l.live, Read: read}, simplePod())
	refused(t, err, metav1.StatusReasonForbidden, "used: pods=2, limited: pods=2")

	l = newLedger(q)
	delete(l.quotas, "q")
	if _, err := admit(quotaChain(l), &admission.Request{Op: admission.Create, Kind: core.Pods, Live: l.live, Read: read},
		simplePod()); err != nil {
		t.Errorf("a quota that is gone: %v", err)
	}
	l = newLedger(q)
	l.before = func(l *ledger, _ *corev1.ResourceQuota) { l.put(l.quotas["q"]) } // changes every time
	if _, err := admit(quotaChain(l), &admission.Request{Op: admission.Create, Kind: core.Pods, Live: l.live, Read: read},
		simplePod()); !apierrors.IsInternalError(err) {
		t.Errorf("endless conflict: %v", err)
	}
}

func BenchmarkQuota(b *testing.B) {
	q := limits("q", amounts("pods", "1000000000"), amounts("pods", "0"))
	l := newLedger(q)
	c, read := quotaChain(l), authtest.Of(core.ResourceQuotas, q)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := admit(c, &admission.Request{Op: admission.Create, Kind: core.Pods, Live: l.live, Read: read},
				simplePod()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/float64(max(l.writes, 1)), "pods/write")
}
