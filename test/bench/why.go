package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// How the measurement of explanations asks.
const (
	asks        = 5
	broken      = 100 // of so many pods one crashes
	nodesOfPods = 100
)

// explained measures kubectl why by a kubeconfig alone: how long a program that is started anew takes to its answer on everything, and
// how much memory. The server has pods on nodes, of which some crash. A kloop is measured that does not explain itself.
func explained(ctx context.Context, b *bench) error {
	if _, err := os.Stat(b.why); err != nil {
		return fmt.Errorf("%w: scripts/bench makes the program", err)
	}
	ns, remove, err := b.space(ctx)
	if err != nil {
		return err
	}
	defer remove()
	defer b.storm(ctx, 8, nodesOfPods, func(i int) call { return call{method: "DELETE", path: "/api/v1/nodes/" + nodeOf(ns, i)} })
	if err := b.populate(ctx, ns); err != nil {
		return err
	}
	var took times
	memory, own := 0.0, 0.0
	cpu := b.cpu()
	for range asks {
		cmd := exec.CommandContext(ctx, b.why, "--kubeconfig", b.config, "-A")
		began := time.Now()
		err := cmd.Run()
		took = append(took, time.Since(began))
		if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 3) {
			return fmt.Errorf("%s: %w", cmd, err)
		}
		if u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
			memory = max(memory, float64(u.Maxrss)/1024)
		}
		own += (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	}
	took.show()
	b.figure("kubectl why, exec to the answer, median", took.at(0.5), "ms")
	b.figure("kubectl why, CPU", own/asks*1000, "ms")
	b.figure("kubectl why, memory", memory, "MiB")
	if len(b.processes) > 0 {
		b.figure("kubectl why, server CPU", (b.cpu()-cpu)/asks*1000, "ms")
	}
	return nil
}

// populate makes pods that run, as controllers and node agents leave them behind.
func (b *bench) populate(ctx context.Context, ns string) error {
	c, err := b.dial(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	_, err = c.do(ctx, call{method: "POST", path: "/api/v1/namespaces/" + ns + "/serviceaccounts",
		body: []byte(`{"metadata":{"name":"default"}}`)})
	if refused := (*codeError)(nil); err != nil && (!errors.As(err, &refused) || refused.code != http.StatusConflict) {
		return err
	}
	for _, step := range []struct {
		n  int
		do func(ns string, i int) call
	}{{nodesOfPods, newNode}, {nodesOfPods, readyNode}, {b.pods, placedPod}, {b.pods, runningPod}} {
		if _, _, err := b.storm(ctx, 32, step.n, func(i int) call { return step.do(ns, i) }); err != nil {
			return err
		}
	}
	return nil
}

func nodeOf(ns string, i int) string { return fmt.Sprintf("node-%s-%d", ns, i%nodesOfPods) }

func newNode(ns string, i int) call {
	return call{method: "POST", path: "/api/v1/nodes",
		body: fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Node","metadata":{"name":%q}}`, nodeOf(ns, i))}
}

func readyNode(ns string, i int) call {
	return call{method: "PATCH", path: "/api/v1/nodes/" + nodeOf(ns, i) + "/status", kind: "application/merge-patch+json",
		body: []byte(`{"status":{"capacity":{"cpu":"8","memory":"32Gi","pods":"250"},"allocatable":{"cpu":"8","memory":"32Gi","pods":"250"},` +
			`"conditions":[{"type":"Ready","status":"True"}]}}`)}
}

// placedPod makes a pod on a node, as large as usual ones.
func placedPod(ns string, i int) call {
	return call{method: "POST", path: "/api/v1/namespaces/" + ns + "/pods", body: fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod",`+
		`"metadata":{"name":"pod-%05[1]d","labels":{"app":"bench-%[2]d","tier":"front","version":"v1"},`+
		`"annotations":{"example.com/checksum":"%064[1]d"}},`+
		`"spec":{"nodeName":%[3]q,"terminationGracePeriodSeconds":0,"containers":[{"name":"main","image":"registry.example/app:v1",`+
		`"ports":[{"containerPort":80}],"env":[{"name":"A","value":"1"},{"name":"B","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}],`+
		`"readinessProbe":{"httpGet":{"path":"/healthz","port":80}},"volumeMounts":[{"name":"tmp","mountPath":"/tmp"}],`+
		`"resources":{"requests":{"cpu":"10m","memory":"16Mi"},"limits":{"memory":"64Mi"}}}],`+
		`"volumes":[{"name":"tmp","emptyDir":{}}]}}`, i, i%50, nodeOf(ns, i))}
}

// runningPod says that a pod runs, or of one in a hundred that it crashes.
func runningPod(ns string, i int) call {
	ready, state := "True", `"ready":true,"started":true,"restartCount":0,"state":{"running":{"startedAt":"2026-01-01T00:00:00Z"}}`
	if i%broken == 0 {
		ready, state = "False", `"ready":false,"started":false,"restartCount":7,`+
			`"state":{"waiting":{"reason":"CrashLoopBackOff","message":"back-off"}},`+
			`"lastState":{"terminated":{"exitCode":3,"reason":"Error","finishedAt":"2026-01-01T00:00:00Z"}}`
	}
	condition := func(typ, status string) string {
		return fmt.Sprintf(`{"type":%q,"status":%q,"lastTransitionTime":"2026-01-01T00:00:00Z"}`, typ, status)
	}
	return call{method: "PATCH", path: fmt.Sprintf("/api/v1/namespaces/%s/pods/pod-%05d/status", ns, i), kind: "application/merge-patch+json",
		body: fmt.Appendf(nil, `{"status":{"phase":"Running","podIP":"10.1.1.1","podIPs":[{"ip":"10.1.1.1"}],"hostIP":"10.0.0.1",`+
			`"qosClass":"Burstable","startTime":"2026-01-01T00:00:00Z","conditions":[%s,%s,%s,%s],`+
			`"containerStatuses":[{"name":"main","image":"registry.example/app:v1",`+
			`"imageID":"sha256:%064[6]d","containerID":"containerd://%064[6]d",%[5]s}]}}`,
			condition("PodScheduled", "True"), condition("Initialized", "True"),
			condition("ContainersReady", ready), condition("Ready", ready), state, i)}
}
