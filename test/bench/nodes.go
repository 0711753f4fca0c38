package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// How agents behave, as upstream's kubelet by default, and how many pods they are given.
const (
	leaseEvery  = 10 * time.Second
	statusEvery = 5 * time.Minute
	nodeIdle    = 30 * time.Second // three rounds of leases
	nodePods    = 10_000
	podsOfNode  = 100 // at most
)

// agentWatches are what an agent hears of all the time, beside the pods of its node.
var agentWatches = []string{"/api/v1/nodes?fieldSelector=metadata.name%%3D%s&", "/api/v1/services?", "/apis/storage.k8s.io/v1/csidrivers?",
	"/apis/node.k8s.io/v1/runtimeclasses?"}

// nodes measures nodes whose agents are clients as real ones are: each has a connection of its own over HTTP/2, registers, renews its lease
// every ten seconds, tells its status every five minutes, watches its pods and four other things, and says of each pod that it gets that it
// runs and is ready. There are more and more of them, so that it shows how the cost grows.
func nodes(ctx context.Context, b *bench) error {
	ctx, stop := context.WithCancel(ctx)
	f := &fleet{b: b, targets: b.targets("h2"), failed: make(chan error, 1)}
	defer f.ended.Wait()
	defer stop()
	few := b.agents / 5
	for _, n := range []int{few, few * 2, b.agents} {
		if err := f.grow(ctx, n); err != nil {
			return err
		}
		if err := f.rest(ctx, n); err != nil {
			return err
		}
		if n == few {
			if err := f.fill(ctx, n); err != nil {
				return err
			}
		}
	}
	return f.fill(ctx, b.agents)
}

// A fleet is all agents.
type fleet struct {
	b       *bench
	targets func() *target
	size    int
	ended   sync.WaitGroup
	failed  chan error // the first failure
	want    int64
	ready   atomic.Int64 // pods
	all     chan struct{}
}

// grow registers nodes until there are n.
func (f *fleet) grow(ctx context.Context, n int) error {
	b, began, from := f.b, time.Now(), f.size
	cpu := b.cpu()
	gate := make(chan struct{}, 16)
	var open sync.WaitGroup
	errs := make([]error, n-from)
	for i := from; i < n; i++ {
		open.Go(func() {
			gate <- struct{}{}
			defer func() { <-gate }()
			errs[i-from] = f.start(ctx, fmt.Sprintf("bench-node-%05d", i))
		})
	}
	open.Wait()
	f.size = n
	if len(b.processes) > 0 {
		b.figure(fmt.Sprintf("%d nodes, server CPU of each that joins", n), (b.cpu()-cpu)/float64(n-from)*1e3, "ms")
	}
	fmt.Printf("  %d nodes joined in %.1f s\n", n-from, time.Since(began).Seconds())
	return errors.Join(append(errs, b.awaitNodes(ctx))...)
}

// rest measures what the nodes cost when nothing happens.
func (f *fleet) rest(ctx context.Context, n int) error {
	b := f.b
	if err := f.pause(ctx, 2*leaseEvery); err != nil {
		return err
	}
	cpu, began := b.cpu(), time.Now()
	if err := f.pause(ctx, nodeIdle); err != nil || len(b.processes) == 0 {
		return err
	}
	b.figure(fmt.Sprintf("%d nodes at rest, CPU", n), (b.cpu()-cpu)/time.Since(began).Seconds()*100, "% of a core")
	all, _ := b.memory()
	b.figure(fmt.Sprintf("%d nodes at rest, memory", n), all, "MiB")
	return nil
}

