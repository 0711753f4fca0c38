package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"syscall"
	"time"
)

// How many objects the measurements of writes make.
const (
	configMaps = 20_000
	newPods    = 10_000
	alone      = 1000 // one after another
	applied    = 4000
)

func createConfigMaps(ctx context.Context, b *bench) error {
	ns, remove, err := b.space(ctx)
	if err != nil {
		return err
	}
	defer remove()
	one := func(i int) call {
		return call{method: "POST", path: "/api/v1/namespaces/" + ns + "/configmaps", body: []byte(configMap(i, 0))}
	}
	if err := b.measured(ctx, "create ConfigMaps", 64, configMaps, one); err != nil {
		return err
	}
	took, _, err := b.storm(ctx, 1, alone, func(i int) call { return one(configMaps + i) })
	if err != nil {
		return err
	}
	sync, err := syncs()
	b.figure("create ConfigMaps, one at a time, median", took.at(0.5), "ms")
	b.figure("write and sync 2 KiB, median", sync.at(0.5), "ms")
	return err
}

// syncs measures what the disk takes, where own kloops have their data, to keep what is written to a file that has its room already, as
// etcd's log has.
func syncs() (took times, err error) {
	f, err := os.CreateTemp("", "kloop-bench-sync-")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	const size = 2 << 10
	if _, err := f.Write(make([]byte, alone*size)); err != nil {
		return nil, err
	}
	if err := f.Sync(); err != nil {
		return nil, err
	}
	for i := range alone {
		at := time.Now()
		if _, err := f.WriteAt(bytes.Repeat([]byte{1}, size), int64(i)*size); err != nil {
			return nil, err
		}
		if err := syscall.Fdatasync(int(f.Fd())); err != nil {
			return nil, err
		}
		took = append(took, time.Since(at))
	}
	return took, nil
}

func configMap(i, version int) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"map-%05d","labels":{"app":"bench"}},`+
		`"data":{"key":"some value of no great length","version":"%d"}}`, i, version)
}

func createPods(ctx context.Context, b *bench) error {
	ns, remove, err := b.space(ctx)
	if err != nil {
		return err
	}
	defer remove()
	if err := b.awaitAccount(ctx, ns); err != nil {
		return err
	}
	return b.measured(ctx, "create Pods", 64, newPods, func(i int) call { return createPod(ns, i) })
}

// createPod makes a pod that no scheduler looks at.
func createPod(ns string, i int) call {
	return call{method: "POST", path: "/api/v1/namespaces/" + ns + "/pods", body: fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod",`+
		`"metadata":{"name":"pod-%05d","labels":{"app":"bench","pod":"pod-%05d"}},"spec":{"schedulerName":"nobody","containers":[{"name":"main",`+
		`"image":"registry.example/app:v1","ports":[{"containerPort":80}],"env":[{"name":"A","value":"1"},{"name":"B","value":"2"}],`+
		`"resources":{"requests":{"cpu":"10m","memory":"16Mi"},"limits":{"memory":"64Mi"}}}]}}`, i, i)}
}

// fillPods makes n pods.
func (b *bench) fillPods(ctx context.Context, ns string, n int) error {
	if err := b.awaitAccount(ctx, ns); err != nil {
		return err
	}
	_, _, err := b.storm(ctx, 32, n, func(i int) call { return createPod(ns, i) })
	return err
}

// apply applies Deployments without replicas: new ones, then with another image, then as they are.
func apply(ctx context.Context, b *bench) error {
	ns, remove, err := b.space(ctx)
	if err != nil {
		return err
	}
	defer remove()
	for _, round := range []struct {
		name  string
		image int
	}{{"create", 1}, {"change", 2}, {"no change", 2}} {
		err := b.measured(ctx, "apply a Deployment, "+round.name, 16, applied, func(i int) call {
			name := fmt.Sprintf("web-%05d", i)
			return call{method: "PATCH", path: "/apis/apps/v1/namespaces/" + ns + "/deployments/" + name + "?fieldManager=bench",
				kind: "application/apply-patch+yaml", body: []byte(deploymentBody(name, 0, round.image))}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func deploymentBody(name string, replicas, image int) string {
	return fmt.Sprintf(
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"%[1]s","labels":{"app":"%[1]s"}},"spec":{"replicas":%[2]d,`+
			`"selector":{"matchLabels":{"app":"%[1]s"}},"template":{"metadata":{"labels":{"app":"%[1]s"}},"spec":{"containers":[{"name":"main",`+
			`"image":"registry.example/app:v%[3]d","ports":[{"containerPort":80}],"env":[{"name":"A","value":"1"},{"name":"B","value":"2"}],`+
			`"resources":{"requests":{"cpu":"10m","memory":"16Mi"}}}]}}}}`, name, replicas, image)
}
