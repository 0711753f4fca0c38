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
	"time"
)

// agentWatches lists the paths that an agent watches all the time, beside the pods of its node.
var agentWatches = []string{"/api/v1/nodes?fieldSelector=metadata.name%%3D%s&", "/api/v1/services?", "/apis/storage.k8s.io/v1/csidrivers?",
	"/apis/node.k8s.io/v1/runtimeclasses?"}

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
		`"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady","message":"posting",` +
		`"lastHeartbeatTime":"` + now + `","lastTransitionTime":"` + now + `"}],` +
		`"nodeInfo":{"kubeletVersion":"v1.37.0","operatingSystem":"linux","architecture":"amd64"}}`
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
