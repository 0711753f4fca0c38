package plugins

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

const patience = 20 * time.Second

// A program is a plugin that serves its registration.
type program struct {
	registration.UnimplementedRegistrationServer
	info *registration.PluginInfo
	told chan *registration.RegistrationStatus
	srv  *grpc.Server
}

func (p *program) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return p.info, nil
}

func (p *program) NotifyRegistrationStatus(_ context.Context,
	s *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	p.told <- s
	return &registration.RegistrationStatusResponse{}, nil
}

// start serves a program at a socket. Closing its listener removes the socket.
func start(t *testing.T, path string, info *registration.PluginInfo) *program {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	p := &program{info: info, told: make(chan *registration.RegistrationStatus, 10), srv: grpc.NewServer()}
	registration.RegisterRegistrationServer(p.srv, p)
	go func() { _ = p.srv.Serve(l) }()
	t.Cleanup(p.srv.Stop)
	return p
}

// A notebook is a handler that notes what it is given.
type notebook struct {
	notes  chan string
	refuse chan error // what the next calls answer
}

func (n *notebook) Register(_ context.Context, p Plugin) error {
	n.notes <- "+" + p.Name + " " + filepath.Base(p.Endpoint) + " " + strings.Join(p.Versions, ",")
	select {
	case err := <-n.refuse:
		return err
	default:
		return nil
	}
}

func (n *notebook) Deregister(p Plugin) { n.notes <- "-" + p.Name }

func next[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatal("nothing happened")
		panic("unreachable")
	}
}

// begin runs a registration in a short directory: the address of a socket holds few bytes.
func begin(t *testing.T) (dir string, book *notebook, stop func()) {
	t.Helper()
	dir, err := os.MkdirTemp("", "plug")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	book = &notebook{notes: make(chan string, 100), refuse: make(chan error, 10)}
	stop = run(t, dir, book)
	return dir, book, stop
}

func run(t *testing.T, dir string, book *notebook) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, Config{Dir: dir, Handlers: map[string]Handler{CSI: book}, Log: slog.New(slog.DiscardHandler)})
	}()
	stop = func() {
		cancel()
		if err := next(t, done); err != nil {
			t.Error(err)
		}
		done <- nil // for who stops again
	}
	t.Cleanup(stop)
	return stop
}

func info(kind, name string) *registration.PluginInfo {
	return &registration.PluginInfo{Type: kind, Name: name, Endpoint: "/x/csi.sock", SupportedVersions: []string{"1.0.0", "1.1.0"}}
}

// TestRegister follows a plugin that comes, is replaced at the same socket, and goes.
func TestRegister(t *testing.T) {
	dir, book, stop := begin(t)
	sock := filepath.Join(dir, Folder, "d-reg.sock")
	p := start(t, sock, info(CSI, "d"))
	if got := next(t, book.notes); got != "+d csi.sock 1.0.0,1.1.0" {
		t.Error(got)
	}
	if s := next(t, p.told); !s.PluginRegistered || s.Error != "" {
		t.Errorf("the plugin is told %v", s)
	}
	p.srv.Stop()
	start(t, sock, info(CSI, "d"))
	if a, b := next(t, book.notes), next(t, book.notes); a != "-d" || b[0] != '+' {
		t.Errorf("a new socket: %s, %s", a, b)
	}
	if err := os.Remove(sock); err != nil {
		t.Fatal(err)
	}
	if got := next(t, book.notes); got != "-d" {
		t.Error(got)
	}
	inner := start(t, filepath.Join(dir, Folder, "a", "b", "reg.sock"), &registration.PluginInfo{Type: CSI, Name: "e"})
	if got := next(t, book.notes); got != "+e reg.sock " {
		t.Errorf("in a folder that was made later: %s", got)
	}
	next(t, inner.told)
	stop()
	if len(book.notes) != 0 {
		t.Errorf("the end of the agent deregisters: %s", <-book.notes)
	}
	run(t, dir, book) // the next agent
	if got := next(t, book.notes); got != "+e reg.sock " {
		t.Errorf("after a restart: %s", got)
	}
}

