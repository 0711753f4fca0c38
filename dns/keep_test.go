package dns

import (
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"

	"github.com/kloop-dev/kloop/internal/eventually"
)

// ports names the ports of DNS and metrics to the process that TestRestart starts.
const ports = "KLOOP_TEST_DNS_PORTS"

// TestAsAService is the server that TestRestart restarts: it serves until its standard input ends.
func TestAsAService(t *testing.T) {
	var dns, metrics uint16
	if _, err := fmt.Sscan(os.Getenv(ports), &dns, &metrics); err != nil {
		t.Skip("for TestRestart")
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	w := newWorld(t, shop()...)
	err := Run(t.Context(), Config{Client: w, Node: "n1", Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")}, Port: dns,
		Metrics: metrics, ResolvConf: os.DevNull, Log: slog.New(slog.DiscardHandler)}, func() {})
	t.Fatal(err)
}

// A systemd holds files for a service, and starts it.
type systemd struct {
	t     *testing.T
	conn  *net.UnixConn
	env   []string
	mu    sync.Mutex
	files []*os.File
	cmd   *exec.Cmd
	stop  io.Closer
}

func newSystemd(t *testing.T, env ...string) *systemd {
	path := filepath.Join(t.TempDir(), "s")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	s := &systemd{t: t, conn: conn, env: append(os.Environ(), append(env, "NOTIFY_SOCKET="+path)...)}
	go s.listen()
	t.Cleanup(func() { s.kill(syscall.SIGKILL); conn.Close() })
	return s
}

func (s *systemd) listen() {
	text, oob := make([]byte, 4096), make([]byte, 4096)
	for {
		n, m, _, _, err := s.conn.ReadMsgUnix(text, oob)
		if err != nil {
			return
		}
		s.mu.Lock()
		switch state := string(text[:n]); {
		case strings.HasPrefix(state, "FDSTOREREMOVE=1\nFDNAME=dns"):
			s.files = nil
		case strings.HasPrefix(state, "FDSTORE=1\nFDNAME=dns"):
			messages, _ := unix.ParseSocketControlMessage(oob[:m])
			for _, msg := range messages {
				fds, _ := unix.ParseUnixRights(&msg)
				for _, fd := range fds {
					s.files = append(s.files, os.NewFile(uintptr(fd), "kept"))
				}
			}
		}
		s.mu.Unlock()
	}
}

func (s *systemd) kept() []*os.File {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.files
}

// start starts the service, with what it left.
func (s *systemd) start() {
	s.t.Helper()
	files := s.kept()
	names := strings.TrimSuffix(strings.Repeat("dns:", len(files)), ":")
	s.cmd = exec.CommandContext(s.t.Context(), "sh", "-c", `LISTEN_PID=$$ exec "$0" -test.run='^TestAsAService$'`, os.Args[0])
	s.cmd.Env, s.cmd.ExtraFiles = append(s.env, "LISTEN_FDS="+strconv.Itoa(len(files)), "LISTEN_FDNAMES="+names), files
	in, err := s.cmd.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	s.stop = in
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
}

// kill ends it; signal 0: in order.
func (s *systemd) kill(signal syscall.Signal) {
	if signal == 0 {
		s.stop.Close()
	} else {
		_ = s.cmd.Process.Signal(signal)
	}
	_ = s.cmd.Wait()
}

// TestRestart: the server is killed, and ends in order, while a thousand questions a second come. What comes meanwhile waits for the next
// process, and no question is answered wrong.
func TestRestart(t *testing.T) {
	at, metrics := freePort(t), freePort(t)
	s := newSystemd(t, fmt.Sprintf("%s=%d %d", ports, at, metrics))
	s.start()
	a := newAskers(t, at, 16)
	eventually.True(t, "the server answers", func() bool { return a.right() })
	eventually.True(t, "the sockets are kept", func() bool { return len(s.kept()) >= 3 })
	a.begin()
	for _, signal := range []syscall.Signal{syscall.SIGKILL, 0} {
		s.kill(signal)
		before, _ := a.count()
		eventually.True(t, "questions wait", func() bool { n, _ := a.count(); return n > before+100 })
		s.start()
		_, now := a.count()
		eventually.True(t, "answers come again", func() bool { _, n := a.count(); return n > now+300 })
	}
	a.end()
	eventually.True(t, "the last answers", func() bool { asked, answered := a.count(); return asked-answered <= asked/1000 })
	a.mu.Lock()
	defer a.mu.Unlock()
	t.Logf("%d questions, %d without an answer, the slowest took %v", a.asked, a.asked-a.answered, a.slowest)
}

func freePort(t *testing.T) uint16 {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).AddrPort().Port()
}

// askers ask from several ports.
type askers struct {
	t               *testing.T
	conns           []net.Conn
	question        []byte
	stop, stopped   chan struct{}
	mu              sync.Mutex
	asked, answered int
	slowest         time.Duration
}

func newAskers(t *testing.T, at uint16, n int) *askers {
	a := &askers{t: t, question: asked(t, "web.shop.svc.cluster.local", dnsmessage.TypeA, 0), stop: make(chan struct{}),
		stopped: make(chan struct{})}
	for range n {
		a.conns = append(a.conns, dial(t, "udp", fmt.Sprint("127.0.0.1:", at)))
	}
	return a
}

// right asks once.
func (a *askers) right() bool {
	c, buf := a.conns[0], make([]byte, 512)
	_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	defer c.SetReadDeadline(time.Time{})
	if _, err := c.Write(a.question); err != nil {
		return false
	}
	n, err := c.Read(buf)
	return err == nil && told(a.t, buf[:n]) == "Success\nweb.shop.svc.cluster.local A 10.96.1.1"
}

// mostWait is how many questions wait for their answers at most: the kernel holds so many for a socket, however slowly the next
// process starts.
const mostWait = 200

// begin asks a thousand times a second, until end.
func (a *askers) begin() {
	var sent [1 << 16]time.Time
	for _, c := range a.conns {
		go func() {
			for buf := make([]byte, 512); ; {
				n, err := c.Read(buf)
				if err != nil {
					return
				}
				a.mu.Lock()
				if buf[3]&15 != 0 {
					a.t.Errorf("an answer: %s", told(a.t, buf[:n]))
				}
				a.answered++
				a.slowest = max(a.slowest, time.Since(sent[binary.BigEndian.Uint16(buf)]))
				a.mu.Unlock()
			}
		}()
	}
	go func() {
		defer close(a.stopped)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-a.stop:
				return
			case <-tick.C:
			}
			msg := binary.BigEndian.AppendUint16(nil, uint16(i))
			a.mu.Lock()
			if a.asked-a.answered >= mostWait {
				a.mu.Unlock()
				continue
			}
			sent[uint16(i)] = time.Now()
			a.asked++
			a.mu.Unlock()
			if _, err := a.conns[i%len(a.conns)].Write(append(msg, a.question[2:]...)); err != nil {
				a.t.Error(err)
			}
		}
	}()
}

func (a *askers) end() { close(a.stop); <-a.stopped }

func (a *askers) count() (asked, answered int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked, a.answered
}
