package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// What bounds a Recorder: events waiting to be written, series remembered, and how often one object may
// speak (a burst, then one per interval).
const (
	maxPending  = 4096
	maxSeries   = 4096
	maxSimilar  = 10 // texts of one reason about one object, before further ones become one event
	spamBurst   = 25
	spamRefill  = 5 * time.Minute
	seriesFor   = 10 * time.Minute
	maxMessage  = 1024
	eventWriter = 10 * time.Second // longest time that one write may take
	eventAgain  = 10 * time.Second // before an event is written again that got no answer
	eventTries  = 12               // of one event
)

// A Recorder writes Events for people to read. Repeats of an event within ten minutes become a count, many that
// differ by their text only become one event; an object that speaks too much is cut; when the server is slow, events are dropped
// rather than waited for. A nil *Recorder drops everything. Safe for concurrent use.
type Recorder struct {
	client    Client
	component string // source of the events: "replicaset-controller"
	host      string
	action    string // see Doing
	now       func() time.Time

	shared *recorderState
}

type recorderState struct {
	mu     sync.Mutex
	series map[seriesKey]*series
	alike  map[seriesKey]*alike // by the key without the text
	tokens map[types.UID]*bucket
	named  int64 // the time that the last event has its name of
	queue  chan pending
}

type seriesKey struct {
	uid                         types.UID
	source, typ, reason, detail string
	path                        string
}

type series struct {
	ns, name string // of the Event
	count    int32
	last     time.Time
}

// alike are events that differ by their text only.
type alike struct {
	texts map[string]bool
	last  time.Time
}

type bucket struct {
	left float64
	at   time.Time
}

type pending struct {
	rec   *Recorder
	key   seriesKey
	event *corev1.Event
}

// NewRecorder returns a recorder that writes through c once Run runs.
func NewRecorder(c Client, component string, now func() time.Time) *Recorder {
	if now == nil {
		now = time.Now
	}
	return &Recorder{client: c, component: component, now: now, shared: &recorderState{
		series: map[seriesKey]*series{}, alike: map[seriesKey]*alike{}, tokens: map[types.UID]*bucket{}, queue: make(chan pending,
			maxPending)}}
}

// For returns a recorder that speaks for another component (and host, for node agents) through the same queue.
func (r *Recorder) For(component, host string) *Recorder {
	if r == nil {
		return nil
	}
	other := *r
	other.component, other.host = component, host
	return &other
}

// Doing returns a recorder whose events name the action that they tell of, as those of the scheduler do: in the
// manner of events.k8s.io, with a time of their own and no source.
func (r *Recorder) Doing(action string) *Recorder {
	if r == nil {
		return nil
	}
	other := *r
	other.action = action
	return &other
}

func referTo(k resource.Kind, obj resource.Object) corev1.ObjectReference {
	i := k.Info()
	return corev1.ObjectReference{Kind: i.GVK.Kind, Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID(),
		APIVersion: i.GVK.GroupVersion().String(), ResourceVersion: obj.GetResourceVersion()}
}

// Event says what happened to obj. typ is Normal or Warning.
func (r *Recorder) Event(k resource.Kind, obj resource.Object, typ, reason, format string, args ...any) {
	if r == nil {
		return
	}
	r.Ref(referTo(k, obj), typ, reason, format, args...)
}

// Ref is Event for an object known by reference, which may point at a field.
//
// Unlike Kubernetes, a text is cut at the 1024 bytes that events.k8s.io has for it, whichever API it is written by.
func (r *Recorder) Ref(ref corev1.ObjectReference, typ, reason, format string, args ...any) {
	if r == nil {
		return
	}
	msg := format
	if len(args) > 0 {
		msg = fmt.Sprintf(format, args...)
	}
	if len(msg) > maxMessage {
		msg = strings.ToValidUTF8(msg[:maxMessage-3], "") + "..."
	}
	now := r.now()
	if !r.shared.allow(ref.UID, now) {
		return
	}
	ns := ref.Namespace
	if ns == "" {
		ns = metav1.NamespaceDefault
	}
	stamp := metav1.NewTime(now)
	ev := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: eventName(ref.Name, r.shared.moment(now))},
		InvolvedObject: ref, Type: typ, Reason: reason, Message: msg, FirstTimestamp: stamp, LastTimestamp: stamp, Count: 1,
		Source: corev1.EventSource{Component: r.component, Host: r.host}, ReportingController: r.component, ReportingInstance: r.host}
	if r.action != "" {
		ev.EventTime, ev.Action, ev.ReportingInstance = metav1.NewMicroTime(now), r.action, r.component+"-"+cmp.Or(r.host, "kloop")
		ev.Source, ev.FirstTimestamp, ev.LastTimestamp, ev.Count = corev1.EventSource{}, metav1.Time{}, metav1.Time{}, 0
	}
	key := seriesKey{ref.UID, r.component, typ, reason, msg, ref.FieldPath}
	select {
	case r.shared.queue <- pending{r, key, ev}:
	default: // an event is never worth a wait
	}
}

