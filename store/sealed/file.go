package sealed

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/store"
)

// lookEvery is how often the file is looked at.
const lookEvery = 30 * time.Second

// A File is a Store whose rules stand in a file and change with it.
type File struct {
	*Store
	path     string
	resource func(key string) schema.GroupResource
	last     []byte // what was read last, good or not; of the goroutine that reloads
}

// Open reads the configuration and puts it before the store below.
func Open(path string, below store.Store, resource func(key string) schema.GroupResource) (*File, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the encryption configuration: %w", err)
	}
	r, err := Parse(data, resource)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &File{Store: New(below, r), path: path, resource: resource, last: data}, nil
}

// Reload reads the file again if it changed. With an error the old rules hold; it is told once for each state of the
// file. Not to be called by several at once.
func (f *File) Reload() (changed bool, err error) {
	data, err := os.ReadFile(f.path)
	if err != nil {
		return false, fmt.Errorf("read the encryption configuration: %w", err)
	}
	if bytes.Equal(data, f.last) {
		return false, nil
	}
	f.last = data
	r, err := Parse(data, f.resource)
	if err != nil {
		return false, fmt.Errorf("%s: %w", f.path, err)
	}
	f.Replace(r)
	return true, nil
}

// Follow reads the file again when it changed, until ctx ends.
func (f *File) Follow(ctx context.Context, log *slog.Logger) {
	t := time.NewTicker(lookEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		switch changed, err := f.Reload(); {
		case err != nil:
			log.Error("the encryption configuration stays as it was", "err", err)
		case changed:
			log.Info("the encryption configuration changed", "file", f.path)
		}
	}
}
