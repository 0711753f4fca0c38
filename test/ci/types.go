package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A listed package is an answer of go list.
type listed struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string
	Module          *struct {
		Main      bool
		GoVersion string
	}
}

// typeCheck compiles the packages for another system as far as their types: of this module whole, of all others what they declare. That
// finds what a build would but for the linker's errors, without generating code.
func typeCheck(goos, arch string, patterns ...string) error {
	cmd := exec.Command("go", append([]string{"list", "-deps", "-json=ImportPath,Dir,GoFiles,ImportMap,Module"}, patterns...)...)
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+arch, "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("list packages for %s/%s: %w", goos, arch, err)
	}
	done := typed{"unsafe": types.Unsafe}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; { // what others import comes first
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("list packages for %s/%s: %w", goos, arch, err)
		}
		if p.ImportPath == "unsafe" {
			continue
		}
		if done[p.ImportPath], err = p.check(done, types.SizesFor("gc", arch)); err != nil {
			return fmt.Errorf("types for %s/%s: %w", goos, arch, err)
		}
	}
}

// typed are the packages that were checked, by path.
type typed map[string]*types.Package

// An inside is the way in which one package sees the others.
type inside struct {
	done typed
	own  map[string]string // paths by which it imports others, where they are not theirs
}

// Import implements types.Importer.
func (i inside) Import(path string) (*types.Package, error) {
	if real, ok := i.own[path]; ok {
		path = real
	}
	if p := i.done[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%s was not listed", path)
}

// check returns a package's types, or all that is wrong with a package of this module.
func (p listed) check(done typed, sizes types.Sizes) (*types.Package, error) {
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range p.GoFiles {
		if !filepath.IsAbs(name) {
			name = filepath.Join(p.Dir, name)
		}
		f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	ours := p.Module != nil && p.Module.Main
	var errs []error
	conf := types.Config{Importer: inside{done, p.ImportMap}, Sizes: sizes, IgnoreFuncBodies: !ours,
		Error: func(err error) { errs = append(errs, err) }}
	if p.Module != nil && p.Module.GoVersion != "" {
		conf.GoVersion = "go" + strings.TrimPrefix(p.Module.GoVersion, "go")
	}
	pkg, _ := conf.Check(p.ImportPath, fset, files, nil) // its error is the first of errs
	if !ours {
		errs = nil // what is not used of others for want of their functions' bodies is no matter of ours
	}
	return pkg, errors.Join(errs...)
}
