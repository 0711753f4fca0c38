package client

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/view"
)

// maxFrame bounds one watch event.
const maxFrame = 16 << 20

// errStale says that the server no longer has the history a watch asked for.
var errStale = errors.New("the watch's place in the history is gone")

// errAbsent says that the server does not serve the kind.
var errAbsent = errors.New("the server does not serve this kind")

// absentPause is the pause before a server is asked again for a kind that it does not serve: it may be upgraded. Tests shorten it.
var absentPause = 15 * time.Second

// Run keeps the copies of the sources up to date until ctx ends; ready is called once, when all are complete. A kind that
// the server does not serve is not among Kinds, and its copy is empty and complete, until the server does serve it.
func (r *Remote) Run(ctx context.Context, ready func()) error {
	var all, done sync.WaitGroup
	for _, s := range r.sources {
		all.Add(1)
		done.Go(func() {
			first := sync.OnceFunc(all.Done)
			defer first()
			r.follow(ctx, s, &tableOf{r.view, s.Kind}, first)
		})
	}
	synced := make(chan struct{})
	done.Go(func() { all.Wait(); close(synced) })
	select {
	case <-ctx.Done():
	case <-synced:
		ready()
	}
	done.Wait()
	return nil
}

// shortWatch is a watch that told nothing and ended as soon as it began: something between here and the server cuts it off, or the server
// is about to end.
const shortWatch = time.Second

// follow watches one source, again and again: from where the last watch ended, or from the start when that
// place is gone. Pauses grow to half a minute while the server can't be reached.
func (r *Remote) follow(ctx context.Context, s Source, to sink, synced func()) {
	w := &watch{remote: r, src: s, to: to, synced: synced}
	note := r.copies.note
	if _, table := to.(*tableOf); !table {
		note = func(resource.Kind, error) {} // what is said of one object says nothing of its kind
	}
	defer note(s.Kind, nil)
	for fails := 0; ctx.Err() == nil; {
		before, began := w.rev, time.Now()
		err := w.run(ctx)
		if ctx.Err() != nil {
			return // the error is the end's
		}
		if errors.Is(err, errAbsent) {
			note(s.Kind, nil)
			w.absent()
			sleep(ctx, absentPause)
			continue
		}
		note(s.Kind, err)
		switch {
		case errors.Is(err, errStale):
			w.rev = 0
		case w.rev > before || err == nil && time.Since(began) >= shortWatch:
			fails = 0
		case err == nil:
			fails++
		case before == 0 && !w.lists && knowsNoLists(err):
			slog.Debug("the server does not begin a watch with what there is: it is listed", "kind", s.Kind.Info().GR(), "err", err)
			w.lists = true
			continue
		default:
			fails++
			slog.Warn("watch failed", "kind", s.Kind.Info().GR(), "err", err)
		}
		if fails == 0 && err == nil {
			continue
		}
		pause := min(100*time.Millisecond<<min(fails, 10), 30*time.Second)
		sleep(ctx, pause/2+rand.N(pause/2))
	}
}

// A sink takes what a watch tells.
type sink interface {
	replace(rev int64, list []resource.Object) // this is all there is
	update(rev int64, obj resource.Object, deleted bool)
	advance(rev int64) // nothing changed up to here
}

// tableOf is the sink of a source: its kind's place in the view.
type tableOf struct {
	view *view.View
	kind resource.Kind
}

func (t *tableOf) replace(rev int64, list []resource.Object) { t.view.Replace(t.kind, rev, list) }

func (t *tableOf) update(rev int64, obj resource.Object, deleted bool) {
	t.view.Update(t.kind, rev, obj, deleted)
}

func (t *tableOf) advance(rev int64) { t.view.Advance(t.kind, rev) }

// watch is one source's stream.
type watch struct {
	remote  *Remote
	src     Source
	to      sink
	synced  func()
	rev     int64             // complete up to here; 0: nothing yet
	initial []resource.Object // collected until the initial events end
	lists   bool              // the server begins no watch with what there is
}

func (w *watch) query() url.Values {
	q := url.Values{"watch": {"true"}, "allowWatchBookmarks": {"true"},
		"timeoutSeconds": {strconv.Itoa(300 + rand.IntN(300))}}
	w.src.selectors(q)
	if w.rev > 0 {
		q.Set("resourceVersion", strconv.FormatInt(w.rev, 10))
		return q
	}
	q.Set("sendInitialEvents", "true")
	q.Set("resourceVersionMatch", string(metav1.ResourceVersionMatchNotOlderThan))
	return q
}

