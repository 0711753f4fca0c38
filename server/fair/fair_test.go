package fair

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/auth/authtest"
	"github.com/kloop-dev/kloop/auth/bootstrap"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// A spec is a level of a test, with one schema of the same name for the group of the same name.
type spec struct {
	name                string
	shares, lend        int32
	queues, hand, queue int32
	borrow              *int32
}

func objects(specs ...spec) *authtest.Cluster {
	c := &authtest.Cluster{}
	for _, s := range specs {
		l := &flowcontrolv1.PriorityLevelConfiguration{}
		l.Name, l.UID = s.name, "level-of-"+"x"
		l.Spec.Type = flowcontrolv1.PriorityLevelEnablementLimited
		l.Spec.Limited = &flowcontrolv1.LimitedPriorityLevelConfiguration{NominalConcurrencyShares: &s.shares, LendablePercent: &s.lend,
			BorrowingLimitPercent: s.borrow, LimitResponse: flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject}}
		if s.queues > 0 {
			l.Spec.Limited.LimitResponse = flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeQueue,
				Queuing: &flowcontrolv1.QueuingConfiguration{Queues: s.queues, HandSize: s.hand, QueueLengthLimit: s.queue}}
		}
		authtest.Put(c, kinds.PriorityLevelConfigurations, l)
		f := mandatory(s.name, 500, s.name)
		f.UID = "schema"
		f.Spec.DistinguisherMethod = &flowcontrolv1.FlowDistinguisherMethod{Type: flowcontrolv1.FlowDistinguisherMethodByUserType}
		authtest.Put(c, kinds.FlowSchemas, f)
	}
	return c
}

func newFair(seats int, specs ...spec) *Fair {
	c := objects(specs...)
	return New(Config{Seats: seats, Read: func() resource.Reader { return c }})
}

func by(name string, groups ...string) *auth.Attributes {
	return &auth.Attributes{User: &auth.User{Name: name, Groups: groups}, Verb: "get", Resource: "pods", Namespace: "ns"}
}

// enter takes seats or fails the test.
func enter(t *testing.T, f *Fair, a *auth.Attributes, seats int) Ticket {
	t.Helper()
	ticket, err := f.Enter(t.Context(), f.Sort(a, time.Now()), seats)
	if err != nil {
		t.Fatal(err)
	}
	return ticket
}

func TestSort(t *testing.T) {
	c := &authtest.Cluster{}
	for _, o := range bootstrap.Objects(bootstrap.Config{}) {
		for _, k := range []resource.Kind{kinds.FlowSchemas, kinds.PriorityLevelConfigurations} {
			if o.GetObjectKind().GroupVersionKind() == k.Info().GVK {
				c.Add(k, o)
			}
		}
	}
	f := New(Config{Read: func() resource.Reader { return c }})
	authed := auth.GroupAuthenticated
	for _, x := range []struct {
		name string
		a    auth.Attributes
		want string
	}{
		{"masters",
			auth.Attributes{User: &auth.User{Groups: []string{auth.GroupMasters}}, Verb: "list", Resource: "pods"}, "exempt exempt"},
		{"health",
			auth.Attributes{User: &auth.User{Groups: []string{auth.GroupUnauthed}}, Verb: "get", Path: "/healthz"}, "probes exempt"},
		{"readiness of a part",
			auth.Attributes{User: &auth.User{Groups: []string{auth.GroupUnauthed}}, Verb: "get", Path: "/readyz/etcd"}, "probes exempt"},
		{"path that looks like a probe",
			auth.Attributes{User: &auth.User{Groups: []string{auth.GroupUnauthed}}, Verb: "get", Path: "/readyzz"}, "global-default global-default"},
		{"node's status", auth.Attributes{User: &auth.User{Groups: []string{auth.GroupNodes, authed}}, Verb: "update", Resource: "nodes",
			Subresource: "status"}, "system-node-high node-high"},
		{"node's lease",
			auth.Attributes{User: &auth.User{Groups: []string{auth.GroupNodes, authed}}, Verb: "update", Group: "coordination.k8s.io",
				Resource: "leases", Namespace: "kube-node-lease"}, "system-node-high node-high"},
		{"node's other requests",
			auth.Attributes{User: &auth.User{Groups: []string{auth.GroupNodes, authed}}, Verb: "get", Resource: "pods", Namespace: "a"},
			"system-nodes system"},
		{"scheduler",
			auth.Attributes{User: &auth.User{Name: "system:kube-scheduler", Groups: []string{authed}}, Verb: "get", Resource: "pods",
				Namespace: "a"}, "kube-scheduler workload-high"},
		{"service account of the system", auth.Attributes{User: &auth.User{Name: "system:serviceaccount:kube-system:x",
			Groups: []string{auth.GroupServiceAccount, authed}}, Verb: "get", Resource: "pods"}, "kube-system-service-accounts workload-high"},
		{"namespace that begins like the system's", auth.Attributes{User: &auth.User{Name: "system:serviceaccount:kube-systemd:x",
			Groups: []string{auth.GroupServiceAccount, authed}}, Verb: "get", Resource: "pods"}, "service-accounts workload-low"},
		{"user", auth.Attributes{User: &auth.User{Name: "joe", Groups: []string{authed}}, Verb: "get", Resource: "pods"},
			"global-default global-default"},
		{"user of no group", auth.Attributes{User: &auth.User{Name: "odd"}, Verb: "get", Resource: "pods"}, "catch-all catch-all"},
	} {
		t.Run(x.name, func(t *testing.T) {
			got := f.Sort(&x.a, time.Now()).flow
			if got.schema+" "+got.level.name != x.want {
				t.Errorf("%+v: %s %s, want %s", x.a, got.schema, got.level.name, x.want)
			}
		})
	}
	for name, want := range map[string]int{"exempt": 0, "catch-all": 13, "system": 74, "global-default": 49, "workload-low": 245} {
		t.Run(name, func(t *testing.T) {
			if got := f.levels[name].nominal; got != want {
				t.Errorf("level %s has %d seats, want %d", name, got, want)
			}
		})
	}
}

