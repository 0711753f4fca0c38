//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestNames reaches services by name from a pod: in full, partly qualified, and by what a search path makes of it.
func TestNames(t *testing.T) {
	ns := space(t)
	startClient(t, ns)
	apply(t, ns, web("web", 1, ""))
	rolledOut(t, ns, "web")
	resolv := kubectl(t, "exec", "-n", ns, "client", "--", "cat", "/etc/resolv.conf")
	if want := fmt.Sprintf("search %s.svc.cluster.local svc.cluster.local cluster.local", ns); !strings.Contains(resolv, want) ||
		!strings.Contains(resolv, "nameserver 10.96.0.10\n") {
		t.Errorf("resolv.conf:\n%s", resolv)
	}
	for _, name := range []string{"web", "web." + ns, "web." + ns + ".svc", "web." + ns + ".svc.cluster.local"} {
		eventually(t, name+" answers", func() (bool, string) {
			out, err := it.try("exec", "-n", ns, "client", "--", "wget", "-q", "-O", "-", "http://"+name+"/hostname")
			return err == nil && strings.HasPrefix(out, "web-"), fmt.Sprint(out, err)
		})
	}
	api, err := it.client.CoreV1().Services("default").Get(context.Background(), "kubernetes", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the API has its name", func() (bool, string) {
		out, err := it.try("exec", "-n", ns, "client", "--", "nslookup", "kubernetes.default.svc.cluster.local")
		return err == nil && strings.Contains(out, api.Spec.ClusterIP), fmt.Sprint(out, err)
	})
	if out, err := it.try("exec", "-n", ns, "client", "--", "nslookup", "nowhere."+ns+".svc.cluster.local"); err == nil ||
		!strings.Contains(out, "NXDOMAIN") {
		t.Errorf("a name that is not there: %s, %v", out, err)
	}
}
