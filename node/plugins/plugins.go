// Package plugins registers kubelet plugins: programs beside the agent that bring devices and volumes, such as CSI and DRA drivers.
//
//	reads   sockets below plugins_registry of the agent's root directory
//	writes  nothing; the Handler of a plugin's type takes it from there
//	rule    a plugin is registered as long as its socket is there, and again when the socket is another one
//
// A plugin offers a socket there that serves pluginregistration.v1. It says what it is, at which other socket it works, and which
// versions of its protocol it speaks; then it hears whether it was taken. What is on disk is the truth: an agent that starts anew
// finds the sockets of plugins that run.
package plugins

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// The types of plugins, as they tell them.
const (
	CSI    = registration.CSIPlugin
	DRA    = registration.DRAPlugin
	Device = registration.DevicePlugin
)

// Folder is the directory of registration sockets, below the agent's root directory.
const Folder = "plugins_registry"

// A Plugin describes a program as it registered itself.
type Plugin struct {
	Type, Name string
	Endpoint   string   // the socket at which it works
	Versions   []string // of its protocol, as it tells them
}

// A Handler takes up the plugins of one type. Its methods are called for several plugins at once, for one socket one after another.
type Handler interface {
	// Register takes up the plugin. Its error goes to the plugin, must leave nothing behind, and is followed by another try. It ends
	// with ctx, which ends with the socket.
	Register(ctx context.Context, p Plugin) error
	// Deregister follows a Register that returned nil, when the socket has gone or is another one; not when the agent ends.
	Deregister(p Plugin)
}

// Config says where sockets lie and who takes up what.
type Config struct {
	Dir      string             // the agent's root directory
	Handlers map[string]Handler // by type
	Log      *slog.Logger       // nil: the default
}

// Bounds of a directory that others fill, and how often it is looked at without a hint that it changed.
const (
	maxSockets = 256
	maxEntries = 4096
	lookEvery  = 10 * time.Second
)

// Run registers plugins until ctx ends. It fails only if the directory can't be made.
func Run(ctx context.Context, cfg Config) error {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	dir := filepath.Join(cfg.Dir, Folder)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("make the directory of plugins: %w", err)
	}
	w := &watcher{cfg: cfg, dir: dir, at: map[string]*entry{}}
	defer w.wg.Wait()
	hints := watchTree(ctx, dir, cfg.Log)
	for {
		w.look(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-hints:
		case <-time.After(lookEvery):
		}
	}
}

// A watcher knows the sockets that were there when it looked last, and those that have gone and are not deregistered yet.
type watcher struct {
	cfg Config
	dir string
	at  map[string]*entry
	wg  sync.WaitGroup
}

// stamp tells a socket from a later one of the same name.
type stamp struct {
	inode uint64
	made  time.Time
}

// An entry is a socket, and the end of the goroutine that sees to it.
type entry struct {
	stamp stamp
	gone  bool // the socket has gone, or is another one
	leave context.CancelCauseFunc
	done  chan struct{}
}

// over says that nothing is done for the entry's socket any more.
func (e *entry) over() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

// look compares the sockets that are there with those that are seen to.
func (w *watcher) look(ctx context.Context) {
	found := w.scan()
	for path, e := range w.at {
		now, there := found[path]
		if !there || now != e.stamp {
			e.gone = true
			e.leave(errGone)
		}
		if !there && e.over() {
			delete(w.at, path)
		}
	}
	for path, s := range found {
		before := w.at[path]
		if before != nil && !before.gone {
			continue
		}
		own, leave := context.WithCancelCause(ctx)
		e := &entry{stamp: s, leave: leave, done: make(chan struct{})}
		w.at[path] = e
		w.wg.Go(func() {
			defer close(e.done)
			defer leave(nil)
			if before != nil {
				<-before.done // it deregisters first
			}
			(&plugin{Config: w.cfg, path: path}).serve(own)
		})
	}
}

// scan lists the sockets.
func (w *watcher) scan() map[string]stamp {
	found, entries := map[string]stamp{}, 0
	err := filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
		if entries++; entries > maxEntries || len(found) >= maxSockets {
			w.cfg.Log.Warn("plugins: too many files; the others are not looked at", "dir", w.dir)
			return fs.SkipAll
		}
		switch {
		case err != nil && path != w.dir:
			return nil //nolint:nilerr // it has just gone
		case err != nil:
			return err
		case path != w.dir && strings.HasPrefix(d.Name(), ".") && d.IsDir():
			return fs.SkipDir
		case strings.HasPrefix(d.Name(), ".") || d.Type()&fs.ModeSocket == 0:
			return nil
		}
		if info, err := d.Info(); err == nil {
			found[path] = stampOf(info)
		}
		return nil
	})
	if err != nil {
		w.cfg.Log.Warn("plugins: look for sockets", "again", lookEvery, "err", err)
	}
	return found
}