// A slow handler takes its time to deregister a plugin.
type slow struct {
	*notebook
	enough chan struct{}
}

func (s *slow) Deregister(p Plugin) {
	s.notebook.Deregister(p)
	<-s.enough
	s.notes <- "gone " + p.Name
}

// TestComesAgainSoon has a plugin come back at its socket before the handler is done with the one that went.
func TestComesAgainSoon(t *testing.T) {
	dir := t.TempDir()
	h := &slow{&notebook{notes: make(chan string, 100), refuse: make(chan error)}, make(chan struct{})}
	w := &watcher{cfg: Config{Handlers: map[string]Handler{CSI: h}, Log: slog.New(slog.DiscardHandler)}, dir: dir, at: map[string]*entry{}}
	ctx, cancel := context.WithCancel(t.Context())
	sock := filepath.Join(dir, "d.sock")
	p := start(t, sock, info(CSI, "d"))
	w.look(ctx)
	next(t, h.notes)
	p.srv.Stop() // which removes the socket
	w.look(ctx)
	if got := next(t, h.notes); got != "-d" {
		t.Fatal(got)
	}
	if w.look(ctx); w.at[sock] == nil {
		t.Error("it is forgotten before it is deregistered: the next one won't wait")
	}
	again := start(t, sock, info(CSI, "d"))
	w.look(ctx)
	close(h.enough)
	if a, b := next(t, h.notes), next(t, h.notes); a != "gone d" || b[0] != '+' {
		t.Errorf("%s, %s", a, b)
	}
	again.srv.Stop()
	w.look(ctx)
	next(t, h.notes)
	next(t, h.notes)
	cancel()
	w.wg.Wait()
	if w.look(ctx); len(w.at) != 0 {
		t.Errorf("%d sockets are remembered that have gone", len(w.at))
	}
}

// TestRefuse has plugins refused: by their handler, which is asked again, and by their type.
func TestRefuse(t *testing.T) {
	dir, book, _ := begin(t)
	book.refuse <- errors.New("no version fits")
	p := start(t, filepath.Join(dir, Folder, "d.sock"), info(CSI, "d"))
	if s := next(t, p.told); s.PluginRegistered || !strings.Contains(s.Error, "no version fits") {
		t.Errorf("told %v", s)
	}
	if s := next(t, p.told); !s.PluginRegistered {
		t.Errorf("the second time: %v", s)
	}
	odd := start(t, filepath.Join(dir, Folder, "odd.sock"), info("Toaster", "o"))
	if s := next(t, odd.told); s.PluginRegistered || !strings.Contains(s.Error, `"Toaster"`) {
		t.Errorf("told %v", s)
	}
	for range 2 {
		if got := next(t, book.notes); got[:2] != "+d" {
			t.Error(got)
		}
	}
	start(t, filepath.Join(dir, Folder, ".hidden.sock"), info(CSI, "hidden"))
	start(t, filepath.Join(dir, Folder, "z.sock"), info(CSI, "z"))
	if got := next(t, book.notes); got[:2] != "+z" {
		t.Errorf("%s is registered", got)
	}
}

// TestHungPlugin has one that never answers stand beside one that does.
func TestHungPlugin(t *testing.T) {
	dir, book, _ := begin(t)
	if err := os.MkdirAll(filepath.Join(dir, Folder), 0o750); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, Folder, "a.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	start(t, filepath.Join(dir, Folder, "b.sock"), info(CSI, "b"))
	if got := next(t, book.notes); got[:2] != "+b" {
		t.Error(got)
	}
}

// TestLongPath dials a socket whose path no address can hold.
func TestLongPath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 120))
	if err := os.Mkdir(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	short := filepath.Join("/proc/self/fd", strconv.Itoa(int(d.Fd())), "s")
	p := start(t, short, info(CSI, "d"))
	conn, err := Dial(filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	is, err := ask(t.Context(), registration.NewRegistrationClient(conn), "s")
	if err != nil || is.Name != p.info.Name {
		t.Errorf("%v, %v", is, err)
	}
}
