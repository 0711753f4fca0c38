package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"sync"
	"time"
)

// An actor plays three nodes and what runs on them, on both servers alike: a pod runs as soon as it is bound, one of a Job succeeds, and
// one that is to go goes. The annotations of the fake nodes in test/oracle say otherwise: sim.kloop.dev/exit, hold, unready and keep.
type actor struct {
	server *server
	gone   map[string]bool // uids of pods that were told to go
	pods   int             // how many got an address
}

var stageNodes = []string{"stage-a", "stage-b", "stage-c"}

func (a *actor) nodes(ctx context.Context) error {
	now := time.Now().UTC().Format(time.RFC3339)
	for _, name := range stageNodes {
		node := map[string]any{"metadata": map[string]any{"name": name, "labels": map[string]any{
			"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "topology.kubernetes.io/zone": name[len(name)-1:]}}}
		a.server.ask(ctx, trial{method: http.MethodPost, path: "/api/v1/nodes", content: jsonType}, encode(node))
		var conditions []any
		for _, c := range [][2]string{{"Ready", "True"}, {"MemoryPressure", "False"}, {"DiskPressure", "False"}, {"PIDPressure", "False"}} {
			conditions = append(conditions, map[string]any{"type": c[0], "status": c[1], "reason": "Played", "message": "ok",
				"lastHeartbeatTime": now, "lastTransitionTime": now})
		}
		room := map[string]any{"cpu": "16", "memory": "32Gi", "pods": "1000"}
		status := map[string]any{"status": map[string]any{"capacity": room, "allocatable": room, "conditions": conditions,
			"addresses": []any{map[string]any{"type": "InternalIP", "address": "203.0.113.10"}}}}
		write := trial{method: http.MethodPatch, path: "/api/v1/nodes/" + name + "/status", content: mergeType}
		got := a.server.ask(ctx, write, encode(status))
		if got.code != http.StatusOK {
			return fmt.Errorf("%s: node %s: %s", a.server.url, name, gist(got))
		}
	}
	return nil
}

// play goes on until its context ends.
func (a *actor) play(ctx context.Context) {
	a.gone = map[string]bool{}
	var beats sync.WaitGroup
	defer beats.Wait()
	beats.Go(func() {
		for ctx.Err() == nil {
			a.beat(ctx)
			pause(ctx, 2*time.Second)
		}
	})
	for ctx.Err() == nil {
		for _, pod := range a.server.list(ctx, "/api/v1/pods?resourceVersion=0") {
			if word(pod, "spec", "nodeName") != "" {
				a.act(ctx, pod)
			}
		}
		pause(ctx, 250*time.Millisecond)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// beat renews the leases of all nodes, of those that a course made too.
func (a *actor) beat(ctx context.Context) {
	for _, node := range a.server.list(ctx, "/api/v1/nodes?resourceVersion=0") {
		name := word(node, "metadata", "name")
		spec := map[string]any{"holderIdentity": name, "leaseDurationSeconds": 40,
			"renewTime": time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")}
		lease := encode(map[string]any{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
			"metadata": map[string]any{"name": name}, "spec": spec})
		path := "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/" + name + "?fieldManager=actor&force=true"
		got := a.server.ask(ctx, trial{method: http.MethodPatch, path: path, content: applyType}, lease)
		if got.code >= 300 && ctx.Err() == nil {
			log.Printf("%s: lease of %s: %s", a.server.url, name, gist(got))
		}
	}
}

func (a *actor) act(ctx context.Context, pod map[string]any) {
	meta, _ := pod["metadata"].(map[string]any)
	notes, _ := meta["annotations"].(map[string]any)
	phase := word(pod, "status", "phase")
	switch {
	case meta["deletionTimestamp"] != nil:
		a.end(ctx, pod, phase)
	case phase == "Pending" && notes["sim.kloop.dev/hold"] == nil:
		a.show(ctx, pod, "Running", notes["sim.kloop.dev/unready"] == nil, nil)
	case phase == "Running" && notes["sim.kloop.dev/exit"] != nil:
		code := json.Number(fmt.Sprint(notes["sim.kloop.dev/exit"]))
		a.show(ctx, pod, map[bool]string{true: "Succeeded", false: "Failed"}[code == "0"], false, code)
	case phase == "Running" && ownedBy(meta, "Job") && notes["sim.kloop.dev/keep"] == nil:
		a.show(ctx, pod, "Succeeded", false, json.Number("0"))
	}
}

func (a *actor) end(ctx context.Context, pod map[string]any, phase string) {
	uid := word(pod, "metadata", "uid")
	if a.gone[uid] {
		return
	}
	a.gone[uid] = true
	if phase == "Running" || phase == "Pending" {
		a.show(ctx, pod, "Failed", false, json.Number("137"))
	}
	path := fmt.Sprintf("/api/v1/namespaces/%s/pods/%s", word(pod, "metadata", "namespace"), word(pod, "metadata", "name"))
	a.server.ask(ctx, trial{method: http.MethodDelete, path: path, content: jsonType},
		encode(map[string]any{"gracePeriodSeconds": 0, "preconditions": map[string]any{"uid": uid}}))
}

func ownedBy(meta map[string]any, kind string) bool {
	owners, _ := meta["ownerReferences"].([]any)
	return len(owners) == 1 && word(owners[0], "kind") == kind
}

// show writes a pod's status as its node would.
func (a *actor) show(ctx context.Context, pod map[string]any, phase string, ready bool, exit any) {
	now := time.Now().UTC().Format(time.RFC3339)
	truth := map[bool]string{true: "True", false: "False"}
	var conditions, containers []any
	for _, c := range []string{"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"} {
		up := ready || c == "Initialized" || c == "PodReadyToStartContainers" && exit == nil
		conditions = append(conditions, map[string]any{"type": c, "status": truth[up], "lastTransitionTime": now})
	}
	spec, _ := pod["spec"].(map[string]any)
	list, _ := spec["containers"].([]any)
	for _, c := range list {
		state := map[string]any{"running": map[string]any{"startedAt": now}}
		if exit != nil {
			state = map[string]any{"terminated": map[string]any{"exitCode": exit, "reason": "Ended", "startedAt": now, "finishedAt": now}}
		}
		containers = append(containers, map[string]any{"name": word(c, "name"), "image": word(c, "image"), "imageID": "", "ready": ready,
			"restartCount": 0, "started": exit == nil, "state": state})
	}
	status := map[string]any{"phase": phase, "startTime": now, "conditions": conditions, "containerStatuses": containers,
		"hostIP": "203.0.113.10", "hostIPs": []any{map[string]any{"ip": "203.0.113.10"}}}
	if word(pod, "status", "podIP") == "" {
		a.pods++
		ip := fmt.Sprintf("198.18.%d.%d", a.pods/250%256, a.pods%250+1)
		status["podIP"], status["podIPs"] = ip, []any{map[string]any{"ip": ip}}
	}
	path := fmt.Sprintf("/api/v1/namespaces/%s/pods/%s/status", word(pod, "metadata", "namespace"), word(pod, "metadata", "name"))
	a.server.ask(ctx, trial{method: http.MethodPatch, path: path, content: strategicType}, encode(map[string]any{"status": status}))
}
