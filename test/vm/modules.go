//go:build linux

package vm

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A module is one file of the kernel's.
type module struct {
	name string
	data []byte // an ELF file
}

// closure returns the modules that are named and those that they depend on, each after what it depends on. Modules that the
// kernel has built in are left out. The files themselves name their dependencies, so no index of depmod's is needed.
func closure(dir string, names []string) (list []module, err error) {
	if len(names) == 0 {
		return nil, nil
	}
	files, err := moduleFiles(dir)
	if err != nil {
		return nil, err
	}
	builtin, err := os.ReadFile(filepath.Join(dir, "modules.builtin"))
	if err != nil {
		return nil, err
	}
	inside := map[string]bool{}
	for line := range strings.Lines(string(builtin)) {
		inside[moduleName(strings.TrimSpace(line))] = true
	}
	seen := map[string]bool{}
	var add func(name string) error
	add = func(name string) error {
		name = strings.ReplaceAll(name, "-", "_")
		if seen[name] || inside[name] {
			return nil
		}
		seen[name] = true
		file := files[name]
		if file == "" {
			return fmt.Errorf("the guest's kernel has no module %q", name)
		}
		data, err := readModule(file)
		if err != nil {
			return err
		}
		depends, err := dependencies(data)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for _, d := range depends {
			// An algorithm that is asked for by its name (libcrc32c asks for crc32c) has a module for every processor.
			if generic := moduleName(d) + "_generic"; files[moduleName(d)] == "" && files[generic] != "" {
				d = generic
			}
			if err := add(d); err != nil {
				return fmt.Errorf("for %s: %w", name, err)
			}
		}
		list = append(list, module{name, data})
		return nil
	}
	for _, name := range names {
		if err := add(name); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// moduleFiles finds the file of each module by its name.
func moduleFiles(dir string) (map[string]string, error) {
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.Contains(d.Name(), ".ko") {
			files[moduleName(path)] = path
		}
		return err
	})
	return files, err
}

// moduleName is the kernel's name of a module, which has no dashes.
func moduleName(path string) string {
	name, _, _ := strings.Cut(filepath.Base(path), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

// readModule unpacks what distributions compress.
func readModule(path string) ([]byte, error) {
	tool := map[string]string{".xz": "xz", ".zst": "zstd", ".gz": "gzip"}[filepath.Ext(path)]
	if tool == "" {
		return os.ReadFile(path)
	}
	data, err := exec.Command(tool, "-dc", path).Output()
	if err != nil {
		return nil, fmt.Errorf("unpack %s: %w", path, err)
	}
	return data, nil
}

// dependencies reads what a module's section .modinfo says must be there before it: what it links with ("depends"), and what it asks
// for by name ("softdep").
func dependencies(data []byte) (names []string, err error) {
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	section := f.Section(".modinfo")
	if section == nil {
		return nil, errors.New("no section .modinfo")
	}
	info, err := section.Data()
	if err != nil {
		return nil, err
	}
	for field := range bytes.SplitSeq(info, []byte{0}) {
		if list, ok := strings.CutPrefix(string(field), "depends="); ok && list != "" {
			names = append(names, strings.Split(list, ",")...)
		}
		if list, ok := strings.CutPrefix(string(field), "softdep=pre:"); ok {
			list, _, _ = strings.Cut(list, "post:")
			for name := range strings.FieldsSeq(list) { // an alias of algorithms stands before their names
				names = append(names, strings.TrimPrefix(name, "crypto-"))
			}
		}
	}
	return names, nil
}
