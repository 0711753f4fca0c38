package httpapi

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/server/httpapi/reply"
	"github.com/kloop-dev/kloop/server/httpapi/stream"
)

// headersAfter is the time at which the client of a watch that has neither begun nor failed gets its headers. The watch may be
// waiting for a revision that is still to come.
const headersAfter = 500 * time.Millisecond

// watch streams events. Until the first byte an error is an answer of its own, later it is an ERROR event. A
// revision that is too old is one in any case.
func (c *request) watch() error {
	if c.info.bad != nil {
		return c.info.bad
	}
	opts := c.info.List
	if c.info.LegacyWatch { // its options are those of a list, and it has no word for where the present state ends
		if err := server.CheckListOptions(&opts, false, true); err != nil {
			return err
		}
		opts.Continue, opts.ResourceVersionMatch = "", ""
		opts.AllowWatchBookmarks = opts.AllowWatchBookmarks && opts.ResourceVersion != "" && opts.ResourceVersion != "0"
	}
	req := c.request()
	if c.info.Name != "" { // the old path that watches one object
		if err := selectOne(&opts, c.info.Name); err != nil {
			return err
		}
		req.Name = ""
	}
	c.acc.Pretty = false
	if c.acc.Format == reply.YAML {
		return c.unstreamed(req, &opts)
	}
	f, err := c.framer()
	if err != nil {
		return err
	}
	if stream.IsWebSocket(c.r) {
		return c.watchSocket(req, &opts, f)
	}
	defer c.s.meter.watch(c.info, c.r, c.gvk)()
	st := newWatchStream(c.w, c.s.cfg.WriteStall, f.mediaType())
	if _, asks := c.batches(); !asks && c.acc.As != shapeTable { // a webhook takes its time, tables carry their columns once
		req.Offer = st.offers(c.r, f)
		if c.acc.As == "" {
			req.Share = func(p *server.Part) error { return st.share(c.r.Context(), f, p) }
		}
	}
	kick := time.AfterFunc(headersAfter, st.start)
	defer kick.Stop()
	err = c.ops().Watch(c.r.Context(), req, &opts, func(events []server.Event) error {
		events, err := c.eventsInVersion(c.r.Context(), events)
		if err == nil {
			err = st.send(c.r.Context(), f, events)
		}
		c.begun(&opts, events)
		return err
	})
	return st.end(c.r.Context(), f, err)
}

// unstreamed refuses a watch in YAML, which has no form for streams, if nothing else is wrong with it.
func (c *request) unstreamed(req *server.Request, opts *metav1.ListOptions) error {
	over := int64(-1)
	opts.TimeoutSeconds = &over
	refused := reply.NotAcceptable(!c.facts.Custom, true)
	err := c.ops().Watch(c.r.Context(), req, opts, func([]server.Event) error { return refused })
	if err == nil || apierrors.IsResourceExpired(err) {
		return refused
	}
	return err
}

// selectOne confines options to one object. A field selector must name it too.
func selectOne(opts *metav1.ListOptions, name string) error {
	sel, err := fields.ParseSelector(opts.FieldSelector)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if sel.Empty() {
		opts.FieldSelector = fields.OneTermEqualSelector("metadata.name", name).String()
		return nil
	}
	if is, ok := sel.RequiresExactMatch("metadata.name"); !ok || is != name {
		return apierrors.NewBadRequest("fieldSelector metadata.name doesn't match requested name")
	}
	return nil
}

// errUntellable ends a watch without a word, as upstream does, when an event can't take the shape that was asked for.
var errUntellable = errors.New("an event is no list")

// watchStream is the body of a watch. Its lock is held while bytes are written; the timer that starts it and the
// events share it.
type watchStream struct {
	mu        sync.Mutex
	w         http.ResponseWriter
	rc        *http.ResponseController
	stall     time.Duration
	guard     *time.Timer // breaks a write that takes longer than stall
	mediaType string
	started   bool
	broken    bool
}