// eventName is that of the object with a moment, where that can be a name.
func eventName(of string, moment int64) string {
	name := fmt.Sprintf("%s.%x", of, moment)
	if len(validation.IsDNS1123Subdomain(name)) > 0 { // it is too long, or has letters that events have not
		return fmt.Sprintf("event.%x", moment)
	}
	return name
}

// moment is a time in nanoseconds for the name of an event, another one for every event: clocks are coarse.
func (s *recorderState) moment(now time.Time) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.named = max(now.UnixNano(), s.named+1)
	return s.named
}

// allow is a token bucket per object.
func (s *recorderState) allow(uid types.UID, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.tokens[uid]
	if b == nil {
		if len(s.tokens) >= maxSeries {
			clear(s.tokens) // rare; forgetting only lets a few more events through
		}
		b = &bucket{left: spamBurst, at: now}
		s.tokens[uid] = b
	}
	b.left = min(spamBurst, b.left+float64(now.Sub(b.at))/float64(spamRefill))
	b.at = now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

// Run writes events until ctx ends.
func (r *Recorder) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case p := <-r.shared.queue:
			err := p.rec.tell(ctx, p)
			// An event about a namespace that is going away can't be written, and needn't.
			if err != nil && ctx.Err() == nil && !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
				slog.Debug("event dropped", "object", p.event.InvolvedObject.Name, "err", err)
			}
		}
	}
}

// tell writes an event. While the server gives no answer at all it is tried again: it may be starting anew, and what happens then is not
// lost, as far as there is room for it.
func (r *Recorder) tell(ctx context.Context, p pending) (err error) {
	if r.action == "" && r.shared.combine(&p.key, r.now()) { // upstream's, too, names no controller then
		p.event.Message, p.event.ReportingController = "(combined from similar events): "+p.event.Message, ""
	}
	old := r.shared.repeat(p.key, r.now())
	for try := range eventTries {
		if try > 0 {
			sleep(ctx, eventAgain)
		}
		within, cancel := context.WithTimeout(ctx, eventWriter)
		err = r.write(within, p, old)
		cancel()
		var answer apierrors.APIStatus
		if err == nil || errors.As(err, &answer) || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// write writes an event, or one more of the series that it is of.
func (r *Recorder) write(ctx context.Context, p pending, old *series) error {
	if old != nil {
		more := map[string]any{"count": old.count, "lastTimestamp": p.event.LastTimestamp, "message": p.event.Message}
		if r.action != "" {
			more = map[string]any{"series": map[string]any{"count": old.count, "lastObservedTime": p.event.EventTime}}
		}
		patch, err := json.Marshal(more)
		if err != nil {
			return err
		}
		_, err = r.client.Patch(ctx, core.Events, old.ns, old.name, Patch{Type: types.MergePatchType, Data: patch})
		if !apierrors.IsNotFound(err) {
			return err
		}
	}
	_, err := r.client.Create(ctx, core.Events, p.event)
	if err == nil {
		r.shared.remember(p.key, p.event, r.now())
	}
	return err
}

// combine says whether there were so many events like this one of late that it is combined with others, by a key
// without its text.
func (s *recorderState) combine(key *seriesKey, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	without := *key
	without.detail = ""
	a := s.alike[without]
	if a == nil || now.Sub(a.last) > seriesFor {
		if len(s.alike) >= maxSeries {
			clear(s.alike)
		}
		a = &alike{texts: map[string]bool{}}
		s.alike[without] = a
	}
	a.last = now
	if a.texts[key.detail] = true; len(a.texts) < maxSimilar {
		return false
	}
	delete(a.texts, key.detail)
	*key = without
	return true
}

// repeat counts one more of a known series.
func (s *recorderState) repeat(key seriesKey, now time.Time) *series {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.series[key]
	if old == nil || now.Sub(old.last) > seriesFor {
		return nil
	}
	old.count++
	old.last = now
	return &series{ns: old.ns, name: old.name, count: old.count}
}

func (s *recorderState) remember(key seriesKey, ev *corev1.Event, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.series) >= maxSeries {
		clear(s.series)
	}
	s.series[key] = &series{ns: ev.Namespace, name: ev.Name, count: 1, last: now}
}
