//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"path/filepath"
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
	eventually(t, "nothing is left", func() (bool, string) {
		list, err := it.client.CoreV1().PersistentVolumes().List(context.Background(), metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		files, err := filepath.Glob(filepath.Join(it.dir, "*", "storage", "*"))
		trash, err2 := filepath.Glob(filepath.Join(it.dir, "*", "storage", ".*"))
		return len(list.Items)+len(files)+len(trash) == 0, fmt.Sprint(len(list.Items), files, trash, err, err2)
	})
}