func newWatchStream(w http.ResponseWriter, stall time.Duration, mediaType string) *watchStream {
	st := &watchStream{w: w, rc: http.NewResponseController(w), stall: stall, mediaType: mediaType}
	// A deadline set ahead would end an idle HTTP/2 stream too, so it is set when a write is seen to hang.
	st.guard = time.AfterFunc(time.Hour, func() { _ = st.rc.SetWriteDeadline(time.Unix(1, 0)) })
	st.guard.Stop()
	return st
}

func (st *watchStream) start() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.begin()
}

// begin sends the headers once; the lock is held.
func (st *watchStream) begin() {
	if st.started {
		return
	}
	st.started = true
	st.w.Header().Set("Content-Type", st.mediaType)
	st.guard.Reset(st.stall)
	defer st.guard.Stop()
	st.w.WriteHeader(http.StatusOK)
	_ = st.rc.Flush()
}

// send writes a batch of events and flushes once. A client that takes nothing for too long fails it.
func (st *watchStream) send(ctx context.Context, f framer, events []server.Event) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.begin()
	if len(events) == 0 {
		return nil
	}
	st.guard.Reset(st.stall)
	defer st.guard.Stop()
	bp := reply.Borrow() // so that an idle watch holds none
	b := (*bp)[:0]
	defer func() { reply.Return(bp, b) }()
	for i := range events {
		var err error
		if b, err = f.frame(ctx, b, &events[i]); err != nil {
			return err
		}
		if len(b) >= 32<<10 || i == len(events)-1 {
			if _, err := st.w.Write(b); err != nil {
				st.broken = true
				return err
			}
			b = b[:0]
		}
	}
	return st.rc.Flush()
}

// share writes events that others get as well, from the bytes that were made for all.
func (st *watchStream) share(ctx context.Context, f framer, p *server.Part) error {
	b, err := p.As(f.mediaType(), func() ([]byte, error) {
		bp := reply.Borrow()
		b, err := (*bp)[:0], error(nil)
		defer func() { reply.Return(bp, b) }()
		for i := range p.Events {
			if b, err = f.frame(ctx, b, &p.Events[i]); err != nil {
				return nil, err
			}
		}
		return bytes.Clone(b), nil
	})
	if b == nil || err != nil {
		return st.send(ctx, f, p.Events)
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.begin()
	st.guard.Reset(st.stall)
	defer st.guard.Stop()
	if _, err := st.w.Write(b); err != nil {
		st.broken = true
		return err
	}
	return st.rc.Flush()
}

// offerLimit bounds what is kept for a client that doesn't take an offer at once.
const offerLimit = 64 << 10

// offers returns send for those who can't wait (server.Request.Offer); nil if the connection is none for that.
func (st *watchStream) offers(r *http.Request, f framer) func(events []server.Event) bool {
	put := st.putter(r)
	if put == nil {
		return nil
	}
	ctx := r.Context()
	return func(events []server.Event) bool {
		if !st.mu.TryLock() {
			return false
		}
		defer st.mu.Unlock()
		if !st.started || st.broken {
			return false
		}
		bp := reply.Borrow()
		b := (*bp)[:0]
		defer func() { reply.Return(bp, b) }()
		for i := range events {
			var err error
			if b, err = f.frame(ctx, b, &events[i]); err != nil || len(b) > offerLimit {
				return false
			}
		}
		return put(b)
	}
}

// putter returns what puts bytes on the connection if that can't block, and says whether it did; nil if there is no such thing.
func (st *watchStream) putter(r *http.Request) func(b []byte) bool {
	if w := offererOf(st.w); w != nil {
		return w.Offer
	}
	l := lineOf(r)
	if l == nil {
		return nil
	}
	var event []byte // that write writes: one function for all events
	write := func() error {
		if _, err := st.w.Write(event); err != nil {
			return err
		}
		return st.rc.Flush()
	}
	return func(b []byte) bool {
		event = b
		took, err := l.softly(write)
		event = nil
		return took && err == nil // after an error the connection takes nothing more, so nothing is delivered twice
	}
}

// An offerer is an answer over HTTP/2: see Offer of h2's.
type offerer interface{ Offer(b []byte) bool }

// offererOf finds it behind what wraps it; nil if there is none.
func offererOf(w http.ResponseWriter) offerer {
	for {
		switch of := w.(type) {
		case offerer:
			return of
		case interface{ Unwrap() http.ResponseWriter }:
			w = of.Unwrap()
		default:
			return nil
		}
	}
}

// end turns the outcome of a watch into an answer, an ERROR event, or nothing when the client is not there.
func (st *watchStream) end(ctx context.Context, f framer, err error) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if err != nil && !st.started && !apierrors.IsResourceExpired(err) { // which upstream tells in the stream, always
		st.started = true // the timer must not answer beside the caller
		return err
	}
	st.begin()
	st.guard.Reset(st.stall)
	defer st.guard.Stop()
	if err != nil && !errors.Is(err, errUntellable) && !st.broken && ctx.Err() == nil {
		if frame, ferr := f.failure(reply.StatusOf(err)); ferr == nil {
			_, _ = st.w.Write(frame)
			_ = st.rc.Flush()
		}
	}
	return nil
}

