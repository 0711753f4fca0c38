package rest

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/resource"
)

// storm is how often a loop may write one object at one moment of simulated time. When two write it in turn the clock stands still.
const storm = 300

// A meter counts what loops write, and what they try to.
type meter struct {
	mu    sync.Mutex
	count map[string]int // by loop, verb and object
	now   time.Time
	burst map[string]int // writes at this moment
	full  func()         // ends all loops, so that the clock goes on
	burnt bool
}

func newMeter() *meter { return &meter{count: map[string]int{}, burst: map[string]int{}} }

func (m *meter) add(who, verb, what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := who + " " + verb + " " + what
	m.count[key]++
	if now := time.Now(); !now.Equal(m.now) {
		m.now = now
		clear(m.burst)
	}
	if m.burst[key]++; m.burst[key] > storm && !m.burnt {
		m.burnt = true
		m.full()
	}
}

// reset begins a new count.
func (m *meter) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count = map[string]int{}
}

// most are what was written, the most often first.
func (m *meter) most() (lines []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, what := range slices.SortedFunc(maps.Keys(m.count), func(a, b string) int {
		if d := m.count[b] - m.count[a]; d != 0 {
			return d
		}
		return strings.Compare(a, b)
	}) {
		lines = append(lines, fmt.Sprintf("%d times %s", m.count[what], what))
	}
	return lines
}

// counted is a client of a loop whose writes are counted.
type counted struct {
	client.Client
	who   string
	meter *meter
}

// add counts a call that was answered, or came too late: what is refused writes nothing, however often it is tried.
func (c *counted) add(err error, verb string, k resource.Kind, ns, name, sub string) {
	if err != nil && !apierrors.IsConflict(err) {
		return
	}
	c.meter.add(c.who, verb, strings.TrimSuffix(k.Info().GR().String()+"/"+sub, "/")+" "+ns+"/"+name)
}

func (c *counted) Create(ctx context.Context, k resource.Kind, obj resource.Object) (resource.Object, error) {
	out, err := c.Client.Create(ctx, k, obj)
	c.add(err, "create", k, obj.GetNamespace(), obj.GetName()+obj.GetGenerateName(), "")
	return out, err
}

func (c *counted) Update(ctx context.Context, k resource.Kind, obj resource.Object, sub string) (resource.Object, error) {
	out, err := c.Client.Update(ctx, k, obj, sub)
	c.add(err, "update", k, obj.GetNamespace(), obj.GetName(), sub)
	return out, err
}

func (c *counted) Patch(ctx context.Context, k resource.Kind, ns, name string, p client.Patch) (resource.Object, error) {
	out, err := c.Client.Patch(ctx, k, ns, name, p)
	c.add(err, "patch", k, ns, name, p.Sub)
	return out, err
}

func (c *counted) Delete(ctx context.Context, k resource.Kind, ns, name string, opts *metav1.DeleteOptions) error {
	err := c.Client.Delete(ctx, k, ns, name, opts)
	c.add(err, "delete", k, ns, name, "")
	return err
}

func (c *counted) Call(ctx context.Context, k resource.Kind, ns, name, sub string, in resource.Object) (resource.Object, error) {
	out, err := c.Client.Call(ctx, k, ns, name, sub, in)
	c.add(err, "call", k, ns, name, sub)
	return out, err
}

// wire counts what goes over HTTP.
type wire struct {
	next  http.RoundTripper
	meter *meter
}

// RoundTrip implements http.RoundTripper.
func (w wire) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := w.next.RoundTrip(r)
	if r.Method != http.MethodGet && err == nil && (resp.StatusCode < 300 || resp.StatusCode == http.StatusConflict) {
		w.meter.add("somebody", r.Method, r.URL.Path)
	}
	return resp, err
}
