package httpapi

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"
)

// A line is a connection that bytes can be put on without waiting for the client: what the kernel doesn't take at once is kept and
// written by a goroutine. So one goroutine can tell an event to many watches, and none of them holds up the others. TLS lies
// above it, and never sees half a record fail. Like TLS, it has one writer at a time.
type line struct {
	net.Conn
	raw   syscall.RawConn
	stall time.Duration // how long a client may take no bytes

	mu   sync.Mutex
	soft bool          // writes don't wait
	kept []byte        // what the kernel has not taken
	done chan struct{} // closed when nothing is kept any more; nil: nothing is
	err  error         // of writing what was kept

	attempt func(fd uintptr) bool // of try's; made once, as each event comes here once for each watch. It uses the next
	trying  []byte
	took    int
	failure error
}

// lines makes a line of each connection.
type lines struct {
	net.Listener
	stall time.Duration
}

func (l lines) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if s, ok := c.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			return newLine(c, raw, l.stall), nil
		}
	}
	return c, nil
}

func newLine(c net.Conn, raw syscall.RawConn, stall time.Duration) *line {
	l := &line{Conn: c, raw: raw, stall: stall}
	l.attempt = func(fd uintptr) bool {
		l.took, l.failure = writeNow(fd, l.trying)
		return true
	}
	return l
}

// lineKey finds the line in the context of its requests.
type lineKey struct{}

// withLine is the server's ConnContext hook.
func withLine(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	if l, ok := c.(*line); ok {
		return context.WithValue(ctx, lineKey{}, l)
	}
	return ctx
}

// lineOf returns the line that the answer to a request has for itself; nil when it has none, as over HTTP/2.
func lineOf(r *http.Request) *line {
	if r.ProtoMajor != 1 {
		return nil
	}
	l, _ := r.Context().Value(lineKey{}).(*line)
	return l
}

// softly calls write, which writes to the connection, and none of that waits. It returns false, and calls nothing, when the
// client has yet to take what was written before. Nobody else may write meanwhile.
func (l *line) softly(write func() error) (bool, error) {
	l.mu.Lock()
	l.soft = l.done == nil && l.err == nil
	soft := l.soft
	l.mu.Unlock()
	if !soft {
		return false, nil
	}
	err := write()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.soft = false
	return true, err
}

// Put implements h2.Line.
func (l *line) Put(write func() error) (<-chan struct{}, error) {
	l.mu.Lock()
	l.soft = true
	l.mu.Unlock()
	err := write()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.soft = false
	if err == nil {
		err = l.err
	}
	return l.done, err
}

// Err implements h2.Line.
func (l *line) Err() error { return l.failed() }

// Write implements net.Conn.
func (l *line) Write(b []byte) (int, error) {
	l.mu.Lock()
	if l.soft {
		defer l.mu.Unlock()
		return l.put(b)
	}
	done := l.done
	l.mu.Unlock()
	if done != nil {
		<-done // the deadline of that write ends it
	}
	if err := l.failed(); err != nil {
		return 0, err
	}
	return l.Conn.Write(b)
}

func (l *line) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// put gives the kernel what it takes and keeps the rest. It needs mu.
func (l *line) put(b []byte) (int, error) {
	if l.err != nil {
		return len(b), nil // what went before is lost, and so is this: the next write says so
	}
	if l.done != nil {
		l.kept = append(l.kept, b...)
		return len(b), nil
	}
	n, err := l.try(b)
	if err != nil || n == len(b) {
		return n, err
	}
	l.kept, l.done = append(l.kept, b[n:]...), make(chan struct{})
	go l.drain()
	return len(b), nil
}

// try writes what the kernel takes now. It needs mu.
func (l *line) try(b []byte) (int, error) {
	l.trying = b
	broken := l.raw.Write(l.attempt)
	l.trying = nil
	if broken != nil {
		return 0, broken
	}
	if errors.Is(l.failure, syscall.EAGAIN) || errors.Is(l.failure, syscall.EINTR) {
		return 0, nil
	}
	return max(l.took, 0), l.failure
}

// drain writes what is kept until nothing is, the client takes nothing for too long, or the connection is closed.
func (l *line) drain() {
	_ = l.Conn.SetWriteDeadline(time.Now().Add(l.stall))
	for l.keeps() {
		l.mu.Lock()
		b := l.kept
		l.kept = nil
		l.mu.Unlock()
		if _, err := l.Conn.Write(b); err != nil {
			l.mu.Lock()
			l.err, l.kept = err, nil
			l.mu.Unlock()
		}
	}
}

// keeps says whether there is more to write; when there is not, it tells those who wait.
func (l *line) keeps() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.kept) > 0 {
		return true
	}
	_ = l.Conn.SetWriteDeadline(time.Time{})
	close(l.done)
	l.done = nil
	return false
}
