package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/internal/atomicfile"
)

// Format is the number of the format in which this program keeps data directories. It goes up with a change after which a program of the
// number before would misread or harm what it finds; what older programs only overlook does not count.
const Format = 1

// formatFile says in a data directory who wrote there last. Without it the directory is of format 1.
const formatFile = "format.json"

type formatNote struct {
	Format  int    `json:"format"`
	Program string `json:"program"` // as features.Version has it
}

// ErrNewer says that the data is a newer program's.
var ErrNewer = errors.New("the data was written by a newer kloop than can be gone back from")

// CheckFormat refuses a data directory, of a server or a node, that this program must not work in: one of a newer format, or one whose
// Kubernetes is more than one minor release ahead, as kinds may be stored in versions that this one does not know.
func CheckFormat(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, formatFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read who wrote the data: %w", err)
	}
	var n formatNote
	if err := json.Unmarshal(text, &n); err != nil || n.Format < 1 {
		return fmt.Errorf("%s does not say which kloop wrote the data; with a directory that kloop %s wrote, remove that file",
			filepath.Join(dir, formatFile), features.Version())
	}
	switch minor := minorOf(n.Program); {
	case n.Format > Format:
		return fmt.Errorf("%s: %w: %s, in format %d, and this one, %s, knows formats up to %d; run that one, or restore a backup from before it",
			dir, ErrNewer, n.Program, n.Format, features.Version(), Format)
	case minor > features.Newest+1:
		return fmt.Errorf("%s: %w: %s, and this one is %s; go back one minor release of Kubernetes at a time, each running once",
			dir, ErrNewer, n.Program, features.Version())
	}
	return nil
}

// NoteFormat notes that this program works in a data directory. No other process may be using the directory.
func NoteFormat(dir string) error {
	text, err := json.Marshal(formatNote{Format, features.Version()})
	if err != nil {
		return err
	}
	text = append(text, '\n')
	path := filepath.Join(dir, formatFile)
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, text) {
		return nil
	}
	if err := atomicfile.Write(path, text, 0o644); err != nil { // an empty one would be refused for ever
		return fmt.Errorf("note who wrote the data: %w", err)
	}
	return nil
}

// noting notes it once the store is open: only one process has that. Without a directory it does nothing.
func noting(dir string) func(ctx context.Context, ready func()) error {
	return func(ctx context.Context, ready func()) error {
		if dir != "" {
			if err := NoteFormat(dir); err != nil {
				return err
			}
		}
		ready()
		<-ctx.Done()
		return nil
	}
}

// minorOf is the 37 of v1.37.2+kloop.0.1.0; 0 if it can't be read.
func minorOf(version string) int {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 3 {
		return 0
	}
	n, err := strconv.Atoi(parts[1])
	if err != nil {
		return 0
	}
	return n
}
