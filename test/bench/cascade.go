package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// deployment takes the time from the request until the status of the Deployment says that all are ready. Nodes
// are the cluster's; own kloops have simulated ones.
func deployment(ctx context.Context, b *bench) error {
	ns, remove, err := b.space(ctx)
	if err != nil {
		return err
	}
	defer remove()
	if err := b.awaitAccount(ctx, ns); err != nil {
		return err
	}
	if err := b.awaitNodes(ctx); err != nil {
		return err
	}
	c, err := b.dial(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	path := "/apis/apps/v1/namespaces/" + ns + "/deployments"
	cpu, began := b.cpu(), time.Now()
	if _, err := c.do(ctx, call{method: "POST", path: path, body: []byte(deploymentBody("big", b.replicas, 1))}); err != nil {
		return err
	}
	if err := b.awaitReplicas(ctx, path, began); err != nil {
		return err
	}
	b.figure("deployment all Ready", time.Since(began).Seconds(), "s")
	if len(b.processes) > 0 {
		b.figure("deployment, server CPU", b.cpu()-cpu, "s")
	}
	b.showMemory()
	if c, err = b.dial(ctx); err != nil { // the first may have been idle for too long
		return err
	}
	defer c.close()
	cpu, began = b.cpu(), time.Now()
	if _, err := c.do(ctx, call{method: "DELETE", path: path + "/big?propagationPolicy=Background"}); err != nil {
		return err
	}
	if err := b.awaitNoPods(ctx, c, ns); err != nil {
		return err
	}
	b.figure("deployment's pods gone", time.Since(began).Seconds(), "s")
	if len(b.processes) > 0 {
		b.figure("deployment's pods gone, server CPU", b.cpu()-cpu, "s")
	}
	return nil
}

// awaitNoPods waits until the namespace has no pod.
func (b *bench) awaitNoPods(ctx context.Context, c *conn, ns string) error {
	ctx, cancel := context.WithTimeout(ctx, pollLimit)
	defer cancel()
	for {
		var list struct{ Items []struct{} }
		if err := c.decode(ctx, call{method: "GET", path: "/api/v1/namespaces/" + ns + "/pods?limit=1"}, &list); err != nil {
			return err
		}
		if len(list.Items) == 0 {
			return nil
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// awaitReplicas watches the one Deployment of the namespace and shows how it comes along.
func (b *bench) awaitReplicas(ctx context.Context, path string, began time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, pollLimit)
	defer cancel()
	c, err := b.dial(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	stop := context.AfterFunc(ctx, c.close)
	defer stop()
	resp, err := c.open(ctx, call{method: "GET", path: path + "?watch=true&resourceVersion=0"})
	if err != nil {
		return err
	}
	defer c.leave(resp)
	shown := 0
	for dec := json.NewDecoder(resp.Body); ; {
		var ev struct {
			Object struct {
				Status struct{ Replicas, ReadyReplicas int }
			}
		}
		if err := dec.Decode(&ev); err != nil {
			return fmt.Errorf("watch the deployment: %w", err)
		}
		st := ev.Object.Status
		if st.ReadyReplicas >= shown+b.replicas/4 || st.ReadyReplicas == b.replicas {
			shown = st.ReadyReplicas
			fmt.Printf("  %6d made, %6d ready after %.2f s\n", st.Replicas, st.ReadyReplicas, time.Since(began).Seconds())
		}
		if st.ReadyReplicas == b.replicas {
			return nil
		}
	}
}

// awaitNodes waits until no node is tainted.
func (b *bench) awaitNodes(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	c, err := b.dial(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	for {
		var list struct {
			Items []struct {
				Spec struct{ Taints []any }
			}
		}
		if err := c.decode(ctx, call{method: "GET", path: "/api/v1/nodes"}, &list); err != nil {
			return err
		}
		tainted := 0
		for _, n := range list.Items {
			tainted += min(len(n.Spec.Taints), 1)
		}
		if len(list.Items) > 0 && tainted == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d nodes are still tainted", tainted, len(list.Items))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// inNamespace is the number of pods of the namespace that is deleted.
const inNamespace = 1000

// namespace takes the time from the deletion of a namespace until it is gone.
func namespace(ctx context.Context, b *bench) error {
	var took times
	cpu := 0.0
	for range 5 {
		ns, _, err := b.space(ctx)
		if err != nil {
			return err
		}
		if err := b.fillPods(ctx, ns, inNamespace); err != nil {
			return err
		}
		used, began := b.cpu(), time.Now()
		path := "/api/v1/namespaces/" + ns
		if err := b.poll(ctx, "DELETE", path, 0); err != nil {
			return err
		}
		if err := b.poll(ctx, "GET", path, 404); err != nil {
			return err
		}
		took = append(took, time.Since(began))
		cpu += b.cpu() - used
	}
	took.show()
	b.figure("namespace gone", took.at(0.5)/1000, "s")
	if len(b.processes) > 0 {
		b.figure("namespace, server CPU", cpu/5, "s")
	}
	return nil
}