func TestDeal(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	const n, size = 16, 5
	var count [n]int
	for range 10000 {
		hand := make([]int, size)
		deal(rnd.Uint64(), n, hand)
		if !slices.IsSorted(hand) || len(slices.Compact(slices.Clone(hand))) != size || hand[0] < 0 || hand[size-1] >= n {
			t.Fatalf("hand %v", hand)
		}
		for _, c := range hand {
			count[c]++
		}
	}
	for c, times := range count {
		if times < 2800 || times > 3450 { // 3125 are expected, deviation 46
			t.Errorf("card %d was dealt %d times", c, times)
		}
	}
}

// TestFloodStarvesNobody has one user send without end while another asks now and then.
func TestFloodStarvesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFair(10, spec{name: "g", shares: 100, queues: 64, hand: 6, queue: 50})
		ctx, stop := context.WithCancel(t.Context())
		var wait sync.WaitGroup
		const takes = 100 * time.Millisecond
		refused := 0
		var mu sync.Mutex
		for range 400 {
			wait.Go(func() {
				for ctx.Err() == nil {
					ticket, err := f.Enter(ctx, f.Sort(by("flood", "g"), time.Now()), 1)
					if err != nil {
						mu.Lock()
						refused++
						mu.Unlock()
						time.Sleep(10 * time.Millisecond)
						continue
					}
					time.Sleep(takes)
					f.Leave(ticket)
				}
			})
		}
		time.Sleep(time.Second)
		var worst time.Duration
		for range 50 {
			began := time.Now()
			ticket := enter(t, f, by("calm", "g"), 1)
			worst = max(worst, time.Since(began))
			time.Sleep(takes)
			f.Leave(ticket)
			time.Sleep(50 * time.Millisecond)
		}
		stop()
		wait.Wait()
		if worst > 2*takes {
			t.Errorf("beside the flood a request waited %v", worst)
		}
		if refused == 0 {
			t.Error("the flood never met the limit of its queues")
		}
		empty(t, f)
	})
}

