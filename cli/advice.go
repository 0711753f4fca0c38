package cli

import (
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/store/etcd"
)

// advise adds to an error what to do about it, in the words of the command line.
func advise(err error) error {
	switch {
	case errors.Is(err, cluster.ErrAgentPort):
		return fmt.Errorf(
			"%w: this machine is a node already, of kloop or another Kubernetes; stop that one, run without a node (--node none), give "+
				"kloop node another --port, or make a cluster with a network of its own (kloop create)", err)
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w: something else listens there, perhaps another kloop; stop it or choose another address with --listen", err)
	case errors.Is(err, etcd.ErrInUse):
		return fmt.Errorf("%w: stop the other kloop or choose another directory with --data-dir", err)
	case errors.Is(err, os.ErrPermission), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w: run as root, or choose a directory of your own with --data-dir (or none: --store memory)", err)
	}
	return err
}

// outOfTime adds to an error that a certificate is not good yet, or no more, where to look: it may be the clock.
func outOfTime(err error) error {
	var cert x509.CertificateInvalidError
	if !errors.As(err, &cert) || cert.Reason != x509.Expired {
		return err
	}
	return fmt.Errorf("%w: look at the clocks of this machine (date) and of the server; kloop certs list, on the server's machine, "+
		"tells of the certificates", err)
}

// keysOf says why the keys of a data directory's cluster can't be had, if they can't.
func keysOf(dir string) error {
	_, err := os.Stat(filepath.Join(dir, "pki", "ca.key"))
	switch {
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("the cluster in %s is another user's: use sudo: %w", dir, err)
	case err != nil:
		return fmt.Errorf("there is no cluster in %s: start one (kloop up), or name its directory with --data-dir: %w", dir, err)
	}
	return nil
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
