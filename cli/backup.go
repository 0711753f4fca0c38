package cli

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/store/etcd"
)

// Names in a backup that holds keys too.
const (
	backupFormat = "format.json" // first, so that nothing of a backup that is too new is touched
	backupStore  = "snapshot.db"
	backupKeys   = "pki"
)

// backup saves the store of a server to a file: of one that runs, or of the data directory of one that is stopped.
func backup(ctx context.Context, std stdio, args []string) error {
	fs := flags(std, "backup", "FILE")
	config := fs.String("kubeconfig", "", "how to reach a running server, as an administrator (default: $KUBECONFIG)")
	dir := fs.String("data-dir", "", "directory of a server on this machine, running or not (default: "+localData+
		", if there is a store, and else the cluster that other commands speak to)")
	keys := fs.Bool("keys", false, "save the cluster's keys as well; the file is a tar archive then, and opens the cluster to who reads it")
	words, err := wordsOf(fs, args, 1, 1)
	if err != nil {
		return err
	}
	to := words[0]
	if *keys && *config != "" {
		return misuse("keys are saved on the server's own machine only: leave --kubeconfig away and name its --data-dir")
	}
	from, where, err := backupOf(*config, *dir, *keys)
	if err != nil {
		return err
	}
	plain := to
	if *keys {
		plain = to + ".store"
		defer os.Remove(plain)
	}
	if err := saveStore(ctx, plain, from, where); err != nil {
		return advise(err)
	}
	if err := etcd.CheckSnapshot(plain); err != nil {
		return errors.Join(err, os.Remove(plain))
	}
	if *keys {
		if err := cluster.SaveSnapshot(to, func(w io.Writer) error { return pack(w, plain, filepath.Join(where, backupKeys)) }); err != nil {
			return err
		}
	}
	info, err := os.Stat(to)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(std.out, "saved %d bytes of %s to %s; kloop restore makes a data directory of it\n", info.Size(),
		source(from, where), to)
	return err
}

// localData is the directory of this machine's server, unless it was given another.
const localData = "/var/lib/kloop"

// backupOf finds the store to be saved: named by flags, or by $KUBECONFIG, or on this machine, or of the cluster that other commands speak
// to. A server that is asked has a configuration, one whose directory is read has none.
func backupOf(config, dir string, keys bool) (from *rest.Config, where string, err error) {
	if dir != "" && config == "" {
		return nil, dir, nil
	}
	_, missing := os.Stat(filepath.Join(localData, "etcd", "member"))
	if keys || config == "" && os.Getenv("KUBECONFIG") == "" && missing == nil {
		return nil, localData, nil
	}
	if _, from, err = chosen(config, ""); err != nil && config == "" {
		err = fmt.Errorf("%w; or run this where the server is, and name its directory with --data-dir", err)
	}
	return from, "", err
}

// source names what was saved.
func source(from *rest.Config, dir string) string {
	if from != nil {
		return from.Host
	}
	return dir
}

// saveStore asks a running server, or reads the data directory itself.
func saveStore(ctx context.Context, to string, from *rest.Config, dir string) error {
	if from != nil {
		return download(ctx, to, from)
	}
	if _, err := os.Stat(filepath.Join(dir, "etcd", "member")); err != nil {
		return fmt.Errorf("there is no store in %s: name the directory of a server with --data-dir, or a running one with --kubeconfig: %w",
			dir, err)
	}
	st, err := etcd.Open(ctx, etcd.Config{Dir: filepath.Join(dir, "etcd")}) // replays what the database file may lack
	if errors.Is(err, etcd.ErrInUse) {
		cfg, err := connection(filepath.Join(dir, "admin.kubeconfig"))
		if err != nil {
			return err
		}
		return download(ctx, to, cfg)
	}
	if err != nil {
		return err
	}
	defer st.Close()
	return cluster.SaveSnapshot(to, func(w io.Writer) error { return st.Snapshot(ctx, w) })
}

func download(ctx context.Context, to string, cfg *rest.Config) error {
	door, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return err
	}
	res, err := kloopPage(ctx, door, http.MethodGet, cfg.Host, cluster.SnapshotPath)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return cluster.SaveSnapshot(to, func(w io.Writer) error { _, err := io.Copy(w, res.Body); return err })
}

