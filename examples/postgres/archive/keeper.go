// Package archive is the pod that keeps a cluster's WAL and base backups on a volume of its own. PostgreSQL hands WAL over by
// HTTP, so the volume may be of any node.
//
//	reads   PostgresBackup, PostgresCluster
//	writes  PostgresBackup: status, delete of those that are too old
//	rule    WAL that was taken is on disk and never replaced by other WAL of the same name
package archive

import (
	"bytes"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A Keeper is an archive. All fields are required.
type Keeper struct {
	API                client.Client
	Dir                string
	Namespace, Cluster string
	Token              string // who has it may write and read
	Secret             string // password of the role that streams
	Log                *slog.Logger

	ready atomic.Bool
}

// largest is the size of a segment of WAL; nothing that is archived is larger.
const largest = 16 << 20

// walName fits the names of files that PostgreSQL archives: segments, histories of timelines, marks of backups.
var walName = regexp.MustCompile(`^[0-9A-F]{8}(\.history|[0-9A-F]{16}(\.partial|\.[0-9A-F]{8}\.backup)?)$`)

// Open makes the folders, and removes what was not finished.
func (k *Keeper) Open() error {
	for _, name := range []string{"wal", "base"} {
		if err := os.MkdirAll(filepath.Join(k.Dir, name), 0o700); err != nil {
			return fmt.Errorf("make the archive's folders: %w", err)
		}
	}
	half, err := filepath.Glob(filepath.Join(k.Dir, "*", "*.new"))
	if err != nil {
		return err
	}
	for _, path := range half {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	k.ready.Store(true)
	return nil
}

// Handler serves /wal/NAME to PUT and GET, /base?before=TIME to GET, and /ready.
func (k *Keeper) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		if !k.ready.Load() {
			http.Error(w, "not ready", http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("PUT /wal/{name}", k.take)
	mux.HandleFunc("GET /wal/{name}", k.give)
	mux.HandleFunc("GET /base", k.base)
	return mux
}

// wal checks who asks and for what, and returns the path; empty: the answer is written.
func (k *Keeper) wal(w http.ResponseWriter, r *http.Request) string {
	name := r.PathValue("name")
	switch {
	case !k.known(r):
		http.Error(w, "the token is wrong", http.StatusUnauthorized)
	case !walName.MatchString(name):
		http.Error(w, "that is no name of WAL", http.StatusBadRequest)
	default:
		return filepath.Join(k.Dir, "wal", name)
	}
	return ""
}

func (k *Keeper) known(r *http.Request) bool {
	return k.Token != "" && subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte("Bearer "+k.Token)) == 1
}

// take stores WAL. What is there already stays: PostgreSQL may send the same again, but two primaries must not share a name.
func (k *Keeper) take(w http.ResponseWriter, r *http.Request) {
	path := k.wal(w, r)
	if path == "" {
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, largest))
	if err != nil {
		http.Error(w, "read the WAL: "+err.Error(), http.StatusBadRequest)
		return
	}
	have, err := os.ReadFile(path)
	switch {
	case err == nil && bytes.Equal(have, body):
		return
	case err == nil:
		http.Error(w, "other WAL of this name is archived", http.StatusConflict)
		return
	case !os.IsNotExist(err):
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if err := keep(path, body); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// keep writes a file that is whole and on disk when it has its name. A name is never taken twice.
func keep(path string, body []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.new")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(body)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (k *Keeper) give(w http.ResponseWriter, r *http.Request) {
	if path := k.wal(w, r); path != "" {
		http.ServeFile(w, r, path)
	}
}

// Run makes the backups that are asked for, one at a time, until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := k.pass(ctx); err != nil && ctx.Err() == nil {
			k.Log.Warn("a pass failed", "err", err)
		}
	}
}
