//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// TestImageVolume mounts an image, and a directory of it, into a container. A containerd that can't is named with the version that can.
// What holds on the server's own node holds on one that has joined.
func TestImageVolume(t *testing.T) {
	join(t)
	for _, n := range nodes {
		t.Run(n.name, func(t *testing.T) { imageVolume(t, n.name) })
	}
}

func imageVolume(t *testing.T, node string) {
	ns := space(t)
	apply(t, ns, onePod("p", `
grep -c worker_processes /settings/nginx.conf; cat /image/usr/share/nginx/html/index.html
if touch /image/x; then echo "it can be written"; fi
echo all; sleep 3600`, `
nodeName: `+node+`
volumes: [{name: v, image: {reference: "nginx:1", pullPolicy: IfNotPresent}}]`, `
volumeMounts: [{name: v, mountPath: /image}, {name: v, mountPath: /settings, subPath: etc/nginx}]`))
	runs := false
	eventually(t, "the container runs, or its runtime says why not", func() (bool, string) {
		s := getPod(t, ns, "p").Status.ContainerStatuses
		if len(s) == 0 {
			return false, "it has no status"
		}
		const older = "can't mount images as volumes: it takes 2.1"
		w := s[0].State.Waiting
		runs = s[0].State.Running != nil
		return runs || w != nil && w.Reason == "CreateContainerError" && strings.Contains(w.Message, older), fmt.Sprintf("%+v", s)
	})
	if !runs {
		t.Logf("node %s has a containerd that is older than image volumes", node)
		return
	}
	out := logged(t, ns, "p", "all")
	if !strings.HasPrefix(out, "1\n") || !strings.Contains(out, "It loops.") || strings.Contains(out, "written") {
		t.Errorf("the container of node %s says: %s", node, out)
	}
}
