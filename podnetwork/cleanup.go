package podnetwork

import (
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kloop-dev/kloop/nft"
)

// Cleanup takes everything of the pod network from the kernel of this thread's network namespace, and the CNI configuration of the file,
// so that another program can make the network. The bridge stays as long as a pod hangs on it. Doing it twice is no error.
func Cleanup(file string, log *slog.Logger) error {
	k, err := openKernel(log)
	if err != nil {
		return err
	}
	defer k.close()
	var errs []error
	switch err := os.Remove(file); {
	case err == nil: // else the bridge may be another's: flannel's has the same name
		errs = append(errs, k.dropBridge())
	case !errors.Is(err, os.ErrNotExist):
		errs = append(errs, fmt.Errorf("remove the CNI configuration: %w", err))
	}
	have, err := k.observe()
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	k.bringRoutes(state{}, have, func(what any, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("remove the route to %v: %w", what, err))
		}
	})
	return errors.Join(append(errs, k.drop(Tunnel), k.drop(Secret), unmask())...)
}

// dropBridge removes the bridge if it is of our making and nothing hangs on it.
func (k *kernel) dropBridge() error {
	l, err := k.link(Bridge)
	if err != nil || l == nil {
		return err
	}
	all, err := dump(k.h.LinkList)
	if err != nil {
		return fmt.Errorf("list the links: %w", err)
	}
	for _, o := range all {
		if o.Attrs().MasterIndex == l.Attrs().Index {
			return nil
		}
	}
	if _, ok := l.(*netlink.Bridge); !ok {
		return nil
	}
	if err := k.h.LinkDel(l); err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("remove the bridge %s: %w", Bridge, err)
	}
	return nil
}

// unmask removes the rules that let pods out.
func unmask() error {
	c, err := nft.Open()
	if err != nil {
		return err
	}
	defer c.Close()
	for _, t := range tables {
		there, err := c.Exists(t)
		if err == nil && there {
			err = program(c, t, nil, nil, false)
		}
		if err != nil {
			return fmt.Errorf("remove the rules that let pods out: %w", err)
		}
	}
	return nil
}
