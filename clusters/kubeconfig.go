package clusters

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Keys is the kubeconfig that a new cluster's context goes into: the first of $KUBECONFIG, or that of the user who is at the keyboard, also
// behind sudo.
func Keys() (string, error) {
	for _, path := range filepath.SplitList(os.Getenv("KUBECONFIG")) {
		if path != "" {
			return filepath.Abs(path)
		}
	}
	home, err := os.UserHomeDir()
	if uid, _, ok := sudoer(); ok {
		if h := homeOf(uid); h != "" {
			home, err = h, nil
		}
	}
	return filepath.Join(home, ".kube", "config"), err
}

// sudoer is the user who called root.
func sudoer() (uid, gid int, ok bool) {
	uid, err1 := strconv.Atoi(os.Getenv("SUDO_UID"))
	gid, err2 := strconv.Atoi(os.Getenv("SUDO_GID"))
	return uid, gid, err1 == nil && err2 == nil && os.Getuid() == 0 && uid != 0
}

// Merge puts the cluster's context into a kubeconfig and makes it the current one. Other entries stay; comments do not.
func (c *Cluster) Merge(path string) error {
	own, err := c.Kubeconfig()
	if err != nil {
		return err
	}
	name := c.Context()
	k := Keyring{Path: path}
	err = edit(path, func(cfg *clientcmdapi.Config) {
		cfg.Clusters[name], cfg.AuthInfos[name], cfg.Contexts[name] = own.Clusters[name], own.AuthInfos[name], own.Contexts[name]
		if k.Previous = cfg.CurrentContext; k.Previous == name {
			k.Previous = ""
		}
		cfg.CurrentContext = name
	})
	if err != nil {
		return err
	}
	for i, known := range c.Keyrings {
		if known.Path == path {
			c.Keyrings[i].Previous = k.Previous
			return c.save()
		}
	}
	c.Keyrings = append(c.Keyrings, k)
	return c.save()
}

// Kubeconfig is an administrator's, as the machine reaches the cluster, with the cluster's own names.
func (c *Cluster) Kubeconfig() (*clientcmdapi.Config, error) {
	all, err := clientcmd.LoadFromFile(c.Admin())
	if err != nil {
		return nil, fmt.Errorf("read the administrator's kubeconfig: %w", err)
	}
	from := all.Contexts[all.CurrentContext]
	if from == nil || all.Clusters[from.Cluster] == nil || all.AuthInfos[from.AuthInfo] == nil {
		return nil, fmt.Errorf("%s has no current context", c.Admin())
	}
	name, cfg := c.Context(), clientcmdapi.NewConfig()
	cfg.Clusters[name], cfg.AuthInfos[name] = all.Clusters[from.Cluster], all.AuthInfos[from.AuthInfo]
	cfg.Clusters[name].Server = c.Server()
	cfg.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	cfg.CurrentContext = name
	return cfg, nil
}

// takeOut removes the cluster from a kubeconfig. If its context was the current one, the one before is again, if it is still there.
func (c *Cluster) takeOut(k Keyring) error {
	if _, err := os.Stat(k.Path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	name := c.Context()
	return edit(k.Path, func(cfg *clientcmdapi.Config) {
		delete(cfg.Clusters, name)
		delete(cfg.AuthInfos, name)
		delete(cfg.Contexts, name)
		if cfg.CurrentContext != name {
			return
		}
		cfg.CurrentContext = ""
		if cfg.Contexts[k.Previous] != nil {
			cfg.CurrentContext = k.Previous
		}
	})
}

// edit changes a kubeconfig under the lock that kubectl takes too, and replaces it whole: readers see the old or the new one. A link stays
// a link, and the file's owner and mode stay, too.
func edit(path string, change func(*clientcmdapi.Config)) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	fresh, err := makeDir(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("make the directory of the kubeconfig: %w", err)
	}
	lock := path + ".lock"
	if err := takeLock(lock); err != nil {
		return err
	}
	defer os.Remove(lock)
	cfg, err := clientcmd.LoadFromFile(path)
	mode := fs.FileMode(0o600)
	info, missing := os.Stat(path)
	switch {
	case errors.Is(missing, fs.ErrNotExist):
		cfg = clientcmdapi.NewConfig()
	case err != nil:
		return fmt.Errorf("read the kubeconfig: %w", err)
	default:
		mode = info.Mode().Perm()
	}
	change(cfg)
	text, err := clientcmd.Write(*cfg)
	if err != nil {
		return err
	}
	if err := replace(path, text, mode); err != nil {
		return fmt.Errorf("write the kubeconfig: %w", err)
	}
	return own(info, path, fresh)
}

// takeLock makes kubectl's lock file; one that is left by a process that was killed must be removed by hand, as kubectl says too.
func takeLock(lock string) error {
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		f, err := os.OpenFile(lock, os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			return f.Close()
		}
		if !errors.Is(err, fs.ErrExist) || time.Now().After(end) {
			return fmt.Errorf("lock the kubeconfig (if nobody else changes it, remove %s): %w", lock, err)
		}
	}
}

// makeDir makes the directory, and returns its path if it was not there.
func makeDir(dir string) (fresh string, err error) {
	if _, err := os.Stat(dir); err == nil {
		return "", nil
	}
	return dir, os.MkdirAll(dir, 0o755)
}