// TestFairShares has users of different width and appetite; each gets about the same seat-seconds.
func TestFairShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFair(12, spec{name: "g", shares: 1000, queues: 512, hand: 1, queue: 1000})
		ctx, stop := context.WithCancel(t.Context())
		work := map[string]*float64{}
		var wait sync.WaitGroup
		var mu sync.Mutex
		for name, user := range map[string]struct {
			clients, seats int
			takes          time.Duration
		}{"many": {200, 1, 10 * time.Millisecond}, "wide": {20, 4, 50 * time.Millisecond}, "long": {40, 1, 300 * time.Millisecond}} {
			work[name] = new(float64)
			for range user.clients {
				wait.Go(func() {
					for ctx.Err() == nil {
						ticket, err := f.Enter(ctx, f.Sort(by(name, "g"), time.Now()), user.seats)
						if err != nil {
							continue
						}
						time.Sleep(user.takes)
						mu.Lock()
						*work[name] += float64(ticket.seats) * user.takes.Seconds()
						mu.Unlock()
						f.Leave(ticket)
					}
				})
			}
		}
		time.Sleep(time.Minute)
		stop()
		wait.Wait()
		for name, w := range work { // of 720 seat-seconds, less what can't be filled beside wide requests
			if *w < 180 || *w > 300 {
				t.Errorf("%s had %.0f seat-seconds", name, *w)
			}
		}
	})
}

// empty checks that nothing is left in the levels.
func empty(t *testing.T, f *Fair) {
	t.Helper()
	for _, l := range f.levels {
		if l.used != 0 || l.running != 0 || l.waiting != 0 || l.wanted != 0 || l.active != 0 {
			t.Errorf("level %s: %d seats used, %d running, %d waiting for %d, %d active", l.name, l.used, l.running, l.waiting, l.wanted, l.active)
		}
		for _, q := range l.queues {
			if len(q.waits) != 0 || q.used != 0 || q.wanted != 0 || q.running != 0 {
				t.Errorf("level %s queue %d: %+v", l.name, q.index, q)
			}
		}
	}
	for _, x := range f.plan.Load().flows {
		if x.inQueue.Load() != 0 || x.seatsInQueue.Load() != 0 {
			t.Errorf("flow %s counts what is not there", x.schema)
		}
	}
}

func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFair(3, spec{name: "reject", shares: 100}, spec{name: "queue", shares: 100, queues: 1, hand: 1, queue: 2})
		try := func(ctx context.Context, group string) chan error {
			done := make(chan error, 1)
			go func() {
				ticket, err := f.Enter(ctx, f.Sort(by("u", group), time.Now()), 1)
				if err == nil {
					f.Leave(ticket)
				}
				done <- err
			}()
			synctest.Wait()
			return done
		}
		a, b := enter(t, f, by("u", "reject"), 1), enter(t, f, by("u", "reject"), 1)
		if err := <-try(t.Context(), "reject"); err != ConcurrencyLimit {
			t.Errorf("no seat and no queue: %v", err)
		}
		f.Leave(a)
		f.Leave(b)
		a, b = enter(t, f, by("u", "queue"), 1), enter(t, f, by("u", "queue"), 1)
		began := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		first, second := try(t.Context(), "queue"), try(ctx, "queue")
		if err := <-try(t.Context(), "queue"); err != QueueFull {
			t.Errorf("a full queue: %v", err)
		}
		cancel()
		if err := <-second; err != Cancelled {
			t.Errorf("a client that left: %v", err)
		}
		if err := <-first; err != TimeOut || time.Since(began) != 15*time.Second {
			t.Errorf("a long wait: %v after %v", err, time.Since(began))
		}
		third := try(t.Context(), "queue")
		f.Leave(a)
		if err := <-third; err != nil {
			t.Error(err)
		}
		f.Leave(b)
		empty(t, f)
		dumped(t, f)
	})
}

// dumped checks the debug pages after TestRefusals.
func dumped(t *testing.T, f *Fair) {
	t.Helper()
	read := func(page string) string {
		w := httptest.NewRecorder()
		f.Pages()["/debug/api_priority_and_fairness/"+page].ServeHTTP(w, httptest.NewRequest("GET", "/?includeRequestDetails=1", nil))
		return strings.ReplaceAll(w.Body.String(), " ", "")
	}
	if got := read("dump_priority_levels"); !strings.Contains(got, "queue,0,true,false,0,0,3,3,1,1\n") {
		t.Errorf("levels\n%s", got)
	}
	if got := read("dump_queues"); !strings.Contains(got, "queue,0,0,0,0,") {
		t.Errorf("queues\n%s", got)
	}
	hold := enter(t, f, by("u", "queue"), 1)
	other := enter(t, f, by("u", "queue"), 1)
	go func() {
		ticket, _ := f.Enter(t.Context(), f.Sort(by("waits", "queue"), time.Now()), 1)
		f.Leave(ticket)
	}()
	synctest.Wait()
	if got := read("dump_requests"); !strings.Contains(got, "queue,queue,0,0,waits,") || !strings.Contains(got, ",waits,get,,ns,,,pods,") {
		t.Errorf("requests\n%s", got)
	}
	f.Leave(hold)
	f.Leave(other)
	synctest.Wait()
}

