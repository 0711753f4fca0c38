package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/kloop-dev/kloop/engine"
)

func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	for range 3000 {
		if so() {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	t.Fatalf("not within the bound: %s", what)
}

// TestFiles: files are as their objects say, drift is taken back, no path leads out of the directory, and none is left behind.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	loop := files(root)
	loop.Poll = 100 * time.Millisecond
	p, err := engine.Start(t.Context(), engine.Config{Log: slog.New(slog.DiscardHandler)}, loop)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	}()
	cfg, err := p.Rest()
	if err != nil {
		t.Fatal(err)
	}
	cfg.QPS = -1
	cl, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	all := cl.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "files"}).Namespace("default")
	file := func(name, path, content string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "File",
			"metadata": map[string]any{"name": name}, "spec": map[string]any{"path": path, "content": content}}}
	}
	if _, err := all.Create(t.Context(), file("out", "../out", "x"), metav1.CreateOptions{}); err == nil {
		t.Error("a path out of the directory is taken")
	}
	if _, err := all.Create(t.Context(), file("motd", "motd", "hello\n"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	motd := filepath.Join(dir, "motd")
	has := func(text string) func() bool {
		return func() bool { data, err := os.ReadFile(motd); return err == nil && string(data) == text }
	}
	until(t, "the file is there", has("hello\n"))
	if err := os.WriteFile(motd, []byte("somebody's"), 0o600); err != nil {
		t.Fatal(err)
	}
	until(t, "the drift is taken back", has("hello\n"))

	other := []byte(`{"spec": {"path": "other"}}`)
	if _, err := all.Patch(t.Context(), "motd", types.MergePatchType, other, metav1.PatchOptions{}); err == nil ||
		!strings.Contains(err.Error(), "not renamed") {
		t.Errorf("the rule of the marker does not hold: %v", err)
	}
	if err := all.Delete(t.Context(), "motd", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "the file is gone", func() bool { _, err := os.Stat(motd); return os.IsNotExist(err) })
}
