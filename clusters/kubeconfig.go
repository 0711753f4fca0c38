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
	if err != nil {
		return "", fmt.Errorf("find the kubeconfig: %w: set HOME, or name a file with --kubeconfig or KUBECONFIG", err)
	}
	return filepath.Join(home, ".kube", "config"), nil
}

// Editable says what would keep a cluster's context from going into a kubeconfig, before there is a cluster. It changes nothing.
func Editable(path string) error { return edit(path, nil) }

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

// Refresh puts the administrator's certificate and the authority of now into the kubeconfigs that have the cluster's context: both may be
// exchanged while it runs. What else is there stays.
func (c *Cluster) Refresh() error {
	own, err := c.Kubeconfig()
	if err != nil {
		return err
	}
	name := c.Context()
	for _, k := range c.Keyrings {
		if _, missing := os.Stat(k.Path); missing != nil {
			continue
		}
		err = errors.Join(err, edit(k.Path, func(cfg *clientcmdapi.Config) {
			if cfg.Contexts[name] != nil {
				cfg.Clusters[name], cfg.AuthInfos[name] = own.Clusters[name], own.AuthInfos[name]
			}
		}))
	}
	return err
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

// drop removes a cluster from the kubeconfig, by the name of its context. If that was the current one, the one before is again, if it is
// still there.
func (k Keyring) drop(name string) error {
	if _, err := os.Stat(k.Path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
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
// a link, and the file's owner and mode stay, too. Without a change it goes as far as it can without one.
func edit(path string, change func(*clientcmdapi.Config)) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	if err := edited(path, change); err != nil {
		return fmt.Errorf("%w; then try again, or name another file with --kubeconfig or KUBECONFIG", err)
	}
	return nil
}

func edited(path string, change func(*clientcmdapi.Config)) error {
	fresh, err := makeDir(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("make the directory of the kubeconfig: %w: have it made", err)
	}
	if change == nil && fresh != "" {
		defer os.Remove(fresh)
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
		return fmt.Errorf("read the kubeconfig %s: %w: mend it, or move it away", path, err)
	default:
		mode = info.Mode().Perm()
		if err := writable(path); err != nil {
			return err
		}
	}
	if change == nil {
		return room(path, info)
	}
	change(cfg)
	text, err := clientcmd.Write(*cfg)
	if err != nil {
		return err
	}
	if err := replace(path, text, mode); err != nil {
		return fmt.Errorf("write the kubeconfig: %w: make room for it", err)
	}
	return own(info, path, fresh)
}

// writable refuses to replace a file that its owner has made read-only.
func writable(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("write the kubeconfig: %w: let it be written (chmod u+w)", err)
	}
	return f.Close()
}

// contextSize is more than what a cluster's context takes in a kubeconfig, in bytes.
const contextSize = 16 << 10

// room sees whether there is room for a context more.
func room(path string, info fs.FileInfo) error {
	size := contextSize
	if info != nil {
		size += int(info.Size())
	}
	probe := path + ".lock.room"
	err := replace(probe, make([]byte, size), 0o600)
	if err != nil {
		return fmt.Errorf("write the kubeconfig: %w: make room for it", err)
	}
	return os.Remove(probe)
}

// takeLock makes kubectl's lock file; one that is left by a process that was killed must be removed by hand, as kubectl says too.
func takeLock(lock string) error {
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		f, err := os.OpenFile(lock, os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			return f.Close()
		}
		switch {
		case !errors.Is(err, fs.ErrExist):
			return fmt.Errorf("lock the kubeconfig: %w: let its directory be written", err)
		case time.Now().After(end):
			return fmt.Errorf("lock the kubeconfig: %w: if nobody else changes it, remove that file", err)
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
