package server_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/internal/testcluster"
	"github.com/kloop-dev/kloop/store"
)

var errFlaky = errors.New("connection lost")

// A flaky store fails some writes: before they happen, or after.
type flaky struct {
	store.Store
	on atomic.Bool
	mu sync.Mutex
	r  *rand.Rand
}

func (f *flaky) roll(n int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.on.Load() && f.r.IntN(n) == 0
}

func (f *flaky) Write(ctx context.Context, w store.Write) (int64, error) {
	if f.roll(8) {
		return 0, errFlaky
	}
	rev, err := f.Store.Write(ctx, w)
	if err == nil && f.roll(8) {
		return 0, errFlaky
	}
	return rev, err
}

// A silent store does what it is asked to, and does not get to say so.
type silent struct {
	store.Store
	on atomic.Bool
}

func (s *silent) Write(ctx context.Context, w store.Write) (int64, error) {
	rev, err := s.Store.Write(ctx, w)
	if err == nil && s.on.Swap(false) {
		return 0, fmt.Errorf("write: %w", store.ErrUnavailable)
	}
	return rev, err
}

// Who writes and is not told what became of it hears just that, and not that somebody else was faster.
func TestWritesOfUnknownEnd(t *testing.T) {
	s := &silent{}
	w := start(t, func(c *testcluster.Config) {
		s.Store = c.Store
		c.Store, c.Sole = s, false
	})
	made := must(w.Create(t.Context(), w.ask(configMaps, ""), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}))
	s.on.Store(true)
	next := made.Object.DeepCopyObject().(*corev1.ConfigMap)
	next.Data = map[string]string{"a": "b"}
	if _, _, err := w.Update(t.Context(), w.ask(configMaps, "c"), next); !apierrors.IsTimeout(err) {
		t.Errorf("an update that was done: %v", err)
	}
	s.on.Store(true)
	if _, _, err := w.Delete(t.Context(), w.ask(configMaps, "c"), nil); !apierrors.IsTimeout(err) {
		t.Errorf("a deletion that was done: %v", err)
	}
}

// What the store refuses to write the answer names once.
func TestRefusedWriteNamesItsKeyOnce(t *testing.T) {
	w := start(t)
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}, Data: map[string]string{}}
	for i := range 8000 {
		c.Data[fmt.Sprintf("%0250d", i)] = "" // keys don't count for a ConfigMap's limit
	}
	_, err := w.Create(t.Context(), w.ask(configMaps, ""), c)
	if !apierrors.IsRequestEntityTooLargeError(err) || strings.Count(err.Error(), "write /registry/configmaps/ns/c: ") != 1 ||
		strings.Count(err.Error(), "/registry/") != 1 {
		t.Errorf("%v", err)
	}
}

// What is in use is always allocated, to whom uses it; after a repair nothing else is.
func TestServicesOnFlakyStore(t *testing.T) {
	f := &flaky{r: rand.New(rand.NewPCG(1, 2))}
	var later atomic.Int64 // how far the clock is ahead
	w := start(t, func(c *testcluster.Config) {
		f.Store = c.Store
		c.Store, c.Sole = f, false
		c.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	})
	f.on.Store(true)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 3))
			for range 150 {
				name := fmt.Sprint("s", r.IntN(40))
				switch r.IntN(6) {
				case 0, 1, 2:
					spec := corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: ports(80, 0)}
					_, _ = w.Create(t.Context(), w.ask(services, ""), service(name, spec))
				case 3:
					_, _, _ = w.Delete(t.Context(), w.ask(services, name), nil)
				default:
					port := int32(30000 + r.IntN(4))
					patch := fmt.Sprintf(`{"spec":{"ports":[{"port":80,"nodePort":%d}]}}`, port)
					_, _ = w.merge(services, name, patch)
				}
			}
		})
	}
	wg.Wait()
	f.on.Store(false)
	used := w.checkAllocated(t)
	later.Store(int64(10 * time.Minute)) // nothing is on the way any more
	if err := w.alloc.Repair(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.checkAllocated(t)
	if n := len(must(w.list(ipAddresses, metav1.ListOptions{})).Entries); n != used {
		t.Errorf("%d addresses are allocated to %d services after the repair", n, used)
	}
}

// checkAllocated checks that no two services share anything and that what they have is allocated to them.
func (w *world) checkAllocated(t *testing.T) (n int) {
	t.Helper()
	whose := map[string]string{}
	for _, e := range must(w.list(services, metav1.ListOptions{})).Entries {
		s := e.Object.(*corev1.Service)
		n++
		for _, key := range []string{s.Spec.ClusterIP, fmt.Sprint(s.Spec.Ports[0].NodePort)} {
			if other, taken := whose[key]; taken {
				t.Errorf("%s belongs to %s and to %s", key, other, s.Name)
			}
			whose[key] = s.Name
		}
		a, _ := w.get(ipAddresses, s.Spec.ClusterIP).(*networkingv1.IPAddress)
		if a == nil || a.Spec.ParentRef.Name != s.Name {
			t.Errorf("%s uses %s, which is not allocated to it: %+v", s.Name, s.Spec.ClusterIP, a)
		}
		dry := w.ask(services, "")
		dry.DryRun = true
		spec := corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: ports(80, s.Spec.Ports[0].NodePort)}
		if _, err := w.Create(t.Context(), dry, service("probe", spec)); reason(err) != "Invalid FieldValueInvalid spec.ports[0].nodePort" {
			t.Errorf("%s uses port %d, which is free: %v", s.Name, s.Spec.Ports[0].NodePort, err)
		}
	}
	return n
}
