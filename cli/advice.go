package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kloop-dev/kloop/store/etcd"
)

// advise adds to an error what to do about it, in the words of the command line.
func advise(err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w: something else listens there, perhaps another kloop; stop it or choose another address with --listen", err)
	case errors.Is(err, etcd.ErrInUse):
		return fmt.Errorf("%w: stop the other kloop or choose another directory with --data-dir", err)
	case errors.Is(err, os.ErrPermission), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w: run as root, or choose a directory of your own with --data-dir (or none: --store memory)", err)
	}
	return err
}

// connection reads how to reach a server. There is no default: a command that guesses acts on the wrong cluster.
func connection(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		return nil, errors.New("say how to reach the server with --kubeconfig FILE or KUBECONFIG; kloop up writes one to its data directory")
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	return cfg, nil
}

// restore makes a data directory out of a snapshot.
func restore(_ context.Context, std stdio, args []string) error {
	fs := flags(std, "restore")
	dir := fs.String("data-dir", "/var/lib/kloop", "directory of keys, certificates and the store; must hold no store")
	if err := fs.Parse(args); err != nil || fs.NArg() != 1 {
		fmt.Fprintln(std.err, "usage: kloop restore [--data-dir DIR] SNAPSHOT")
		return errUsage
	}
	if err := etcd.Restore(fs.Arg(0), *dir+"/etcd"); err != nil {
		return advise(err)
	}
	_, err := fmt.Fprintf(std.out, "restored to %s; kloop up --data-dir %s goes on from there\n", *dir, *dir)
	return err
}