func (f *fleet) pause(ctx context.Context, d time.Duration) error {
	select {
	case err := <-f.failed:
		return err
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// fill makes pods and waits until the agents have said of all of them that they are ready.
func (f *fleet) fill(ctx context.Context, n int) error {
	b := f.b
	ns, remove, err := b.space(ctx)
	if err != nil {
		return err
	}
	remove = sync.OnceFunc(remove)
	defer remove()
	if err := b.awaitAccount(ctx, ns); err != nil {
		return err
	}
	f.ready.Store(0)
	pods := min(nodePods, podsOfNode*n)
	f.want, f.all = int64(pods), make(chan struct{})
	self := processes{os.Getpid()}
	cpu, own, began := b.cpu(), self.cpu(), time.Now()
	if _, _, err := b.storm(ctx, bindWays, pods, func(i int) call {
		return podFor(ns, i, `"terminationGracePeriodSeconds":0,`)
	}); err != nil {
		return err
	}
	select {
	case <-f.all:
	case err := <-f.failed:
		return err
	case <-time.After(pollLimit):
		return fmt.Errorf("%d of %d pods are ready", f.ready.Load(), pods)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	took := time.Since(began).Seconds()
	b.figure(fmt.Sprintf("%d nodes, pods made, bound and ready", n), float64(pods)/took, "/s")
	if len(b.processes) > 0 {
		b.figure(fmt.Sprintf("%d nodes, pods made, bound and ready, server CPU", n), (b.cpu()-cpu)/float64(pods)*1e3, "ms")
	}
	fmt.Printf("  the clients' own CPU: %s ms a pod\n", number((self.cpu()-own)/float64(pods)*1e3))
	b.showMemory()
	remove()
	return b.poll(ctx, "GET", "/api/v1/namespaces/"+ns, http.StatusNotFound) // so that the next joins are not beside the end of these
}

// start registers a node and returns when its watches stand. Its work goes on until ctx ends.
func (f *fleet) start(ctx context.Context, name string) error {
	c, err := f.targets().dial(ctx)
	if err != nil {
		return err
	}
	body := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Node","metadata":{"name":%q,"labels":{"kubernetes.io/hostname":%[1]q,`+
		`"kubernetes.io/os":"linux","kubernetes.io/arch":"amd64"}},"status":%s}`, name, nodeStatus())
	if _, err := c.do(ctx, call{method: "POST", path: "/api/v1/nodes", body: body}); err != nil {
		return err
	}
	version, err := c.lease(ctx, name, "")
	if err != nil {
		return err
	}
	f.ended.Go(func() { f.report(ctx, f.beat(ctx, c, name, version)) })
	for _, path := range agentWatches {
		if bytes.Contains([]byte(path), []byte("%s")) {
			path = fmt.Sprintf(path, name)
		}
		if err := f.watch(ctx, c, path, func(r io.Reader) error { _, err := io.Copy(io.Discard, r); return err }); err != nil {
			return err
		}
	}
	return f.watch(ctx, c, "/api/v1/pods?fieldSelector=spec.nodeName%3D"+name+"&", func(r io.Reader) error { return f.pods(ctx, c, r) })
}

// report keeps the first failure while the nodes are wanted.
func (f *fleet) report(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	select {
	case f.failed <- err:
	default:
	}
}

func (f *fleet) watch(ctx context.Context, c *conn, path string, read func(io.Reader) error) error {
	q := call{method: "GET", path: path + "watch=true&resourceVersion=0&allowWatchBookmarks=true"}
	resp, err := c.open(ctx, q)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		return refusal(q, resp)
	}
	f.ended.Go(func() {
		defer resp.Body.Close()
		err := read(resp.Body)
		f.report(ctx, fmt.Errorf("watch %s: %w", path, errors.Join(err, io.ErrUnexpectedEOF)))
	})
	return nil
}

// pods says of each pod that comes that it runs.
func (f *fleet) pods(ctx context.Context, c *conn, from io.Reader) error {
	for r := bufio.NewReaderSize(from, 2<<10); ; {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return err
		}
		var ev struct {
			Type   string
			Object struct {
				Metadata struct{ Name, Namespace string }
				Status   struct{ Phase string }
			}
		}
		if err := json.Unmarshal(line, &ev); err != nil {
			return err
		}
		if ev.Type != "ADDED" || ev.Object.Status.Phase != "Pending" {
			continue
		}
		m := ev.Object.Metadata
		q := call{method: "PATCH", path: "/api/v1/namespaces/" + m.Namespace + "/pods/" + m.Name + "/status",
			kind: "application/strategic-merge-patch+json", body: podStatus()}
		if _, err := c.do(ctx, q); err != nil {
			return err
		}
		if f.ready.Add(1) == f.want {
			close(f.all)
		}
	}
}

// beat renews the lease and tells the status, until ctx ends or the server refuses.
func (f *fleet) beat(ctx context.Context, c *conn, name, version string) (err error) {
	told, next := time.Now(), time.Duration(rand.Int64N(int64(leaseEvery))) // so that they don't all come at once
	for {
		if err := pause(ctx, next); err != nil {
			return err
		}
		next = leaseEvery
		if version, err = c.lease(ctx, name, version); err != nil {
			return err
		}
		if time.Since(told) < statusEvery {
			continue
		}
		told = time.Now()
		q := call{method: "PATCH", path: "/api/v1/nodes/" + name + "/status", kind: "application/strategic-merge-patch+json",
			body: fmt.Appendf(nil, `{"status":%s}`, nodeStatus())}
		if _, err := c.do(ctx, q); err != nil {
			return err
		}
	}
}

// lease makes the node's lease, or renews it in the version that it has.
func (c *conn) lease(ctx context.Context, name, version string) (string, error) {
	q := call{method: "POST", path: "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"}
	if version != "" {
		q.method, q.path = "PUT", q.path+"/"+name
	}
	q.body = fmt.Appendf(nil, `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":%q,"namespace":"kube-node-lease",`+
		`"resourceVersion":%q},"spec":{"holderIdentity":%[1]q,"leaseDurationSeconds":40,"renewTime":%[3]q}}`, name, version,
		time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"))
	var got struct {
		Metadata struct{ ResourceVersion string }
	}
	err := c.decode(ctx, q, &got)
	return got.Metadata.ResourceVersion, err
}

func nodeStatus() string {
	now := time.Now().UTC().Format(time.RFC3339)
	return `{"capacity":{"cpu":"16","memory":"64Gi","pods":"250"},"allocatable":{"cpu":"16","memory":"64Gi","pods":"250"},` +
		`"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady","message":"kubelet is posting ready status","lastHeartbeatTime":"` +
		now + `","lastTransitionTime":"` + now + `"}],"nodeInfo":{"kubeletVersion":"v1.37.0","operatingSystem":"linux","architecture":"amd64"}}`
}

func podStatus() []byte {
	now := time.Now().UTC().Format(time.RFC3339)
	condition := func(name string) string {
		return `{"type":"` + name + `","status":"True","lastTransitionTime":"` + now + `"}`
	}
	return []byte(`{"status":{"phase":"Running","hostIP":"10.0.0.1","podIP":"10.1.0.1","podIPs":[{"ip":"10.1.0.1"}],"startTime":"` + now +
		`","conditions":[` + condition("Initialized") + "," + condition("Ready") + "," + condition("ContainersReady") +
		`],"containerStatuses":[{"name":"main","ready":true,"started":true,"restartCount":0,"image":"registry.example/app:v1",` +
		`"imageID":"registry.example/app@sha256:0","containerID":"containerd://0","state":{"running":{"startedAt":"` + now + `"}}}]}}`)
}
