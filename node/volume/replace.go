package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// dataLink is the one symlink that decides what a volume shows: it points at a directory with all files, and every
// file's name at the top of the volume is a symlink through it. Replacing it replaces all files at once.
const dataLink = "..data"

// replace makes the volume at path show exactly the given files. A reader sees either all old or all new ones; a
// crash in between leaves one or the other.
func replace(path string, files map[string]file, group *int64) error {
	for name := range files {
		if err := checkName(name); err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp(path, ".."+time.Now().UTC().Format("2006_01_02_15_04_05.")) // every name with .. is ours
	if err != nil {
		return err
	}
	if err := fillDir(dir, files, group); err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	if err := swap(path, filepath.Base(dir), group); err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	if err := link(path, files, group); err != nil {
		return err
	}
	if group != nil {
		if err := give(path, group, fs.ModePerm|fs.ModeSetgid); err != nil {
			return err
		}
	}
	return sweep(path, filepath.Base(dir), files)
}

// checkName refuses names that lead out of the volume or into its mechanics.
func checkName(name string) error {
	if !filepath.IsLocal(name) || hasDots(name) || strings.HasPrefix(name, "..") || len(name) > 4096 {
		return fmt.Errorf("%q can't be a file of a volume", name)
	}
	return nil
}

func fillDir(dir string, files map[string]file, group *int64) error {
	const open = 0o755
	if err := give(dir, group, open); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f, path := files[name], filepath.Join(dir, name)
		for _, d := range parents(name) {
			if err := os.Mkdir(filepath.Join(dir, d), open); err != nil && !errors.Is(err, os.ErrExist) {
				return err
			}
			if err := give(filepath.Join(dir, d), group, open); err != nil {
				return err
			}
		}
		if err := os.WriteFile(path, f.data, 0o600); err != nil {
			return err
		}
		if f.user >= 0 {
			if err := os.Lchown(path, f.user, -1); err != nil {
				return err
			}
		}
		if err := give(path, group, f.mode); err != nil {
			return err
		}
	}
	return nil
}

// give sets the group and then the mode, which a change of owner may clear bits of.
func give(path string, group *int64, mode fs.FileMode) error {
	if group != nil {
		if err := os.Lchown(path, -1, int(*group)); err != nil {
			return err
		}
		if info, err := os.Lstat(path); err == nil && info.IsDir() {
			mode |= fs.ModeSetgid | 0o550
		}
	}
	return os.Chmod(path, mode)
}

// parents lists the directories of a file's name from the top: a/b for a/b/c is a, a/b.
func parents(name string) (list []string) {
	for d := filepath.Dir(filepath.Clean(name)); d != "."; d = filepath.Dir(d) {
		list = append(list, d)
	}
	slices.Reverse(list)
	return list
}

func swap(path, dir string, group *int64) error {
	tmp := filepath.Join(path, "..data_tmp")
	if err := os.Remove(tmp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Symlink(dir, tmp); err != nil {
		return err
	}
	if err := belong(tmp, -1, group); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(path, dataLink))
}

// link makes the names at the top of the volume.
func link(path string, files map[string]file, group *int64) error {
	for name := range tops(files) {
		to, at := filepath.Join(dataLink, name), filepath.Join(path, name)
		if now, err := os.Readlink(at); err == nil && now == to {
			continue
		}
		if err := os.RemoveAll(at); err != nil {
			return err
		}
		if err := os.Symlink(to, at); err != nil {
			return err
		}
		user := -1
		if f, ok := files[name]; ok {
			user = f.user
		}
		if err := belong(at, user, group); err != nil {
			return err
		}
	}
	return nil
}

// belong gives a link to whom the file has that it leads to.
func belong(link string, user int, group *int64) error {
	if group == nil && user < 0 {
		return nil
	}
	gid := -1
	if group != nil {
		gid = int(*group)
	}
	return os.Lchown(link, user, gid)
}

func tops(files map[string]file) map[string]bool {
	m := map[string]bool{}
	for name := range files {
		top, _, _ := strings.Cut(filepath.Clean(name), "/")
		m[top] = true
	}
	return m
}

// sweep removes what the volume no longer shows, and what a crash left behind.
func sweep(path, keep string, files map[string]file) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	wanted := tops(files)
	var errs []error
	for _, e := range entries {
		if n := e.Name(); n != keep && n != dataLink && !wanted[n] {
			errs = append(errs, os.RemoveAll(filepath.Join(path, n)))
		}
	}
	return errors.Join(errs...)
}
