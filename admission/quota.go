package admission

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/quota"
	"github.com/kloop-dev/kloop/resource"
)

// How often a charge is tried again when somebody else changed the quota meanwhile, and how long it may take.
const (
	chargeTries = 8
	chargeTime  = 10 * time.Second
)

// maxLines bounds how many namespaces' last charges are remembered.
const maxLines = 1024

// quotas charges what is created to the quotas of its namespace. A charge is a compare-and-swap of the
// quota's status, so that two servers can never both spend the same rest. Within a server the charges of one
// namespace stand in line: whoever comes first settles the bills of all that wait, with one write.
type quotas struct {
	charge  func(ctx context.Context, q *corev1.ResourceQuota) (*corev1.ResourceQuota, error)
	now     func() time.Time
	limited []LimitedResource
	more    []quota.Counter

	mu    sync.Mutex
	lines map[string]*line
}

// A line is a namespace's queue of bills.
type line struct {
	users   int // guarded by quotas.mu
	waiting []*bill
	// recent holds quotas as last charged, which the view may not show yet. The view's answers replace them
	// as soon as they are newer.
	recent map[string]*corev1.ResourceQuota
	work   sync.Mutex // held while settling; guards recent
}

// A bill lists the usage that one request adds to the quotas.
type bill struct {
	r    *Request
	use  corev1.ResourceList
	paid map[string]bool // quotas that are charged already
	done bool            // guarded by line.work
	err  error
}

func newQuotas(cfg Config) *quotas {
	s := &quotas{charge: cfg.Charge, now: cfg.Now, limited: cfg.Limited, lines: map[string]*line{}}
	if cfg.Count != nil {
		s.more = append(s.more, cfg.Count)
	}
	return s
}

func (s *quotas) validate(ctx context.Context, r *Request) error {
	if s.charge == nil || r.Namespace == "" || !r.Kind.Info().Namespaced || !charged(r) {
		return nil
	}
	list := resource.List(r.Read, core.ResourceQuotas, r.Namespace)
	if err := s.covered(r, list); err != nil || len(list) == 0 {
		return err
	}
	use, err := s.price(r, list)
	if err != nil || len(use) == 0 {
		return err
	}
	b := &bill{r: r, use: use, paid: map[string]bool{}}
	l := s.join(r.Namespace, b)
	defer s.leave(r.Namespace, l)
	l.work.Lock()
	defer l.work.Unlock()
	if !b.done {
		s.settle(ctx, l, s.take(l))
	}
	return b.err
}

// charged tells which requests cost something: creations, and changes of what can grow.
func charged(r *Request) bool {
	switch {
	case r.Sub == "resize":
		return r.Of("", "pods", Update)
	case r.Sub != "" || r.Object == nil:
		return false
	case r.Op == Create:
		return true
	}
	return r.On("", "services", Update) || r.On("", "persistentvolumeclaims", Update) || r.On("resource.k8s.io", "resourceclaims", Update)
}

// price checks what can be checked without looking at what is left, and says what the request costs.
func (s *quotas) price(r *Request, list []*corev1.ResourceQuota) (corev1.ResourceList, error) {
	any := false
	for _, q := range list {
		if !quota.Applies(q, q.Status.Hard, r.GR(), r.Object) {
			continue
		}
		any = true
		names := quota.Relevant(r.GR(), q.Status.Hard)
		if pod, ok := r.Object.(*corev1.Pod); ok {
			if err := quota.Undeclared(pod, names); err != nil {
				return nil, r.Refuse("failed quota: %s: %v", q.Name, err)
			}
		}
		for _, n := range names {
			if _, ok := q.Status.Used[n]; !ok {
				return nil, r.Refuse("status unknown for quota: %s, resources: %s", q.Name, joinNames(names))
			}
		}
	}
	if !any {
		return nil, nil
	}
	use := quota.Usage(r.GR(), r.Object, s.now(), s.more...)
	var negative []corev1.ResourceName
	for name, q := range Sorted(use) {
		if q.Sign() < 0 {
			negative = append(negative, name)
		}
	}
	if len(negative) > 0 {
		return nil, r.Refuse("quota usage is negative for resource(s): %s", joinNames(negative))
	}
	if r.Op == Update && r.Old != nil && r.Old.GetResourceVersion() != "" {
		use = quota.Less(use, quota.Usage(r.GR(), r.Old, s.now(), s.more...))
	}
	for name, q := range use {
		if q.IsZero() {
			delete(use, name)
		}
	}
	return use, nil
}

func joinNames(names []corev1.ResourceName) string {
	var parts []string
	for _, n := range names {
		parts = append(parts, string(n))
	}
	return strings.Join(parts, ",")
}

