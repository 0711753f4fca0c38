package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ownClusters runs the measurements, each on a fresh kloop of its own.
func ownClusters(ctx context.Context, o *options, rep *report) error {
	var errs []error
	for _, m := range measurements() {
		if m.stores == nil {
			m.stores = []string{"etcd"}
		}
		for _, store := range m.stores {
			if !o.wants(m.name) || !slices.Contains(strings.Split(o.stores, ","), store) {
				continue
			}
			one := onOwn
			switch {
			case m.real:
				one = func(ctx context.Context, o *options, rep *report, m measurement, _ string) error {
					return realPods(ctx, o, rep, m)
				}
			case o.pair != "":
				one = inPairs
			}
			if err := one(ctx, o, rep, m, store); err != nil {
				errs = append(errs, err)
				fmt.Println("  failed:", err)
			}
		}
	}
	return errors.Join(errs...)
}

func onOwn(ctx context.Context, o *options, rep *report, m measurement, store string) error {
	if m.run == nil {
		return coldStarts(ctx, o, rep, m, store)
	}
	p, err := start(ctx, o, m, store)
	if err != nil {
		return err
	}
	defer p.stop()
	t, err := newTarget(o, p.kubeconfig, []int{p.cmd.Process.Pid})
	if err != nil {
		return err
	}
	t.pprof = p.pprof
	end := p.profile(ctx, o, m.name+"-"+store)
	err = measureOne(ctx, o, rep, t, m, store)
	end()
	return err
}

// coldStarts measures the time from exec to the first good answer of /readyz.
func coldStarts(ctx context.Context, o *options, rep *report, m measurement, store string) error {
	fmt.Printf("\nready (%s)\n", store)
	var took times
	for range o.runs {
		p, err := start(ctx, o, m, store)
		if err != nil {
			return err
		}
		took = append(took, p.ready)
		p.stop()
	}
	took.show()
	rep.add("API ready", " ("+store+")", took.at(0.5), "ms")
	return nil
}

// A process is a kloop that this program started.
type process struct {
	cmd             *exec.Cmd
	dir, kubeconfig string
	pprof           string
	out             bytes.Buffer
	ready           time.Duration // from exec to the first good answer
	ended           chan struct{}
}

// startLimit is the time that a start may take.
const startLimit = 60 * time.Second

func start(ctx context.Context, o *options, m measurement, store string) (*process, error) {
	dir, listen, err := "", "127.0.0.1:0", error(nil)
	if m.again != nil {
		dir = m.again.dir
	} else if dir, err = os.MkdirTemp("", "kloop-bench-"); err != nil {
		return nil, err
	}
	if m.cell != nil {
		listen = net.JoinHostPort(m.cell.address, "6443")
	}
	p := &process{dir: dir, kubeconfig: filepath.Join(dir, "kubeconfig"), ended: make(chan struct{})}
	args := append(slices.Clone(m.args), "--store", store, "--data-dir", filepath.Join(dir, "data"), "--listen", listen,
		"--kubeconfig", p.kubeconfig, "--log", "warn")
	if m.sim {
		args = append(args, "--sim-nodes", strconv.Itoa(cmp.Or(m.nodes, o.nodes)))
	}
	if o.profiles != "" {
		if p.pprof, err = freeAddress(); err != nil {
			return nil, err
		}
		args = append(args, "--pprof", p.pprof)
	}
	p.cmd = exec.Command(o.kloop, args...)
	if m.cell != nil {
		p.cmd = m.cell.command(o.kloop, append(args, "--root-dir", filepath.Join(dir, "node"))...)
	}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	began := time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	go func() {
		p.cmd.Wait()
		close(p.ended)
	}()
	if err := p.await(ctx, o); err != nil {
		p.stop()
		return nil, fmt.Errorf("%s: %w\n%s", p.cmd, err, p.out.String())
	}
	p.ready = time.Since(began)
	return p, nil
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// await asks until the API says that it is ready.
func (p *process) await(ctx context.Context, o *options) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		if p.answers(ctx, o) {
			return nil
		}
		select {
		case <-p.ended:
			return errors.New("it ended")
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Millisecond):
		}
	}
}

func (p *process) answers(ctx context.Context, o *options) bool {
	if _, err := os.Stat(p.kubeconfig); err != nil {
		return false
	}
	t, err := newTarget(o, p.kubeconfig, nil)
	if err != nil {
		return false
	}
	c, err := t.dial(ctx)
	if err != nil {
		return false
	}
	defer c.close()
	_, err = c.do(ctx, call{method: "GET", path: "/readyz"})
	return err == nil
}

// stop ends the process and removes what it left.
func (p *process) stop() {
	p.end()
	os.RemoveAll(p.dir)
}

func (p *process) end() {
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(20 * time.Second):
		p.cmd.Process.Kill()
		<-p.ended
	}
}

// profileSeconds is the part of a measurement that its CPU profile covers, from its beginning.
const profileSeconds = 6

// profile takes a CPU profile; the function that it returns waits for it and adds one of the heap.
func (p *process) profile(ctx context.Context, o *options, name string) (end func()) {
	if p.pprof == "" {
		return func() {}
	}
	get := func(path, file string) {
		if err := fetch(ctx, "http://"+p.pprof+"/debug/pprof/"+path, filepath.Join(o.profiles, name+file)); err != nil {
			fmt.Println("  no profile:", err)
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		get("profile?seconds="+strconv.Itoa(profileSeconds), ".cpu.prof")
	}()
	return func() {
		<-done
		get("allocs", ".heap.prof")
	}
}

// sampled takes a CPU profile of what comes next, apart from that of the whole measurement; the function that it returns waits for it.
func (b *bench) sampled(ctx context.Context, name string) (end func()) {
	if b.pprof == "" {
		return func() {}
	}
	file := filepath.Join(b.profiles, strings.NewReplacer("/", "", " ", "-", ",", "").Replace(name)+".cpu.prof")
	done := make(chan error, 1)
	go func() { done <- fetch(ctx, "http://"+b.pprof+"/debug/pprof/profile?seconds=2", file) }()
	return func() {
		if err := <-done; err != nil {
			fmt.Println("  no profile:", err)
		}
	}
}

func fetch(ctx context.Context, url, file string) error {
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o644)
}
