package webhook

import (
	"errors"
	"net/http"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Ways lead to the servers that kubeconfigs name. The zero value leads nowhere: a program that is never given such a file does not link
// what reads one, logs in as it says, and connects.
type Ways struct {
	Read   func(kubeconfig string) (*rest.Config, error) // "": the service account of the pod that this process runs in
	Client func(cfg *rest.Config) (*http.Client, error)
	Logins func(kubeconfig string) (Logins, error)
}

// Logins say who calls webhooks.
type Logins interface {
	// Login is for Caller.
	Login(host string, port int, t *http.Transport) (http.RoundTripper, error)
}

// Kubeconfigs are the ways of Kubernetes' clients.
func Kubeconfigs() Ways {
	return Ways{Client: rest.HTTPClientFor,
		Read:   func(file string) (*rest.Config, error) { return clientcmd.BuildConfigFromFlags("", file) },
		Logins: func(file string) (Logins, error) { return readLogins(file) }}
}

var errNoWays = errors.New("this program calls no servers that kubeconfigs name")

// ReadLogins reads who calls webhooks from the users of a kubeconfig.
func (w Ways) ReadLogins(kubeconfig string) (Logins, error) {
	if w.Logins == nil {
		return nil, errNoWays
	}
	return w.Logins(kubeconfig)
}
