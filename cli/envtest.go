package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/kloop-dev/kloop/features"
)

// envtest makes a directory that controller-runtime's envtest takes as its binaries: links to kloop under upstream's
// names, and to a kubectl if there is one, which only few suites need.
func envtest(_ context.Context, std stdio, args []string) error {
	if len(args) > 0 && args[0] == "use" {
		return envtestUse(std, args[1:])
	}
	fs := flags(std, "envtest", "DIR")
	words, err := wordsOf(fs, args, 1, 1)
	if err != nil {
		return err
	}
	dir, err := assets(std, words[0])
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(std.out, "export KUBEBUILDER_ASSETS=%s\n", dir)
	return err
}

// setupEnvtest answers to the name of the tool that downloads upstream's binaries, as the Makefiles of scaffolds call it.
func setupEnvtest(ctx context.Context, std stdio, args []string) error {
	if len(args) == 0 || args[0] != "use" {
		return errors.New("kloop stands in for setup-envtest use alone: there is nothing to download, to list or to clean up")
	}
	return envtest(ctx, std, args)
}

// envtestUse is setup-envtest use: the same layout, in which kubebuilder's scaffolds look for binaries by themselves.
func envtestUse(std stdio, args []string) error {
	fs := flags(std, "envtest use", "[VERSION]")
	bin := fs.String("bin-dir", "bin", "the directory is k8s/VERSION-OS-ARCH in this one")
	print := "overview"
	fs.StringVar(&print, "p", print, "what to print: path, env or overview")
	fs.StringVar(&print, "print", print, "the same")
	for _, name := range []string{"i", "installed-only"} {
		fs.Bool(name, true, "without effect: nothing is downloaded")
	}
	words, err := wordsOf(fs, args, 0, 1)
	if err != nil {
		return err
	}
	if len(words) > 0 && !isRelease(words[0]) {
		fmt.Fprintf(std.err, "kloop is Kubernetes %s, and %s was asked for; docs/testing.md says how it emulates the release before\n",
			features.Release, words[0])
	}
	dir, err := assets(std, filepath.Join(*bin, "k8s", features.Release+"-"+runtime.GOOS+"-"+runtime.GOARCH))
	if err != nil {
		return err
	}
	switch print {
	case "path":
		_, err = fmt.Fprint(std.out, dir)
	case "env":
		_, err = fmt.Fprintf(std.out, "export KUBEBUILDER_ASSETS='%s'\n", dir)
	default:
		_, err = fmt.Fprintf(std.out, "Version: %s\nOS/Arch: %s/%s\nPath: %s\n", features.Release, runtime.GOOS, runtime.GOARCH, dir)
	}
	return err
}

// isRelease says whether a version as setup-envtest takes it, 1.37, 1.37.x, v1.37.2, ~1.37.1 or latest, can mean kloop's.
func isRelease(version string) bool {
	version = strings.TrimLeft(strings.TrimSuffix(version, "!"), "v~")
	minor, _, _ := strings.Cut(strings.TrimPrefix(version, "1."), ".")
	return version == "latest" || minor == fmt.Sprint(features.Newest)
}

// assets makes the directory and returns its absolute path.
func assets(std stdio, dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("%w: choose a directory of your own", err)
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if !lasting(self) {
		if self, err = keep(self, filepath.Join(dir, "kloop"+exe)); err != nil {
			return "", fmt.Errorf("keep the program: %w", err)
		}
	}
	links := map[string]string{"kube-apiserver": self, "etcd": self}
	if links["kubectl"], err = findKubectl(); err != nil {
		fmt.Fprintln(std.err, "there is no kubectl, so the directory has none; a suite that calls it needs one on the path now")
		delete(links, "kubectl")
	}
	for name, target := range links {
		if err := link(target, filepath.Join(dir, name+exe)); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// lasting says whether a program's file stays: go run's does not.
func lasting(path string) bool {
	for part := range strings.SplitSeq(filepath.ToSlash(path), "/") {
		if strings.HasPrefix(part, "go-build") {
			return false
		}
	}
	return true
}

// keep gives a file a second name, on another disk by copying it.
func keep(path, name string) (string, error) {
	tmp := name + ".new"
	_ = os.Remove(tmp) // what a killed run may have left
	if os.Link(path, tmp) != nil {
		if err := duplicate(path, tmp); err != nil {
			return "", err
		}
	}
	return name, os.Rename(tmp, name)
}

func duplicate(path, to string) error {
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	f, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}

// link replaces a link in one step. Anything else that is there stays, and is an error. Where links need rights of their own, as on
// Windows, the file gets a second name instead.
func link(target, path string) error {
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSymlink == 0 && !same(target, path) {
		return fmt.Errorf("%s is there and no link: move it away, or choose another directory", path)
	}
	tmp := path + ".new"
	_ = os.Remove(tmp) // what a killed run may have left
	if os.Symlink(target, tmp) != nil {
		if _, err := keep(target, path); err != nil {
			return err
		}
		return nil
	}
	return os.Rename(tmp, path)
}

// same says whether two names are of one file.
func same(a, b string) bool {
	x, err1 := os.Stat(a)
	y, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}
