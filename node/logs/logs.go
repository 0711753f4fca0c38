// Package logs keeps the log files of containers small: a file that has grown large is renamed, the runtime begins
// a new one, and old ones are packed and then dropped.
//
//	DIR/<namespace>_<pod>_<uid>/<container>/<restart>.log                 written by the runtime
//	DIR/<namespace>_<pod>_<uid>/<container>/<restart>.log.<time>          the one before it
//	DIR/<namespace>_<pod>_<uid>/<container>/<restart>.log.<time>.gz       older ones
package logs

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// MaxBytes and MaxFiles bound logs unless Config says otherwise.
const (
	MaxBytes = 10 << 20
	MaxFiles = 5
)

// Config says where logs are and how large they may grow.
type Config struct {
	Dir        string // of the logs of all pods
	Containers cri.RuntimeServiceClient
	MaxBytes   int64         // of one file; 0: 10 MiB
	MaxFiles   int           // of one container, the current one included; 0: 5
	Every      time.Duration // between two looks; 0: 10 s
	Log        *slog.Logger  // nil: the default
}

func (c Config) filled() Config {
	if c.MaxBytes <= 0 {
		c.MaxBytes = MaxBytes
	}
	if c.MaxFiles < 2 {
		c.MaxFiles = MaxFiles
	}
	if c.Every <= 0 {
		c.Every = 10 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return c
}

// Run looks at the logs now and then until ctx ends. A log that can't be rotated is tried again at the next look.
func Run(ctx context.Context, cfg Config) {
	cfg = cfg.filled()
	tick := time.NewTicker(cfg.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := Rotate(ctx, cfg); err != nil && ctx.Err() == nil {
			cfg.Log.Warn("rotate the logs of containers", "err", err)
		}
	}
}

// Rotate looks at all logs once.
func Rotate(ctx context.Context, cfg Config) error {
	cfg = cfg.filled()
	large, err := largeLogs(cfg.Dir, cfg.MaxBytes)
	if err != nil || len(large) == 0 {
		return err
	}
	running, err := cfg.running(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, path := range large {
		if id, ok := running[path]; ok { // the last log of an ended container stays as it is
			if err := cfg.rotate(ctx, path, id); err != nil {
				errs = append(errs, fmt.Errorf("rotate %s: %w", path, err))
			}
		}
	}
	return errors.Join(errs...)
}

// largeLogs finds the current log files of more than limit bytes. It costs a few system calls a container, and none
// to the runtime.
func largeLogs(dir string, limit int64) (list []string, err error) {
	files, err := filepath.Glob(filepath.Join(escape(dir), "*", "*", "*.log"))
	for _, f := range files {
		if info, err := os.Lstat(f); err == nil && info.Mode().IsRegular() && info.Size() > limit {
			list = append(list, f)
		}
	}
	return list, err
}

func escape(dir string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}

// running maps the log files of running containers to their ids.
func (c Config) running(ctx context.Context) (map[string]string, error) {
	list, err := c.Containers.ListContainers(ctx, &cri.ListContainersRequest{Filter: &cri.ContainerFilter{
		State: &cri.ContainerStateValue{State: cri.ContainerState_CONTAINER_RUNNING}}})
	if err != nil {
		return nil, fmt.Errorf("list the running containers: %w", err)
	}
	m := map[string]string{}
	for _, k := range list.Containers {
		res, err := c.Containers.ContainerStatus(ctx, &cri.ContainerStatusRequest{ContainerId: k.Id})
		if err != nil {
			continue // it has gone meanwhile
		}
		m[res.GetStatus().GetLogPath()] = k.Id
	}
	return m, nil
}

// rotate gives the runtime a new file. A crash in between leaves files that the next rotation puts right.
func (c Config) rotate(ctx context.Context, path, id string) error {
	old, err := rotated(path)
	if err != nil {
		return err
	}
	for len(old) > c.MaxFiles-2 { // with the current one and the one that joins them
		if err := os.Remove(old[0]); err != nil {
			return err
		}
		old = old[1:]
	}
	for _, f := range old {
		if !strings.HasSuffix(f, ".gz") {
			if err := pack(f); err != nil {
				return err
			}
		}
	}
	to := path + "." + time.Now().UTC().Format("20060102-150405.000000") // sorts by time
	if err := os.Rename(path, to); err != nil {
		return err
	}
	if _, err := c.Containers.ReopenContainerLog(ctx, &cri.ReopenContainerLogRequest{ContainerId: id}); err != nil {
		return errors.Join(fmt.Errorf("ask the runtime for a new file: %w", err), restore(path, to))
	}
	return nil
}

// restore undoes the renaming, unless the runtime has begun a new file all the same.
func restore(path, to string) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Rename(to, path)
}

// rotated lists the earlier files of a log, the oldest first, and removes what a crash left half packed.
func rotated(path string) (list []string, err error) {
	entries, err := os.ReadDir(filepath.Dir(path)) // by name: time goes up, and a plain file comes before its packed form
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		f := filepath.Join(filepath.Dir(path), e.Name())
		switch {
		case !strings.HasPrefix(f, path+"."):
		case strings.HasSuffix(f, ".tmp") || slices.Contains(list, strings.TrimSuffix(f, ".gz")): // the plain file is whole
			if err := os.Remove(f); err != nil {
				return nil, err
			}
		default:
			list = append(list, f)
		}
	}
	return list, nil
}

// pack replaces a file by its packed form.
func pack(path string) error {
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	tmp := path + ".tmp"
	out, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	gz := gzip.NewWriter(out)
	_, err = io.Copy(gz, in)
	if err = errors.Join(err, gz.Close(), out.Close()); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	if err := os.Rename(tmp, path+".gz"); err != nil {
		return err
	}
	return os.Remove(path)
}
