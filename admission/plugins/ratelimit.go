package plugins

import (
	"context"
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/kloop-dev/kloop/admission"
)

// A meteredLimit is a limit with a bucket for each of what it counts.
type meteredLimit struct {
	admission.EventLimit
	mu      sync.Mutex
	buckets map[string]flowcontrol.PassiveRateLimiter
}

type eventLimits []*meteredLimit

func newEventLimits(list []admission.EventLimit) (out eventLimits) {
	for _, l := range list {
		if l.CacheSize == 0 {
			l.CacheSize = 4096
		}
		out = append(out, &meteredLimit{EventLimit: l, buckets: map[string]flowcontrol.PassiveRateLimiter{}})
	}
	return out
}

func (l eventLimits) validate(_ context.Context, r *admission.Request) error {
	if r.DryRun || !r.On("", "events", admission.Create, admission.Update) && !r.On("events.k8s.io", "events", admission.Create,
		admission.Update) {
		return nil
	}
	var over []string
	for _, m := range l {
		if key := m.key(r); !m.accept(key) {
			over = append(over, fmt.Sprintf("limit reached on type %v for key %v", m.Type, key))
		}
	}
	switch len(over) {
	case 0:
		return nil
	case 1:
		return apierrors.NewTooManyRequestsError(over[0])
	}
	return apierrors.NewTooManyRequestsError("[" + strings.Join(over, ", ") + "]")
}

// accept takes from the bucket of a key. A bucket that nobody remembers is a full one.
func (m *meteredLimit) accept(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.buckets[key]
	if b == nil {
		for old := range m.buckets {
			if len(m.buckets) < int(m.CacheSize) {
				break
			}
			delete(m.buckets, old)
		}
		b = flowcontrol.NewTokenBucketPassiveRateLimiter(float32(m.QPS), int(m.Burst))
		m.buckets[key] = b
	}
	return b.TryAccept()
}

func (m *meteredLimit) key(r *admission.Request) string {
	switch m.Type {
	case admission.LimitNamespace:
		return r.Namespace
	case admission.LimitUser:
		if r.User != nil {
			return r.User.Name
		}
	case admission.LimitSource:
		switch e := r.Object.(type) {
		case *corev1.Event:
			return sourceKey(e.Source, e.InvolvedObject)
		case *eventsv1.Event:
			return sourceKey(corev1.EventSource{Component: e.DeprecatedSource.Component, Host: e.DeprecatedSource.Host}, e.Regarding)
		}
	}
	return ""
}

func sourceKey(s corev1.EventSource, o corev1.ObjectReference) string {
	return strings.Join([]string{s.Component, s.Host, o.Kind, o.Namespace, o.Name, string(o.UID), o.APIVersion}, "")
}
