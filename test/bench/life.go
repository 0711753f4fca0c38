package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// How many pods live, and how many more wait for a node that never comes.
const (
	lives   = 5000
	waiting = 5000
)

// life measures what a pod costs the server from its creation until it is gone, with no container: it is made, scheduled, bound,
// started and ready on a simulated node, and deleted; and what a pod costs that no node can take, beside one that no scheduler looks
// at.
func life(ctx context.Context, b *bench) error {
	if err := errors.Join(b.awaitNodes(ctx), b.awaitCalm(ctx)); err != nil {
		return err
	}
	stored, err := b.made(ctx, "pod that is only stored", waiting, createPod)
	if err != nil {
		return err
	}
	kept, err := b.made(ctx, "pod that no node can take", waiting, func(ns string, i int) call {
		return podFor(ns, i, `"nodeSelector":{"bench":"nowhere"},`)
	})
	if err != nil {
		return err
	}
	b.figure("pod that no node can take, server CPU above one that is only stored", kept-stored, "ms")
	return b.live(ctx)
}

// podFor makes a pod with this in its spec.
func podFor(ns string, i int, spec string) call {
	return call{method: "POST", path: "/api/v1/namespaces/" + ns + "/pods", body: fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod",`+
		`"metadata":{"name":"pod-%05d","labels":{"app":"bench","pod":"pod-%05d"}},"spec":{%s"containers":[{"name":"main",`+
		`"image":"registry.example/app:v1","ports":[{"containerPort":80}],"env":[{"name":"A","value":"1"},{"name":"B","value":"2"}],`+
		`"resources":{"requests":{"cpu":"10m","memory":"16Mi"},"limits":{"memory":"64Mi"}}}]}}`, i, i, spec)}
}

// made makes n pods and returns the server's CPU for each in ms, until all is calm; then it notes what the server uses while they wait.
func (b *bench) made(ctx context.Context, name string, n int, q func(ns string, i int) call) (float64, error) {
	ns, remove, err := b.space(ctx)
	if err != nil {
		return 0, err
	}
	defer remove()
	if err := errors.Join(b.awaitAccount(ctx, ns), b.awaitCalm(ctx)); err != nil {
		return 0, err
	}
	metered, cpu := b.meter(ctx, name), b.cpu()
	if _, _, err := b.storm(ctx, bindWays, n, func(i int) call { return q(ns, i) }); err != nil {
		return 0, err
	}
	if err := b.awaitCalm(ctx); err != nil {
		return 0, err
	}
	each := (b.cpu() - cpu) / float64(n) * 1e3
	b.figure(name+", server CPU", each, "ms")
	metered(n)
	if err := pause(ctx, 45*time.Second); err != nil { // the garbage is collected, the history sheds
		return 0, err
	}
	cpu = b.cpu()
	if err := pause(ctx, 10*time.Second); err != nil {
		return 0, err
	}
	b.figure(fmt.Sprintf("%d of these, idle CPU", n), (b.cpu()-cpu)/10*100, "%")
	return each, nil
}

// live has pods begin and end.
func (b *bench) live(ctx context.Context) error {
	ns, remove, err := b.space(ctx)
	if err != nil {
		return err
	}
	defer remove()
	if err := errors.Join(b.awaitAccount(ctx, ns), b.awaitCalm(ctx)); err != nil {
		return err
	}
	if err := pause(ctx, 75*time.Second); err != nil { // what others have left is collected, and their history goes
		return err
	}
	before, _ := b.memory()
	metered, cpu, began := b.meter(ctx, "a pod until it runs"), b.cpu(), time.Now()
	if _, _, err := b.storm(ctx, bindWays, lives, func(i int) call { return podFor(ns, i, "") }); err != nil {
		return err
	}
	if err := b.awaitRunning(ctx, ns); err != nil {
		return err
	}
	b.figure("pods made until they run", lives/time.Since(began).Seconds(), "/s")
	up := b.cpu() - cpu
	metered(lives)
	if err := pause(ctx, 75*time.Second); err != nil { // the garbage is collected and given back, the history sheds
		return err
	}
	after, _ := b.memory()
	b.figure("a pod at rest, memory", (after-before)*1024/lives, "KiB")
	metered, cpu = b.meter(ctx, "a pod's end"), b.cpu()
	c, err := b.dial(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	if _, err := c.do(ctx, call{method: "DELETE", path: "/api/v1/namespaces/" + ns + "/pods"}); err != nil {
		return err
	}
	if err := b.awaitNoPods(ctx, c, ns); err != nil {
		return err
	}
	metered(lives)
	b.figure("a pod's life, server CPU", (up+b.cpu()-cpu)/lives*1e3, "ms")
	b.showMemory()
	return nil
}

// awaitRunning waits until all pods of the namespace run.
func (b *bench) awaitRunning(ctx context.Context, ns string) error {
	ctx, cancel := context.WithTimeout(ctx, pollLimit)
	defer cancel()
	c, err := b.dial(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	for {
		var list struct{ Items []struct{} }
		q := call{method: "GET", path: "/api/v1/namespaces/" + ns + "/pods?limit=1&fieldSelector=status.phase!%3DRunning"}
		if err := c.decode(ctx, q, &list); err != nil {
			return err
		}
		if len(list.Items) == 0 {
			return nil
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}
