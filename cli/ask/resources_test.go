package ask

import (
	"context"
	"log/slog"
	"testing"

	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/kit/whole"
)

func TestResolve(t *testing.T) {
	c, err := cluster.Start(context.Background(), cluster.Config{Kit: whole.Kit(), NoLoops: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Stop() }()
	cfg, err := c.Rest()
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(cfg, "default")
	if err != nil {
		t.Fatal(err)
	}
	for word, want := range map[string]string{"deploy": "apps/v1 deployments", "Pod": "/v1 pods",
		"hpa":    "autoscaling/v2 horizontalpodautoscalers",
		"events": "/v1 events", "events.events.k8s.io": "events.k8s.io/v1 events", "node": "/v1 nodes",
		"crds": "apiextensions.k8s.io/v1 customresourcedefinitions"} {
		t.Run(word, func(t *testing.T) {
			r, err := a.Resolve(t.Context(), word)
			if err != nil {
				t.Errorf("%s: %v", word, err)
			} else if got := r.Group + "/" + r.Version + " " + r.Name; got != want {
				t.Errorf("%s is %s, want %s", word, got, want)
			}
		})
	}
	if _, err := a.Resolve(t.Context(), "nonsense"); err == nil {
		t.Error("nonsense is a resource")
	}
}
