package cli

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// What a library has to say of a request fills no log, and stays on a line.
func TestComplaints(t *testing.T) {
	var told bytes.Buffer
	handlers, log := utilruntime.ErrorHandlers, slog.Default()
	t.Cleanup(func() { utilruntime.ErrorHandlers = handlers; slog.SetDefault(log) })
	slog.SetDefault(slog.New(slog.NewTextHandler(&told, nil)))
	boundComplaints()
	utilruntime.HandleError(errors.New(strings.Repeat("x\n", 1<<20)))
	odd := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"managedFields": []any{strings.Repeat("y", 1<<20)}}}}
	odd.GetManagedFields()
	if n, lines := told.Len(), strings.Count(told.String(), "\n"); lines != 2 || n > 4*maxComplaint {
		t.Errorf("%d bytes in %d lines: %.2000s", n, lines, told.String())
	}
}