func TestWidth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFair(20, spec{name: "g", shares: 1000, queues: 2, hand: 2, queue: 10})
		l := f.Sort(by("u", "g"), time.Now()).flow.level
		if l.nominal != 20 || l.most.Load() != 10 {
			t.Fatalf("%d seats, %d at most", l.nominal, l.most.Load())
		}
		wide := enter(t, f, by("u", "g"), 1000)
		if wide.seats != 10 || l.used != 10 {
			t.Errorf("%d seats are used", l.used)
		}
		f.Leave(wide)
		ctx, stop := context.WithCancel(t.Context())
		var wait sync.WaitGroup
		for range 25 { // narrow ones that never leave ten seats free by themselves
			wait.Go(func() {
				for ctx.Err() == nil {
					if ticket, err := f.Enter(ctx, f.Sort(by("narrow", "g"), time.Now()), 1); err == nil {
						time.Sleep(time.Duration(5+rand.IntN(10)) * time.Millisecond)
						f.Leave(ticket)
					}
				}
			})
		}
		time.Sleep(time.Second)
		began := time.Now()
		f.Leave(enter(t, f, by("wide", "g"), 10))
		if waited := time.Since(began); waited > time.Second {
			t.Errorf("a wide request waited %v beside narrow ones", waited)
		}
		stop()
		wait.Wait()
		empty(t, f)
	})
	synctest.Test(t, func(t *testing.T) {
		f := newFair(2, spec{name: "g", shares: 1, queues: 2, hand: 1, queue: 10})
		f.Leave(enter(t, f, by("u", "g"), 10)) // wider than the level, and alone
		empty(t, f)
	})
}

// TestBorrowing lets one level have what the other does not need, and gives it back.
func TestBorrowing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := int32(50)
		f := newFair(100, spec{name: "busy", shares: 45, lend: 50, queues: 8, hand: 1, queue: 1000},
			spec{name: "idle", shares: 45, lend: 80, queues: 8, hand: 1, queue: 1000, borrow: &limit},
			spec{name: "firm", shares: 5, queues: 1, hand: 1, queue: 1000})
		f.Sort(by("x", "busy"), time.Now())
		busy, idle, firm := f.levels["busy"], f.levels["idle"], f.levels["firm"]
		ctx, stop := context.WithCancel(t.Context())
		var wait sync.WaitGroup
		flood := func(ctx context.Context, group string) {
			for range 120 {
				wait.Go(func() {
					for ctx.Err() == nil {
						if ticket, err := f.Enter(ctx, f.Sort(by("u", group), time.Now()), 1); err == nil {
							time.Sleep(100 * time.Millisecond)
							f.Leave(ticket)
						}
					}
				})
			}
		}
		limits := func() string {
			f.mu.Lock()
			defer f.mu.Unlock()
			return fmt.Sprintf("%d %d %d", busy.current, idle.current, firm.current)
		}
		if got := limits(); got != "45 45 5" {
			t.Errorf("at first: %s", got)
		}
		flood(ctx, "busy")
		time.Sleep(25 * time.Second)
		if busy.current < 70 || idle.current != 9 || firm.current != 5 {
			t.Errorf("one level wants all: %s", limits())
		}
		flood(ctx, "idle")
		time.Sleep(40 * time.Second)
		if busy.current < 45 || busy.current > 50 || idle.current < 45 || idle.current > 50 {
			t.Errorf("two levels want all: %s", limits())
		}
		stop()
		wait.Wait()
		empty(t, f)
	})
}

