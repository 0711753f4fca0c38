package machine

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/kinds"
)

// TestExplain reads what a node would do with the rights of a node, which are those that its proxy has, and sees that who may not
// read services learns so.
func TestExplain(t *testing.T) {
	ctx := t.Context()
	_, cfg := started(t, cluster.Config{})
	admin, err := client.NewRemote(cfg, kinds.NewSet(), "test")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Create(ctx, kinds.Services, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: corev1.ServiceSpec{ClusterIP: "10.96.7.7", Ports: []corev1.ServicePort{{Port: 80}}}}); err != nil {
		t.Fatal(err)
	}
	as := func(user string, groups ...string) (string, error) {
		cfg := rest.CopyConfig(cfg)
		cfg.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
		patience := time.Minute
		if user == "nobody" {
			patience = 2 * time.Second
		}
		var out strings.Builder
		err := Explain(ctx, Joined{Config: Config{Name: "n1"}, Rest: cfg}, patience, &out)
		return out.String(), err
	}
	out, err := as("system:node:n1", auth.GroupNodes)
	for _, want := range []string{"but                node n1 has no pod range",
		"10.96.7.7:80/TCP             refused: no endpoints", "cluster IPs        10.96.0.0/16"} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%v\n%s\nwant %s", err, out, want)
		}
	}
	if _, err := as("nobody"); err == nil || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("nobody: %v", err)
	}
}
