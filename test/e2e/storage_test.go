//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// store is a StatefulSet whose pods each write a line to a claim of theirs when they start. It names no class.
const store = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: store}
spec:
  serviceName: store
  replicas: 3
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: store}}
  template:
    metadata: {labels: {app: store}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: store
        image: nginx:1
        command: [sh, -c, "hostname >> /data/starts; sleep 3600"]
        volumeMounts: [{name: data, mountPath: /data}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 16Mi}}}
`

// TestLocalStorage has pods write to claims of the default class: what they wrote is there when they were made anew and when kloop was
// killed, and nothing is left when the claims are gone.
func TestLocalStorage(t *testing.T) {
	ns := space(t)
	apply(t, ns, store)
	started := func(times int) {
		t.Helper()
		eventually(t, fmt.Sprintf("each pod has started %d times", times), func() (bool, string) {
			all := ""
			for i := range 3 {
				name := fmt.Sprintf("store-%d", i)
				out, err := it.try("exec", "-n", ns, name, "--", "cat", "/data/starts")
				if err != nil || out != strings.TrimSpace(strings.Repeat(name+"\n", times)) {
					return false, fmt.Sprint(name, ": ", out, err)
				}
				all += out
			}
			return true, all
		})
	}
	started(1)
	kubectl(t, "delete", "pod", "-n", ns, "-l", "app=store")
	started(2)
	if err := end(it.server, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := it.startServer(); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "delete", "pod", "-n", ns, "-l", "app=store")
	started(3)
	kubectl(t, "delete", "statefulset", "-n", ns, "store")
	kubectl(t, "delete", "pvc", "-n", ns, "--all")
	nothingLeft(t)
}

// nothingLeft waits until no volume is left, neither in the API nor on a disk.
func nothingLeft(t *testing.T) {
	t.Helper()
	eventually(t, "nothing is left", func() (bool, string) {
		list, err := it.client.CoreV1().PersistentVolumes().List(context.Background(), metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		files, err := filepath.Glob(filepath.Join(it.dir, "*", "storage", "*"))
		inside, err2 := filepath.Glob(filepath.Join(it.dir, "*", "storage", ".[is]*", "*"))
		files = slices.DeleteFunc(append(files, inside...), func(path string) bool {
			return filepath.Base(path) == ".images" || filepath.Base(path) == ".snapshots"
		})
		return len(list.Items)+len(files) == 0, fmt.Sprint(len(list.Items), files, err, err2)
	})
}

// imageClaim is a claim of an image, which a snapshot may be the source of, and a pod that runs a script beside it.
func imageClaim(name, script, source string) string {
	return fmt.Sprintf(`
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: %[1]s}
spec:
  storageClassName: local-image
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 16Mi}}
%[2]s
`, name, indent(2, source)) + onePod(name, script, "volumes: [{name: v, persistentVolumeClaim: {claimName: "+name+"}}]",
		"volumeMounts: [{name: v, mountPath: /v}]")
}

// TestSnapshot has a copy made of a volume that a pod writes to, and another pod find in a new volume what was written before, and nothing
// that came after.
func TestSnapshot(t *testing.T) {
	ns := space(t)
	apply(t, ns, imageClaim("first", "echo before > /v/word; sync; echo written; sleep 3600", ""))
	logged(t, ns, "first", "written")
	apply(t, ns, `
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshotClass
metadata: {name: e2e}
driver: rancher.io/local-path
deletionPolicy: Delete
---
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshot
metadata: {name: then}
spec: {volumeSnapshotClassName: e2e, source: {persistentVolumeClaimName: first}}
`)
	t.Cleanup(func() { kubectl(t, "delete", "volumesnapshotclass", "e2e") })
	kubectl(t, "wait", "-n", ns, "volumesnapshot/then", "--for=jsonpath={.status.readyToUse}=true", "--timeout=240s")
	kubectl(t, "exec", "-n", ns, "first", "--", "sh", "-c", "echo after > /v/word")
	apply(t, ns, imageClaim("second", "cat /v/word; sleep 3600",
		"dataSource: {apiGroup: snapshot.storage.k8s.io, kind: VolumeSnapshot, name: then}"))
	if out := logged(t, ns, "second", "e"); out != "before" {
		t.Errorf("the new volume holds %q", out)
	}
	kubectl(t, "delete", "-n", ns, "pod,pvc,volumesnapshot", "--all")
	nothingLeft(t)
}
