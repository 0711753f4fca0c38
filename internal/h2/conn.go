package h2

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	frameSize    = 16 << 10         // of frames, in either direction
	tableSize    = 4 << 10          // of what the client's headers may refer back to
	firstWindow  = 65535            // of a connection, until its first WINDOW_UPDATE
	prefaceLimit = 10 * time.Second // for a client to begin
	lingerLimit  = time.Second      // for a client to hear why its connection ends
	mostWindow   = 1<<31 - 1
)

// errGone fails reads and writes of streams whose connection has ended.
var errGone = errors.New("h2: the connection has ended")

// A conn is one connection.
type conn struct {
	s       *Server
	nc      net.Conn
	line    Line // nil: a goroutine writes
	tls     *tls.ConnectionState
	handler http.Handler
	remote  string
	ctx     context.Context // of all its requests

	fr     *http2.Framer // reads
	frames atomic.Uint32 // that were read, for watchdog
	resets bucket        // by the client, or because of what it sent; the reader's own

	mu       sync.Mutex
	streams  map[uint32]*stream
	handlers int     // at work, those of streams that were reset too
	late     latest  // streams that ended here last, which the client may not know yet
	last     uint32  // highest id of a stream that the client has begun
	leaving  bool    // GOAWAY was sent: streams above goneAt are not answered
	goneAt   uint32  // the last that is
	err      error   // why the connection ends
	unasked  int     // SETTINGS that the client has yet to acknowledge
	watchdog watcher // see keep.go

	window  int64     // bytes that may be sent
	initial int64     // window of a new stream
	waiting []*stream // for the connection, the longest first
	out     []byte    // frames to be written
	busy    bool      // somebody writes
	stuck   bool      // … and waits for the client
	kicked  bool      // somebody is about to
	mute    bool      // nothing can be written any more

	pending      []byte // what writePending writes; of the one who is busy
	writePending func() error

	inflow int64 // bytes that the client may send
	credit int64 // … that it is yet to be told of
}

func newConn(ctx context.Context, s *Server, nc net.Conn, state *tls.ConnectionState, h http.Handler) *conn {
	c := &conn{s: s, nc: nc, tls: state, handler: h, ctx: ctx, remote: nc.RemoteAddr().String(), streams: map[uint32]*stream{},
		window: firstWindow, initial: firstWindow, inflow: int64(s.cfg.ConnWindow), resets: newBucket()}
	under := nc
	if t, ok := nc.(*tls.Conn); ok {
		under = t.NetConn()
	}
	c.line, _ = under.(Line)
	c.writePending = c.writeOut // made once: each event comes here once for each watch
	c.fr = http2.NewFramer(io.Discard, nc)
	c.fr.ReadMetaHeaders = hpack.NewDecoder(tableSize, nil)
	c.fr.MaxHeaderListSize = s.cfg.Header
	c.fr.SetMaxReadFrameSize(frameSize)
	c.fr.SetReuseFrames()
	return c
}

// serve reads the connection until it ends.
func (c *conn) serve() {
	defer c.finish()
	if !c.greet() {
		return
	}
	c.watch()
	for first := true; ; first = false {
		f, err := c.fr.ReadFrame()
		c.frames.Add(1)
		if err == nil && first {
			if _, ok := f.(*http2.SettingsFrame); !ok {
				err = http2.ConnectionError(http2.ErrCodeProtocol)
			}
		}
		if err == nil {
			err = c.handle(f)
		}
		if err != nil && !c.survives(err) {
			return
		}
	}
}

// preface reads what a client of HTTP/2 begins with.
func (c *conn) preface() bool {
	_ = c.nc.SetReadDeadline(time.Now().Add(prefaceLimit))
	var text [len(http2.ClientPreface)]byte
	if _, err := io.ReadFull(c.nc, text[:]); err != nil || !bytes.Equal(text[:], []byte(http2.ClientPreface)) {
		return false
	}
	_ = c.nc.SetReadDeadline(time.Time{})
	return true
}

// greet hears the client's preface, and says what it may do.
func (c *conn) greet() bool {
	if c.tls != nil && !c.preface() {
		return false
	}
	cfg := &c.s.cfg
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settings(
		http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: uint32(cfg.Streams)},
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: cfg.Header},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(cfg.StreamWindow)},
		http2.Setting{ID: http2.SettingNoRFC7540Priorities, Val: 1})
	c.unasked++
	if more := cfg.ConnWindow - firstWindow; more > 0 {
		c.windowUpdate(0, more)
	}
	c.flush()
	return true
}

// survives deals with an error and says whether the connection goes on.
func (c *conn) survives(err error) bool {
	var ofStream http2.StreamError
	var ofConn http2.ConnectionError
	if errors.As(err, &ofStream) && !c.resets.take(time.Now()) {
		err = http2.ConnectionError(http2.ErrCodeEnhanceYourCalm)
	}
	switch {
	case errors.As(err, &ofConn):
		c.refuse(http2.ErrCode(ofConn))
	case errors.Is(err, http2.ErrFrameTooLarge):
		c.refuse(http2.ErrCodeFrameSize)
	case errors.As(err, &ofStream):
		c.mu.Lock()
		defer c.mu.Unlock()
		if ofStream.StreamID > c.last && ofStream.StreamID%2 == 1 && !c.leaving {
			c.last = ofStream.StreamID // its headers were bad
		}
		c.reset(ofStream.StreamID, ofStream.Code)
		c.flush()
		return c.err == nil
	}
	return false
}

// refuse ends the connection and says why.
func (c *conn) refuse(code http2.ErrCode) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.goAway(code)
	c.flush()
	c.fail(http2.ConnectionError(code))
	c.linger()
}

// leave ends the connection after the requests that are under way; new ones are not answered.
func (c *conn) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.goAway(http2.ErrCodeNo)
	c.flush()
	c.rest()
}

// rest ends a connection that is to end once it has nothing more to do. It needs mu.
func (c *conn) rest() {
	if c.leaving && len(c.streams) == 0 && c.err == nil {
		c.fail(errGone)
		c.linger()
	}
}

// linger gives the client time to hear of it, by having the reader read on for a while. It needs mu.
func (c *conn) linger() { _ = c.nc.SetReadDeadline(time.Now().Add(lingerLimit)) }

// fail ends all streams. What is yet to be written still is. It needs mu.
func (c *conn) fail(err error) {
	if c.err != nil {
		return
	}
	c.err = err
	c.watchdog.stop()
	for _, st := range c.streams {
		st.fail(errGone)
	}
	clear(c.streams)
}

// broken ends the connection at once: nothing can be written. It needs mu.
func (c *conn) broken(err error) {
	c.fail(err)
	c.out, c.mute = nil, true
	_ = c.nc.SetReadDeadline(time.Unix(1, 0)) // who reads closes it
}

// finish ends what is left when the reader has ended. The http.Server closes the connection.
func (c *conn) finish() {
	c.mu.Lock()
	ended := c.err
	c.fail(errGone)
	c.mu.Unlock()
	if ended != nil && !errors.Is(ended, io.EOF) { // it was told why; let that arrive
		_, _ = io.CopyN(io.Discard, c.nc, lingerBytes)
	}
}

// lingerBytes bounds what is read of a client that does not hear that its connection has ended.
const lingerBytes = 4 << 20
