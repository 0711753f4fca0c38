package history

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
)

// A Span says what is known of a time.
type Span struct {
	Oldest time.Time // nothing is known of before
	Breaks []Break
}

// A Break is a time whose changes were not seen, or are lost: what they did shows as if it had been done at its end.
type Break struct{ From, To time.Time }

// Since hands out the records since a time, by revision, until the function returns false. A record that is kept past the call keeps
// its chunk in memory.
func (l *Log) Since(since time.Time, f func(*Record) bool) (Span, error) {
	l.flush() // so that all is read in one way
	l.mu.Lock()
	files, err := l.shelves.opened()
	l.mu.Unlock()
	r := reading{since: since, f: f, span: Span{Oldest: l.cfg.Now()}}
	for _, file := range files {
		if err == nil && !r.done {
			err = r.read(file)
		}
		err = errors.Join(err, file.Close())
	}
	return r.span, err
}

// A reading goes through the chunks in their order.
type reading struct {
	since time.Time
	f     func(*Record) bool
	span  Span
	last  header // of the chunk before
	any   bool   // there was one
	done  bool
}

func (r *reading) read(file io.Reader) error {
	in := bufio.NewReaderSize(file, 64<<10)
	for !r.done {
		var h header
		raw, err := in.Peek(headerSize)
		if err != nil || !h.unmarshal(raw) {
			return nil // the end, or a torn one: what is missing shows itself as a break
		}
		_, _ = in.Discard(headerSize) // it was peeked at
		if time.UnixMilli(h.End).Before(r.since) {
			if _, err := in.Discard(int(h.Size)); err != nil {
				return nil
			}
			r.follow(h)
			continue
		}
		packed := make([]byte, h.Size)
		if _, err := io.ReadFull(in, packed); err != nil {
			return nil
		}
		records, err := h.unpack(packed)
		if err != nil {
			continue
		}
		r.follow(h)
		if err := r.records(records); err != nil {
			return err
		}
	}
	return nil
}

// follow notes how a chunk goes on from the one before.
func (r *reading) follow(h header) {
	begin := time.UnixMilli(h.Begin)
	switch {
	case !r.any:
		r.span.Oldest = begin
	case h.From != r.last.To && !begin.Before(r.since):
		r.span.Breaks = append(r.span.Breaks, Break{time.UnixMilli(r.last.End), begin})
	}
	r.last, r.any = h, true
}

func (r *reading) records(b []byte) error {
	for len(b) > 0 && !r.done {
		rec := &Record{}
		var err error
		if b, err = rec.next(b); err != nil {
			return err
		}
		if !rec.At.Before(r.since) {
			r.done = !r.f(rec)
		}
	}
	return nil
}

// ErrLost says that what an object was could not be kept.
var ErrLost = errors.New("what it was could not be kept")

// Object returns the record's object as it was before the write, of its kind's stored version, with its resourceVersion; nil: there was
// none. The caller owns it.
func (l *Log) Object(k resource.Kind, r *Record) (resource.Object, error) {
	switch {
	case r.Created():
		return nil, nil
	case r.lost:
		return nil, ErrLost
	}
	value := r.body
	if r.sealed {
		if l.cfg.Cipher == nil {
			return nil, fmt.Errorf("%w: it is encrypted, and no key is configured", ErrLost)
		}
		var err error
		if value, err = l.cfg.Cipher.Unseal(r.Key, r.body); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrLost, err)
		}
	}
	obj, err := codec.FromStored(k, value)
	if err != nil {
		return nil, err
	}
	obj.SetResourceVersion(strconv.FormatInt(r.Was, 10))
	obj.GetObjectKind().SetGroupVersionKind(k.Info().GVK)
	return obj, nil
}