// framer turns events into bytes on the wire.
type framer interface {
	// frame appends the event to b.
	frame(ctx context.Context, b []byte, e *server.Event) ([]byte, error)
	// failure is an ERROR event.
	failure(st *metav1.Status) ([]byte, error)
	mediaType() string
}

func (p *responder) framer() (framer, error) {
	shaped := &shaper{p: p}
	if p.acc.As == shapeTable {
		o, err := p.tableOptions()
		if err != nil {
			return nil, err
		}
		shaped.table = o
	}
	if p.acc.Format == reply.Proto {
		return &protoFramer{shaped}, nil
	}
	return &jsonFramer{shaped}, nil
}

// shaper makes the objects of events that are not simply the entry's own encoding.
type shaper struct {
	p     *responder
	table *metav1.TableOptions
}

// own reports whether the event carries the entry's shared encoding.
func (s *shaper) own(e *server.Event) bool {
	return s.p.acc.As == "" && e.Entry != nil && e.Entry.Rev == e.Rev
}

// bare says that the event carries the metadata of the entry as it is.
func (s *shaper) bare(e *server.Event) bool {
	return s.p.acc.As == shapePartial && e.Entry != nil && e.Entry.Rev == e.Rev
}

// object is the event's object in the version and shape that the client asked for.
func (s *shaper) object(ctx context.Context, e *server.Event) (runtime.Object, error) {
	if s.p.acc.As == shapePartials {
		return nil, errUntellable
	}
	obj, err := s.plain(ctx, e)
	if err != nil || s.p.acc.As == "" {
		return obj, err
	}
	var hub resource.Object
	if e.Entry != nil && e.Entry.Rev == e.Rev { // what is deleted has another revision in it
		hub = e.Entry.Object
	}
	o := s.table
	if o != nil && e.Initial && o.IncludeObject == metav1.IncludeNone { // the mark is in the object
		o = &metav1.TableOptions{NoHeaders: o.NoHeaders}
	}
	out, err := s.p.shape(s.p.kind, obj, hub, o)
	if s.table != nil && !s.table.NoHeaders {
		later := *s.table
		later.NoHeaders = true // the columns are sent once
		s.table = &later
	}
	return out, err
}

