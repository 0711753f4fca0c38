package dns

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kloop-dev/kloop/internal/coldsort"
)

// How name servers are asked.
const (
	tryTime  = 2 * time.Second  // for one of them, as CoreDNS's forward
	resting  = 10 * time.Second // of one that did not answer: it is asked last
	maxTries = 3
)

// A forwarder asks name servers, and remembers what they said.
type forwarder struct {
	told  *figures
	own   []netip.AddrPort // addresses that lead back here
	log   *slog.Logger
	cache *cache

	mu     sync.Mutex
	asking map[cacheKey]*flight
	failed map[netip.AddrPort]time.Time
}

// A flight is a question that is being asked, for all who want to know.
type flight struct {
	done chan struct{}
	got  *stored
	err  error
}

func newForwarder(told *figures, own []netip.AddrPort, log *slog.Logger) *forwarder {
	return &forwarder{told: told, own: own, log: log, cache: newCache(), asking: map[cacheKey]*flight{},
		failed: map[netip.AddrPort]time.Time{}}
}

// resolve answers from the cache, or asks: one question for all who ask it at the same time. When nobody answers, an answer whose
// time is over is better than none (RFC 8767).
func (f *forwarder) resolve(ctx context.Context, to *upstreams, name string, q *query) (*stored, error) {
	k := cacheKey{name, q.typ, q.dnssec, q.flags&flagCD != 0, to}
	old, fresh := f.cache.get(k, time.Now())
	f.told.cached(fresh)
	if fresh {
		return old, nil
	}
	f.mu.Lock()
	fl := f.asking[k]
	if fl == nil {
		fl = &flight{done: make(chan struct{})}
		f.asking[k] = fl
		f.mu.Unlock()
		fl.got, fl.err = f.exchange(ctx, to, k)
		if fl.err == nil {
			f.cache.put(k, fl.got)
		}
		f.mu.Lock()
		delete(f.asking, k)
		f.mu.Unlock()
		close(fl.done)
	} else {
		f.mu.Unlock()
		select {
		case <-fl.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if old != nil && (fl.err != nil || fl.got.rcode() == rcodeServFail) {
		return old, nil
	}
	return fl.got, fl.err
}

// exchange asks the servers, one after the other from any of them on; those that failed lately come last.
func (f *forwarder) exchange(ctx context.Context, to *upstreams, k cacheKey) (*stored, error) {
	list := f.order(to.servers())
	if len(list) == 0 {
		return nil, errors.New("there is no name server to ask")
	}
	var last *stored
	var errs []error
	for i := range maxTries {
		at := list[i%len(list)]
		got, err := f.try(ctx, at, k)
		f.told.forwarded(at, err)
		f.note(at, err)
		if err == nil && got.rcode() != rcodeServFail && got.rcode() != rcodeRefused {
			return got, nil
		}
		if err == nil {
			last = got
		} else {
			errs = append(errs, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	if last != nil {
		return last, nil
	}
	return nil, errors.Join(errs...)
}

// order leaves out what leads back here, and puts what failed lately last.
func (f *forwarder) order(list []netip.AddrPort) []netip.AddrPort {
	list = slices.DeleteFunc(slices.Clone(list), func(a netip.AddrPort) bool { return slices.Contains(f.own, a) })
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	f.mu.Lock()
	defer f.mu.Unlock()
	rests := func(a netip.AddrPort) int {
		if t, ok := f.failed[a]; ok && time.Since(t) < resting {
			return 1
		}
		return 0
	}
	coldsort.StableFunc(list, func(a, b netip.AddrPort) int { return rests(a) - rests(b) })
	return list
}

func (f *forwarder) note(at netip.AddrPort, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		delete(f.failed, at)
		return
	}
	f.failed[at] = time.Now()
}

// try asks one server: over UDP, and over TCP when the answer is too long for that. Every question has a socket and so a port of
// its own, which a forger must guess along with the id.
func (f *forwarder) try(ctx context.Context, at netip.AddrPort, k cacheKey) (*stored, error) {
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	id := uint16(rand.Uint32())
	ask, err := k.message(id)
	if err != nil {
		return nil, err
	}
	got, err := once(ctx, "udp", at, ask, k)
	if err == nil && binary.BigEndian.Uint16(got[2:])&flagTC != 0 {
		got, err = once(ctx, "tcp", at, ask, k)
	}
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", at, err)
	}
	return keep(got, time.Now())
}

func once(ctx context.Context, network string, at netip.AddrPort, ask []byte, k cacheKey) ([]byte, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, at.String())
	if err != nil {
		return nil, err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Now()) })
	defer stop()
	if network == "tcp" {
		return onceTCP(c, ask, k)
	}
	if _, err := c.Write(ask); err != nil {
		return nil, err
	}
	buf := make([]byte, 4096)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return nil, err
		}
		if matches(buf[:n], ask, k) {
			return buf[:n], nil
		}
	}
}

func onceTCP(c net.Conn, ask []byte, k cacheKey) ([]byte, error) {
	if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(ask))), ask...)); err != nil {
		return nil, err
	}
	var length [2]byte
	if _, err := io.ReadFull(c, length[:]); err != nil {
		return nil, err
	}
	buf := make([]byte, binary.BigEndian.Uint16(length[:]))
	if _, err := io.ReadFull(c, buf); err != nil {
		return nil, err
	}
	if !matches(buf, ask, k) {
		return nil, errors.New("the answer is to another question")
	}
	return buf, nil
}

// matches says that a message answers our question.
func matches(msg, ask []byte, k cacheKey) bool {
	if len(msg) < headerLen || msg[0] != ask[0] || msg[1] != ask[1] || binary.BigEndian.Uint16(msg[2:])&flagQR == 0 {
		return false
	}
	if binary.BigEndian.Uint16(msg[4:]) == 0 { // some errors come without the question
		return binary.BigEndian.Uint16(msg[2:])&15 != rcodeSuccess
	}
	name, at, err := readName(msg, headerLen)
	return err == nil && strings.EqualFold(name, k.name) && len(msg) >= at+4 &&
		binary.BigEndian.Uint16(msg[at:]) == k.typ && binary.BigEndian.Uint16(msg[at+2:]) == classIN
}