func (s *quotas) join(ns string, b *bill) *line {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lines[ns]
	if l == nil {
		l = &line{recent: map[string]*corev1.ResourceQuota{}}
		s.lines[ns] = l
	}
	l.users++
	l.waiting = append(l.waiting, b)
	return l
}

func (s *quotas) take(l *line) []*bill {
	s.mu.Lock()
	defer s.mu.Unlock()
	batch := l.waiting
	l.waiting = nil
	return batch
}

// leave forgets a line that nobody stands in, if there are too many.
func (s *quotas) leave(ns string, l *line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.users--; l.users == 0 && len(s.lines) > maxLines {
		delete(s.lines, ns)
	}
}

// settle pays the bills of a batch. One request's end must not fail the others, so it goes on without its
// context. A bill that pays some quotas and is then refused by another leaves the former too high until they
// are counted again.
func (s *quotas) settle(ctx context.Context, l *line, batch []*bill) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), chargeTime)
	defer cancel()
	open := l.current(batch[0].r)
	for try := 0; len(open) > 0; try++ {
		changed := judge(open, batch)
		open = nil
		for _, c := range changed {
			stored, err := s.charge(ctx, c.quota)
			switch {
			case err == nil:
				l.recent[stored.Name] = stored
				for _, b := range c.payers {
					b.paid[stored.Name] = true
				}
			case apierrors.IsNotFound(err):
			case apierrors.IsConflict(err) && try+1 < chargeTries:
				if q, err := Live(ctx, batch[0].r, core.ResourceQuotas, c.quota.Namespace, c.quota.Name); err == nil {
					open = append(open, q)
				} else if !apierrors.IsNotFound(err) {
					fail(c.payers, err)
				}
			default:
				fail(c.payers, fmt.Errorf("charge the quota %s: %w", c.quota.Name, err))
			}
		}
	}
	for _, b := range batch {
		b.done = true
	}
}

func fail(bills []*bill, err error) {
	for _, b := range bills {
		b.err = apierrors.NewInternalError(err)
	}
}

// current lists the namespace's quotas: as the view shows them, or as last charged when that is newer.
func (l *line) current(r *Request) []*corev1.ResourceQuota {
	list := resource.List(r.Read, core.ResourceQuotas, r.Namespace)
	for i, q := range list {
		if mine := l.recent[q.Name]; mine != nil && mine.UID == q.UID && resource.Revision(mine) > resource.Revision(q) {
			list[i] = mine
		}
	}
	return list
}

// A change is a quota with its new status, and the bills that it comes from.
type change struct {
	quota  *corev1.ResourceQuota
	payers []*bill
}

// judge decides the bills one after the other: each is refused, or added to all quotas that apply to it.
func judge(list []*corev1.ResourceQuota, batch []*bill) (changed []change) {
	all := make([]change, len(list))
	for i, q := range list {
		all[i].quota = q.DeepCopy()
	}
	for _, b := range batch {
		if b.err != nil {
			continue
		}
		var mine []*change
		for i := range all {
			if c := &all[i]; !b.paid[c.quota.Name] && quota.Applies(c.quota, c.quota.Status.Hard, b.r.GR(), b.r.Object) {
				mine = append(mine, c)
			}
		}
		if b.err = exceeded(mine, b); b.err != nil || b.r.DryRun {
			continue
		}
		for _, c := range mine {
			if add(c.quota, b.use) {
				c.payers = append(c.payers, b)
			}
		}
	}
	return slices.DeleteFunc(all, func(c change) bool { return len(c.payers) == 0 })
}

// exceeded refuses a bill that is more than what a quota has left.
func exceeded(list []*change, b *bill) error {
	for _, c := range list {
		over, used, hard := corev1.ResourceList{}, corev1.ResourceList{}, corev1.ResourceList{}
		for name, q := range b.use {
			limit, ok := c.quota.Status.Hard[name]
			if !ok {
				continue
			}
			sum := c.quota.Status.Used[name]
			sum = sum.DeepCopy()
			if sum.Add(q); sum.Cmp(limit) > 0 {
				over[name], used[name], hard[name] = q, c.quota.Status.Used[name], limit
			}
		}
		if len(over) > 0 {
			return b.r.Refuse("exceeded quota: %s, requested: %s, used: %s, limited: %s", c.quota.Name,
				quota.Text(over), quota.Text(used), quota.Text(hard))
		}
	}
	return nil
}

// add enters what the bill costs; it tells whether that is anything.
func add(q *corev1.ResourceQuota, use corev1.ResourceList) (any bool) {
	for name, amount := range use {
		if _, ok := q.Status.Hard[name]; !ok {
			continue
		}
		sum := q.Status.Used[name]
		sum = sum.DeepCopy()
		sum.Add(amount)
		if q.Status.Used == nil {
			q.Status.Used = corev1.ResourceList{}
		}
		q.Status.Used[name], any = sum, true
	}
	return any
}
