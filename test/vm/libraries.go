//go:build linux

package vm

import (
	"debug/elf"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// libraryDirs has the directories of the dynamic linker of Debian and Ubuntu.
var libraryDirs = []string{"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"}

// linked returns the program's file and those that it is linked with, the linker among them.
func linked(program string) (files []string, err error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return nil, err
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	var add func(path string) error
	add = func(path string) error {
		if seen[path] {
			return nil
		}
		seen[path] = true
		files = append(files, path)
		f, err := elf.Open(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		defer f.Close()
		names, err := f.ImportedLibraries()
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for _, p := range f.Progs {
			if p.Type == elf.PT_INTERP {
				text, err := io.ReadAll(p.Open())
				if err != nil {
					return err
				}
				names = append(names, strings.TrimRight(string(text), "\x00"))
			}
		}
		for _, name := range names {
			library, err := findLibrary(name)
			if err == nil {
				err = add(library)
			}
			if err != nil {
				return fmt.Errorf("for %s: %w", path, err)
			}
		}
		return nil
	}
	return files, add(path)
}

func findLibrary(name string) (string, error) {
	if filepath.IsAbs(name) {
		return name, nil
	}
	for _, dir := range libraryDirs {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no library %s in %s", name, strings.Join(libraryDirs, ", "))
}
