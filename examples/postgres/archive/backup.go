package archive

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kloop-dev/kloop/examples/postgres/api/v1alpha1"
)

// A base backup is a folder whose name is the time at which it ended, in UTC, and the object that asked for it.
const stamp = "20060102T150405.000000Z"

// pass makes the oldest backup that is asked for, and removes what is too old.
func (k *Keeper) pass(ctx context.Context) error {
	var c v1alpha1.PostgresCluster
	if err := k.API.Get(ctx, client.ObjectKey{Namespace: k.Namespace, Name: k.Cluster}, &c); err != nil {
		return err
	}
	var list v1alpha1.PostgresBackupList
	if err := k.API.List(ctx, &list, client.InNamespace(k.Namespace)); err != nil {
		return err
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.PostgresBackup) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	for i := range list.Items {
		b := &list.Items[i]
		if b.Spec.Cluster == k.Cluster && b.Status.Phase == "" && b.DeletionTimestamp == nil && c.Status.CurrentPrimary != "" {
			return k.fulfil(ctx, b)
		}
	}
	return k.forget(ctx, int(c.Spec.BackupsKept), list.Items)
}

// fulfil makes a backup and says in its object how it went. One that was made before a crash is found by its name.
func (k *Keeper) fulfil(ctx context.Context, b *v1alpha1.PostgresBackup) error {
	dir, err := k.find(b.Name)
	if err == nil && dir == "" {
		dir, err = k.copy(ctx, b.Name)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		b.Status = v1alpha1.PostgresBackupStatus{Phase: v1alpha1.BackupFailed, Message: err.Error()}
	default:
		at, _, _ := parse(dir)
		b.Status = v1alpha1.PostgresBackupStatus{Phase: v1alpha1.BackupCompleted, Completed: &metav1.Time{Time: at},
			Bytes: size(filepath.Join(k.Dir, "base", dir))}
	}
	return k.API.Status().Update(ctx, b)
}

// copy has the primary send a copy of its data. It is usable with the WAL of that time, which is archived by itself.
func (k *Keeper) copy(ctx context.Context, name string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	fresh := filepath.Join(k.Dir, "base", name+".new")
	if err := os.RemoveAll(fresh); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "pg_basebackup", "-h", k.Cluster+"-rw", "-U", "streamer", "-D", fresh, "-X", "none", "-c", "fast")
	cmd.Env = append(os.Environ(), "PGPASSWORD="+k.Secret, "PGCONNECT_TIMEOUT=5")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("pg_basebackup: %w: %s", err, bytes.TrimSpace(out))
	}
	dir := time.Now().UTC().Format(stamp) + "_" + name
	if err := os.Rename(fresh, filepath.Join(k.Dir, "base", dir)); err != nil {
		return "", err
	}
	return dir, syncDir(filepath.Join(k.Dir, "base"))
}

// parse reads the name of a base backup's folder.
func parse(dir string) (at time.Time, name string, ok bool) {
	text, name, ok := strings.Cut(dir, "_")
	at, err := time.Parse(stamp, text)
	return at, name, ok && err == nil
}

// dirs lists the base backups, oldest first.
func (k *Keeper) dirs() (list []string, err error) {
	all, err := os.ReadDir(filepath.Join(k.Dir, "base"))
	for _, d := range all {
		if _, _, ok := parse(d.Name()); ok {
			list = append(list, d.Name())
		}
	}
	slices.Sort(list)
	return list, err
}

func (k *Keeper) find(object string) (string, error) {
	list, err := k.dirs()
	for _, d := range list {
		if _, name, _ := parse(d); name == object {
			return d, nil
		}
	}
	return "", err
}

func size(dir string) (sum int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error { // what can't be read counts for nothing
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				sum += info.Size()
			}
		}
		return nil
	})
	return sum
}

// forget removes all but the newest base backups, and the WAL that only they needed.
func (k *Keeper) forget(ctx context.Context, kept int, objects []v1alpha1.PostgresBackup) error {
	list, err := k.dirs()
	if err != nil || kept < 1 || len(list) <= kept {
		return err
	}
	for _, dir := range list[:len(list)-kept] {
		_, name, _ := parse(dir)
		for i := range objects {
			if objects[i].Name == name {
				if err := k.API.Delete(ctx, &objects[i]); err != nil && !apierrors.IsNotFound(err) {
					return err
				}
			}
		}
		if err := os.RemoveAll(filepath.Join(k.Dir, "base", dir)); err != nil {
			return err
		}
	}
	label, err := os.ReadFile(filepath.Join(k.Dir, "base", list[len(list)-kept], "backup_label"))
	if err != nil {
		return err
	}
	files, err := os.ReadDir(filepath.Join(k.Dir, "wal"))
	if err != nil {
		return err
	}
	var names []string
	for _, f := range files {
		names = append(names, f.Name())
	}
	for _, name := range superfluous(string(label), names) {
		if err := os.Remove(filepath.Join(k.Dir, "wal", name)); err != nil {
			return err
		}
	}
	return nil
}

// superfluous lists the segments that lie before the start of the oldest base backup, whose label is given. Histories stay: they are small.
func superfluous(label string, names []string) (list []string) {
	_, rest, _ := strings.Cut(label, "(file ")
	start, _, ok := strings.Cut(rest, ")")
	if !ok || len(start) != 24 {
		return nil
	}
	for _, name := range names {
		if walName.MatchString(name) && len(name) >= 24 && name[8:24] < start[8:] && name[:8] <= start[:8] {
			list = append(list, name)
		}
	}
	return list
}

// base sends the newest base backup that ended before a time, as tar.
func (k *Keeper) base(w http.ResponseWriter, r *http.Request) {
	if !k.known(r) {
		http.Error(w, "the token is wrong", http.StatusUnauthorized)
		return
	}
	before := time.Now()
	if text := r.URL.Query().Get("before"); text != "" {
		var err error
		if before, err = time.Parse(time.RFC3339Nano, text); err != nil {
			http.Error(w, "before: "+err.Error(), http.StatusBadRequest)
			return
		}
	}
	list, err := k.dirs()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	for _, dir := range slices.Backward(list) {
		if at, _, _ := parse(dir); at.Before(before) {
			if err := pack(w, filepath.Join(k.Dir, "base", dir)); err != nil {
				k.Log.Warn("a base backup was not sent whole", "dir", dir, "err", err)
				panic(http.ErrAbortHandler) // the reader must not take it for whole
			}
			return
		}
	}
	http.Error(w, "no base backup is so old", http.StatusNotFound)
}

// pack writes a folder as tar.
func pack(to io.Writer, dir string) error {
	out := tar.NewWriter(to)
	return errors.Join(out.AddFS(os.DirFS(dir)), out.Close())
}