func TestAllot(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		var list []*level
		least := map[*level]int{}
		low, high := 0, 0
		for range 1 + rnd.IntN(8) {
			l := &level{smoothed: rnd.Float64() * 100, largest: 10 + rnd.IntN(200)}
			least[l] = rnd.IntN(10)
			low, high = low+least[l], high+l.largest
			list = append(list, l)
		}
		seats := low + rnd.IntN(high)
		sum := 0
		for l, n := range allot(float64(seats), list, least) {
			if n < least[l] || n > l.largest {
				t.Errorf("%d seats, bounds are %d and %d", n, least[l], l.largest)
			}
			sum += n
		}
		if want := min(seats, high); sum < want-len(list) || sum > want+len(list) { // rounding
			t.Errorf("%d seats were given, of %d", sum, want)
		}
	}
}

// TestReconfigure changes the objects while requests wait.
func TestReconfigure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := objects(spec{name: "g", shares: 1, queues: 4, hand: 2, queue: 10})
		f := New(Config{Seats: 12, Read: func() resource.Reader { return c }})
		f.Sort(by("u", "g"), time.Now())
		l := f.levels["g"]
		var held []Ticket
		for range l.limit {
			held = append(held, enter(t, f, by("u", "g"), 1))
		}
		late := make(chan Ticket, 4)
		for range 4 {
			go func() { late <- enter(t, f, by("u", "g"), 1) }()
		}
		synctest.Wait()
		if l.waiting != 4 {
			t.Fatalf("%d wait for %d", l.waiting, l.limit)
		}
		for _, k := range []resource.Kind{kinds.FlowSchemas, kinds.PriorityLevelConfigurations} {
			for o := range objects(spec{name: "g", shares: 1000, queues: 1, hand: 1, queue: 10}).Each(k, "") {
				c.Add(k, o)
			}
		}
		time.Sleep(2 * lookEvery)
		f.Sort(by("u", "g"), time.Now()) // notices
		for range 4 {
			f.Leave(<-late)
		}
		for _, x := range held {
			f.Leave(x)
		}
		if f.levels["g"] != l || l.nominal != 12 || l.dealt != 1 {
			t.Errorf("level %+v", l)
		}
		c.Remove(kinds.PriorityLevelConfigurations, "", "g")
		time.Sleep(2 * lookEvery)
		if got := f.Sort(by("u", "g"), time.Now()).flow.schema; got != catchAll {
			t.Errorf("a schema without its level is used: %s", got)
		}
		empty(t, f)
	})
}

// TestStorm checks the bounds under random requests.
func TestStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFair(30, spec{name: "a", shares: 10, lend: 50, queues: 8, hand: 3, queue: 5}, spec{name: "b", shares: 10},
			spec{name: "c", shares: 3, lend: 100, queues: 2, hand: 2, queue: 3})
		rnd := rand.New(rand.NewPCG(5, 6))
		var wait sync.WaitGroup
		for i := range 3000 {
			group := []string{"a", "b", "c", auth.GroupMasters}[rnd.IntN(4)]
			seats, takes, patience := 1+rnd.IntN(12), time.Duration(rnd.IntN(200))*time.Millisecond, time.Duration(rnd.IntN(2000))*time.Millisecond
			time.Sleep(time.Duration(rnd.IntN(20)) * time.Millisecond)
			wait.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				ticket, err := f.Enter(ctx, f.Sort(by(fmt.Sprint("u", i%7), group), time.Now()), seats)
				if err != nil {
					return
				}
				l := ticket.flow.level
				l.mu.Lock()
				if !l.exempt && l.used > l.limit && l.running > 1 && l.used-ticket.seats > l.limit {
					t.Errorf("level %s: %d seats of %d are used", l.name, l.used, l.limit)
				}
				l.mu.Unlock()
				time.Sleep(takes)
				f.Leave(ticket)
			})
		}
		wait.Wait()
		empty(t, f)
	})
}

func BenchmarkEnter(b *testing.B) {
	f := newFair(600, spec{name: "g", shares: 100, queues: 128, hand: 6, queue: 50})
	a := by("joe", "g", auth.GroupAuthenticated)
	b.ReportAllocs()
	for b.Loop() {
		s := f.Sort(a, time.Now())
		ticket, err := f.Enter(b.Context(), s, 1)
		if err != nil {
			b.Fatal(err)
		}
		f.Leave(ticket)
	}
}
