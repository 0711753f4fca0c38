package why_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/cli"
	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/kinds/convergence"
)

// TestOff has a server that explains nothing: it serves no such group, runs its loops all the same, and who asks is told
// how to have it explained.
func TestOff(t *testing.T) {
	c, err := cluster.Start(context.Background(), cluster.Config{SimNodes: 1, NoConvergence: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop() })
	cfg, err := c.Rest()
	if err != nil {
		t.Fatal(err)
	}
	groups, err := kubernetes.NewForConfigOrDie(cfg).Discovery().ServerGroups()
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range groups.Groups {
		if g.Name == convergence.GroupVersion.Group {
			t.Error("the group is listed")
		}
	}
	config, err := c.Kubeconfig("somebody", auth.GroupMasters)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, config, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, words := range [][]string{{"why"}, {"why", "namespace", "default"}, {"gaps"}, {"loops"}, {"trace", "namespace", "default"}} {
		var out, errs bytes.Buffer
		args := append([]string{"kloop", words[0], "--kubeconfig", path}, words[1:]...)
		if code := cli.Run(t.Context(), strings.NewReader(""), &out, &errs, args); code == 0 {
			t.Errorf("%q answers: %s", words, &out)
		}
		if text := errs.String(); !strings.Contains(text, "--convergence=false") {
			t.Errorf("%q fails with: %s", words, text)
		}
	}
}
