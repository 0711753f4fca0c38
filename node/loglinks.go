package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
)

// linkDir holds a link to the log of every container, by a name that tells whose it is: log shippers (fluent-bit, promtail, vector)
// follow that directory. It is /var/log/containers beside /var/log/pods.
func (c *common) linkDir() string { return filepath.Join(filepath.Dir(c.cfg.LogDir), "containers") }

// maxFileName is the length of a file's name, in bytes.
const maxFileName = 255

// linkLog makes the link to a container's log.
func (c *common) linkLog(pod *corev1.Pod, name, id, log string) error {
	if err := os.MkdirAll(c.linkDir(), 0o755); err != nil {
		return fmt.Errorf("make the directory of links to logs: %w", err)
	}
	end := "-" + id + ".log"
	file := pod.Name + "_" + pod.Namespace + "_" + name
	file = file[:min(len(file), maxFileName-len(end))] + end
	err := os.Symlink(log, filepath.Join(c.linkDir(), file))
	if err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("link the container's log: %w", err)
	}
	return nil
}

// unlinkLog removes the link to the log of a container that is removed.
func (c *common) unlinkLog(id string) error {
	list, err := filepath.Glob(filepath.Join(c.linkDir(), "*-"+id+".log"))
	if err != nil {
		return err
	}
	for _, path := range list {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove the link to the container's log: %w", err)
		}
	}
	return nil
}

// unlinkLogs removes the links to logs of pods that are gone. A log's directory tells: the log itself is away for a moment whenever it is
// rotated.
func (c *common) unlinkLogs() error {
	entries, err := os.ReadDir(c.linkDir())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for links to logs that are gone: %w", err)
	}
	var errs []error
	for _, e := range entries {
		path := filepath.Join(c.linkDir(), e.Name())
		to, err := os.Readlink(path)
		if err != nil || !within(c.cfg.LogDir, to) {
			continue // somebody else's
		}
		if _, err := os.Stat(filepath.Dir(to)); !errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) { // several pods are cleaned up at once
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// within says that the path lies below the directory.
func within(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}
