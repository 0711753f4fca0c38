package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// envtest makes a directory that controller-runtime's envtest takes as its binaries: links to kloop under upstream's
// names, and to the kubectl beside it.
func envtest(_ context.Context, std stdio, args []string) error {
	fs := flags(std, "envtest", "DIR")
	words, err := wordsOf(fs, args, 1, 1)
	if err != nil {
		return err
	}
	dir, err := filepath.Abs(words[0])
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ctl, err := findKubectl()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return advise(err)
	}
	for name, target := range map[string]string{"kube-apiserver": self, "etcd": self, "kubectl": ctl} {
		if err := link(target, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(std.out, "export KUBEBUILDER_ASSETS=%s\n", dir)
	return err
}

// link replaces a link in one step. Anything else that is there stays, and is an error.
func link(target, path string) error {
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSymlink == 0 {
		return fmt.Errorf("%s is there and no link: move it away, or choose another directory", path)
	}
	tmp := path + ".new"
	_ = os.Remove(tmp) // what a killed run may have left
	if err := os.Symlink(target, tmp); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