func (s *shaper) plain(ctx context.Context, e *server.Event) (resource.Object, error) {
	if e.Entry != nil {
		obj, err := s.p.kind.ConvertTo(ctx, e.Entry.Object, s.p.gvk)
		if err == nil && e.Entry.Rev != e.Rev {
			obj = resource.Clone(obj)
			obj.SetResourceVersion(strconv.FormatInt(e.Rev, 10))
		}
		return obj, err
	}
	obj := s.p.kind.New(s.p.gvk)
	if blank := s.p.facts.Blank; blank != "" {
		if err := json.Unmarshal([]byte(blank), obj); err != nil {
			return nil, err
		}
	}
	obj.SetResourceVersion(strconv.FormatInt(e.Rev, 10))
	if e.Initial {
		marks := map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		maps.Copy(marks, obj.GetAnnotations())
		obj.SetAnnotations(marks)
	}
	return obj, nil
}

type jsonFramer struct{ *shaper }

func (f *jsonFramer) mediaType() string { return codec.JSON }

func (f *jsonFramer) frame(ctx context.Context, b []byte, e *server.Event) ([]byte, error) {
	var doc []byte
	var err error
	switch {
	case f.own(e):
		doc, err = e.Entry.JSON(ctx, f.p.gvk)
	case f.bare(e):
		if doc, err = f.p.metadataOf(ctx, e.Entry); err == nil {
			doc = append(append(f.p.partialHead(), doc...), '}')
		}
	default:
		var obj runtime.Object
		if obj, err = f.object(ctx, e); err == nil {
			doc, err = codec.MarshalJSON(obj)
		}
	}
	if err != nil {
		return b, err
	}
	return appendJSONEvent(b, e.Type, doc), nil
}

func appendJSONEvent(b []byte, t server.EventType, doc []byte) []byte {
	b = append(b, `{"type":"`...)
	b = append(b, t...)
	b = append(b, `","object":`...)
	b = append(b, doc...)
	return append(b, "}\n"...)
}

func (f *jsonFramer) failure(st *metav1.Status) ([]byte, error) {
	doc, err := codec.MarshalJSON(st)
	return appendJSONEvent(nil, server.Failed, doc), err
}

type protoFramer struct{ *shaper }

func (f *protoFramer) mediaType() string { return codec.Protobuf + ";stream=watch" }

func (f *protoFramer) frame(ctx context.Context, b []byte, e *server.Event) ([]byte, error) {
	if f.bare(e) {
		raw, err := f.p.metadataOf(ctx, e.Entry)
		head, tail := codec.Around(f.p.partialGVK(shapePartial), len(raw))
		return appendProtoEvent(b, e.Type, head, raw, tail), err
	}
	if !f.own(e) {
		obj, err := f.object(ctx, e)
		if err != nil {
			return b, err
		}
		whole, err := codec.MarshalProto(obj)
		return appendProtoEvent(b, e.Type, whole, nil, nil), err
	}
	raw, err := e.Entry.RawProto(ctx, f.p.gvk)
	if err != nil {
		return b, err
	}
	head, tail := codec.Around(f.p.gvk, len(raw))
	return appendProtoEvent(b, e.Type, head, raw, tail), nil
}

func (f *protoFramer) failure(st *metav1.Status) ([]byte, error) {
	whole, err := codec.MarshalProto(st)
	return appendProtoEvent(nil, server.Failed, whole, nil, nil), err
}

// appendProtoEvent writes a length-delimited WatchEvent: type in field 1, object in field 2, which is a
// RawExtension with the enveloped bytes, given in three parts, in its field 1.
func appendProtoEvent(b []byte, t server.EventType, x, y, z []byte) []byte {
	size := len(x) + len(y) + len(z)
	ext := 1 + protowire.SizeVarint(uint64(size)) + size
	event := 1 + protowire.SizeVarint(uint64(len(t))) + len(t) + 1 + protowire.SizeVarint(uint64(ext)) + ext
	b = binary.BigEndian.AppendUint32(b, uint32(event))
	b = protowire.AppendVarint(append(b, 0x0a), uint64(len(t)))
	b = append(b, t...)
	b = protowire.AppendVarint(append(b, 0x12), uint64(ext))
	b = protowire.AppendVarint(append(b, 0x0a), uint64(size))
	b = append(b, x...)
	b = append(b, y...)
	return append(b, z...)
}
