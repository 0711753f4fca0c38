package engine

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/kloop-dev/kloop/internal/eventually"
)

// TestForesee: a forecast does nothing; with a model it goes to the end, and counts what the world and the pauses take.
func TestForesee(t *testing.T) {
	l, o := &line{}, &lamp{}
	loop := l.loop()
	f, err := loop.Foresee(t.Context(), o)
	if err != nil || !slices.Equal(f.Steps, []string{"a", "b", "c"}) || f.Settled || f.Unknown == "" {
		t.Errorf("without a model: %+v, %v", f, err)
	}
	loop.Every = 2 * time.Second
	loop.Model = func(_ *lamp, have []string, s Step) []string { return append(slices.Clone(have), s.Name) }
	f, err = loop.Foresee(t.Context(), o)
	if err != nil || !slices.Equal(f.Steps, []string{"a", "b", "c"}) || !f.Settled || f.Unknown != "" || f.Takes != time.Minute+2*time.Second {
		t.Errorf("with a model: %+v, %v", f, err)
	}
	if len(l.have) > 0 || l.looked != 2 {
		t.Errorf("the world was changed to %v, and looked at %d times", l.have, l.looked)
	}
	loop.Model = func(_ *lamp, have []string, _ Step) []string { return have }
	if f, err = loop.Foresee(t.Context(), o); err != nil || len(f.Steps) != foreseen || f.Settled || f.Unknown == "" {
		t.Errorf("a model that gets nowhere: %d steps, %q, %v", len(f.Steps), f.Unknown, err)
	}
	loop.Observe = func(context.Context, *lamp) ([]string, error) { return nil, errors.New("dark") }
	if _, err = loop.Foresee(t.Context(), o); err == nil || !strings.Contains(err.Error(), "dark") {
		t.Errorf("a world that can't be read: %v", err)
	}
}

// heard keeps the warnings of a client's answers.
type heard struct {
	mu   sync.Mutex
	text []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (h *heard) HandleWarningHeader(_ int, _, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.text = append(h.text, text)
}

func (h *heard) take() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	text := strings.Join(h.text, "\n")
	h.text = nil
	return text
}

// TestDryRun: what the loops would do is a warning of a dry run, and nothing is done.
func TestDryRun(t *testing.T) {
	h := newHouse()
	p, err := Start(t.Context(), Config{Log: slog.New(slog.DiscardHandler)}, h.loop(nil))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Stop() })
	cfg, err := p.Rest()
	if err != nil {
		t.Fatal(err)
	}
	said := &heard{}
	cfg.WarningHandler = said
	dyn, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	lamps := dyn.Resource(schema.GroupVersionResource{Group: "test.example.com", Version: "v1", Resource: "lamps"}).Namespace("default")
	dry := []string{metav1.DryRunAll}
	create := func(mode, want string) {
		t.Helper()
		if _, err := lamps.Create(t.Context(), lampNamed("desk", mode), metav1.CreateOptions{DryRun: dry}); err != nil {
			t.Fatal(err)
		}
		if got := said.take(); got != want {
			t.Errorf("a dry run of mode %q says %q, want %q", mode, got, want)
		}
	}
	create("", "lamps would: switch")
	create(ModeObserve, "lamps would do nothing, and report as missing: switch")
	create(ModePause, "lamps would not look at it: it is paused")
	h.mu.Lock()
	h.away = true
	h.mu.Unlock()
	create("", "lamps: what would be done is not known: observe: nobody answers")
	h.mu.Lock()
	h.away = false
	h.mu.Unlock()
	if _, known := h.is("desk"); known {
		t.Error("a dry run switched the lamp")
	}

	if _, err := lamps.Create(t.Context(), lampNamed("desk", ""), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the lamp burns", func() bool { on, _ := h.is("desk"); return on })
	said.take()
	if err := lamps.Delete(t.Context(), "desk", metav1.DeleteOptions{DryRun: dry}); err != nil {
		t.Fatal(err)
	}
	if got := said.take(); got != "lamps would: unscrew" {
		t.Errorf("a dry run of a deletion says %q", got)
	}
	if on, _ := h.is("desk"); !on {
		t.Error("a dry run of a deletion unscrewed the lamp")
	}
}