// run opens the stream and applies its events until it ends.
func (w *watch) run(ctx context.Context) error {
	if w.lists && w.rev == 0 {
		if err := w.list(ctx); err != nil {
			return err
		}
	}
	r, k := w.remote, w.src.Kind
	accept := codec.Protobuf + ";stream=watch," + codec.JSON
	if k.Info().Custom {
		accept = codec.JSON
	}
	req, err := r.request(ctx, http.MethodGet, r.path(k, w.src.Namespace, "", ""), w.query(), accept, "", nil)
	if err != nil {
		return err
	}
	res, err := r.stream.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	typ := mediaType(res.Header.Get("Content-Type"))
	if res.StatusCode != http.StatusOK {
		data, _ := io.ReadAll(io.LimitReader(res.Body, maxFrame)) // a cut-off error is still an error
		switch res.StatusCode {
		case http.StatusGone:
			return errStale
		case http.StatusNotFound:
			return errAbsent
		}
		return statusError(res, typ, data)
	}
	w.initial = nil
	frames := frameReader(bufio.NewReader(res.Body), typ)
	for {
		ev, err := frames()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := w.apply(ev, typ); err != nil {
			return err
		}
	}
}

// frameReader cuts a stream into events.
func frameReader(in *bufio.Reader, typ string) func() (*metav1.WatchEvent, error) {
	if typ != codec.Protobuf {
		dec := json.NewDecoder(in)
		return func() (*metav1.WatchEvent, error) {
			ev := &metav1.WatchEvent{}
			return ev, dec.Decode(ev)
		}
	}
	return func() (*metav1.WatchEvent, error) {
		var size [4]byte
		if _, err := io.ReadFull(in, size[:]); err != nil {
			return nil, err
		}
		n := binary.BigEndian.Uint32(size[:])
		if n > maxFrame {
			return nil, fmt.Errorf("watch event of %d bytes is larger than %d", n, maxFrame)
		}
		data := make([]byte, n)
		if _, err := io.ReadFull(in, data); err != nil {
			return nil, err
		}
		ev := &metav1.WatchEvent{}
		return ev, ev.Unmarshal(data)
	}
}

// apply brings the view up to date with one event.
func (w *watch) apply(ev *metav1.WatchEvent, typ string) error {
	k := w.src.Kind
	if ev.Type == "ERROR" {
		return w.failure(ev, typ)
	}
	obj, err := decode(k, typ, ev.Object.Raw)
	if err != nil {
		return err
	}
	rev, err := strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		return fmt.Errorf("watch event of %s without a revision: %w", k.Info().GR(), err)
	}
	switch {
	case ev.Type == "BOOKMARK" && w.rev == 0:
		if obj.GetAnnotations()[metav1.InitialEventsAnnotationKey] != "true" {
			return nil
		}
		w.to.replace(rev, w.initial)
		w.rev, w.initial = rev, nil
		return w.complete()
	case ev.Type == "BOOKMARK":
		w.to.advance(rev)
	case w.rev == 0:
		w.initial = append(w.initial, obj)
		return nil
	default:
		w.to.update(rev, obj, ev.Type == "DELETED")
	}
	w.rev = max(w.rev, rev)
	return nil
}

// complete says that the copy is whole: the kind is served.
func (w *watch) complete() error {
	k := w.src.Kind
	if _, table := w.to.(*tableOf); !table {
		w.synced()
		return nil
	}
	if _, known := w.remote.set.GR(k.Info().GR()); !known {
		if err := w.remote.set.Put(k); err != nil {
			return fmt.Errorf("serve %s: %w", k.Info().GR(), err)
		}
		slog.Info("the server serves a kind that it did not serve before", "kind", k.Info().GR())
	}
	w.remote.copies.note(k, nil)
	w.synced()
	return nil
}

// absent takes a kind out that the server does not serve. Its objects stay in the copy: that nobody serves them does not say
// that they are gone.
func (w *watch) absent() {
	if _, table := w.to.(*tableOf); !table {
		return
	}
	gr := w.src.Kind.Info().GR()
	if _, known := w.remote.set.GR(gr); known {
		w.remote.set.Remove(gr)
		slog.Info("the server does not serve a kind", "kind", gr)
	}
	w.rev = 0
	w.synced()
}

func (w *watch) failure(ev *metav1.WatchEvent, typ string) error {
	st := &metav1.Status{}
	var err error
	if typ == codec.Protobuf {
		var raw []byte
		if _, raw, err = codec.OpenEnvelope(ev.Object.Raw); err == nil {
			err = st.Unmarshal(raw)
		}
	} else {
		_, err = codec.UnmarshalJSON(ev.Object.Raw, st)
	}
	switch {
	case err != nil:
		return fmt.Errorf("decode the watch's error: %w", err)
	case st.Code == http.StatusGone:
		return errStale
	}
	return &apierrors.StatusError{ErrStatus: *st}
}

// mediaType strips the parameters.
func mediaType(header string) string {
	typ, _, err := mime.ParseMediaType(header)
	if err != nil {
		return header
	}
	return typ
}