// pack writes the archive: who wrote it in which format, the store, then the keys.
func pack(w io.Writer, store, keys string) error {
	note, err := os.MkdirTemp("", "kloop-backup-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(note)
	if err := cluster.NoteFormat(note); err != nil {
		return err
	}
	out := tar.NewWriter(w)
	if err := errors.Join(addFile(out, backupFormat, filepath.Join(note, backupFormat)), addFile(out, backupStore, store)); err != nil {
		return err
	}
	err = filepath.WalkDir(keys, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(keys, path)
		if err != nil {
			return err
		}
		return addFile(out, backupKeys+"/"+filepath.ToSlash(name), path)
	})
	return errors.Join(err, out.Close())
}

func addFile(out *tar.Writer, name, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := out.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: info.Size(), ModTime: time.Now(),
		Format: tar.FormatPAX}); err != nil {
		return err
	}
	_, err = io.Copy(out, f)
	return err
}

// restore makes a data directory out of a backup.
func restore(_ context.Context, std stdio, args []string) error {
	fs := flags(std, "restore", "FILE")
	dir := fs.String("data-dir", "/var/lib/kloop", "directory of keys, certificates and the store; must hold no store")
	words, err := wordsOf(fs, args, 1, 1)
	if err != nil {
		return err
	}
	from := words[0]
	archive, err := isArchive(from)
	if err != nil {
		return advise(err)
	}
	if archive {
		if from, err = unpackBackup(from, *dir); err != nil {
			return advise(err)
		}
		defer os.Remove(from)
	}
	if err := etcd.Restore(from, filepath.Join(*dir, "etcd")); err != nil {
		return advise(err)
	}
	_, err = fmt.Fprintf(std.out, "restored to %s; kloop up --data-dir %s goes on from there, as the only server\n", *dir, *dir)
	return err
}

// isArchive says that the file is a tar archive, not the store alone.
func isArchive(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	head, err := bufio.NewReaderSize(f, 512).Peek(512)
	if err != nil {
		return false, nil // too short to be one; restoring says what is wrong
	}
	return string(head[257:262]) == "ustar", nil
}

// backupCA is the key of the cluster's authority: a data directory that has it has keys of its own.
const backupCA = backupKeys + "/ca.key"

// unpackBackup puts the keys into the data directory, if they are not there, and the store into a file whose name it returns. Keys are
// written when all of the backup was read, that of the authority last: what was cut short is done again as a whole.
func unpackBackup(path, dir string) (store string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	store = filepath.Join(dir, "restore.db")
	keys, err := readBackup(path, f, store)
	if _, keyless := os.Stat(filepath.Join(dir, backupCA)); err == nil && keyless != nil {
		err = putKeys(dir, keys)
	}
	if err != nil {
		return "", errors.Join(err, removeIfThere(store))
	}
	return store, nil
}

// readBackup reads an archive: the store goes to a file, the keys are returned by their names.
func readBackup(path string, f io.Reader, store string) (keys map[string][]byte, err error) {
	const largest = 1 << 20 // of a file of keys
	keys = map[string][]byte{}
	for in := tar.NewReader(f); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return keys, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		name := filepath.ToSlash(filepath.Clean(h.Name))
		switch {
		case name == backupFormat:
			err = checkBackup(path, in)
		case name == backupStore:
			err = cluster.SaveSnapshot(store, func(w io.Writer) error { _, err := io.Copy(w, in); return err })
		case !strings.HasPrefix(name, backupKeys+"/") || !filepath.IsLocal(name) || h.Size > largest:
			err = fmt.Errorf("%s is not a backup of kloop: it holds %q", path, h.Name)
		default:
			keys[name], err = io.ReadAll(in)
		}
		if err != nil {
			return nil, err
		}
	}
}

// putKeys writes the keys of a backup.
func putKeys(dir string, keys map[string][]byte) error {
	names := slices.Sorted(maps.Keys(keys))
	if at := slices.Index(names, backupCA); at >= 0 {
		names = append(slices.Delete(names, at, at+1), backupCA)
	}
	for _, name := range names {
		if err := cluster.SaveSnapshot(filepath.Join(dir, filepath.FromSlash(name)), func(w io.Writer) error {
			_, err := w.Write(keys[name])
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

func removeIfThere(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// checkBackup refuses a backup that a newer kloop wrote.
func checkBackup(path string, note io.Reader) error {
	dir, err := os.MkdirTemp("", "kloop-restore-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	text, err := io.ReadAll(io.LimitReader(note, 64<<10))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, backupFormat), text, 0o600)
	}
	if err == nil {
		err = cluster.CheckFormat(dir)
	}
	if err != nil {
		return fmt.Errorf("restore %s: %w", path, err)
	}
	return nil
}
