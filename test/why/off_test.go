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
	"github.com/kloop-dev/kloop/kit/whole"
)

// TestOff has a server that explains nothing: it serves no such group, runs its loops all the same, and who asks hears what its objects
// tell, and how to have it explain itself.
func TestOff(t *testing.T) {
	c, err := cluster.Start(context.Background(), cluster.Config{Kit: whole.Kit(),
		NoConvergence: true, Log: slog.New(slog.DiscardHandler)})
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
	for words, want := range map[string]int{"why": 0, "why namespace default": 0, "gaps": 0, "loops": 1, "trace namespace default": 1} {
		var out, errs bytes.Buffer
		first, rest, _ := strings.Cut(words, " ")
		args := append([]string{"kloop", first, "--kubeconfig", path}, strings.Fields(rest)...)
		if code := cli.Run(t.Context(), strings.NewReader(""), &out, &errs, args); code != want {
			t.Errorf("%q ends with %d, not %d: %s", words, code, want, &out)
		}
		if text := errs.String(); !strings.Contains(text, "--convergence=false") {
			t.Errorf("%q fails with: %s", words, text)
		}
	}
}
