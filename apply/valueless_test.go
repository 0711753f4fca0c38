package apply

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// What is logged of an object that breaks the schema of its kind has no values of it.
func TestNoValueIsLogged(t *testing.T) {
	was := slog.Default()
	t.Cleanup(func() { slog.SetDefault(was) })
	long := "hush" + strings.Repeat("x", 1<<20)
	for _, tt := range []struct {
		name string
		spec map[string]any
	}{
		{"a list in place of a map", map[string]any{"free": []any{"hush"}}},
		{"a text in place of a list", map[string]any{"set": "hush"}},
		{"a map in place of an element", map[string]any{"set": []any{map[string]any{"hush": "hush"}}}},
		{"an element of a list by key", map[string]any{"rows": []any{"hush"}}},
		{"long", map[string]any{"free": []any{long}}},
		{"several", map[string]any{"free": []any{"hush"}, "set": "hush", "b": "hush"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var log bytes.Buffer
			slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
			obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget",
				"metadata": map[string]any{"name": "a", "managedFields": []any{}}, "spec": tt.spec}}
			k := widgets()
			if err := widgetTracker(t, true).Update(Write{Kind: k, GVK: k.info.GVK, Manager: "m"}, nil, obj); err != nil {
				t.Fatal(err)
			}
			if log.Len() == 0 || log.Len() > 1000 || strings.Contains(log.String(), "hush") {
				t.Errorf("logged %d bytes: %.400s", log.Len(), log.String())
			}
		})
	}
}
