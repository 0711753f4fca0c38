package webhook

import (
	"fmt"
	"net/http"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kloop-dev/kloop/strict"
)

// users say who calls webhooks, by the names of users in a kubeconfig: HOST, HOST:PORT, *.DOMAIN or *.
type users struct{ cfg *clientcmdapi.Config }

// readLogins reads the kubeconfig file.
func readLogins(file string) (*users, error) {
	cfg, err := clientcmd.LoadFromFile(file)
	if err != nil {
		return nil, strict.Unquoted(err)
	}
	return &users{cfg}, nil
}

// Login implements Logins.
func (l *users) Login(host string, port int, t *http.Transport) (http.RoundTripper, error) {
	user := l.user(host, port)
	if user == nil {
		return t, nil
	}
	cfg, err := clientcmd.NewDefaultClientConfig(clientcmdapi.Config{AuthInfos: map[string]*clientcmdapi.AuthInfo{"u": user},
		Clusters: map[string]*clientcmdapi.Cluster{"c": {Server: "https://" + host}},
		Contexts: map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}}, CurrentContext: "x"}, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("who calls the webhook at %s: %w", host, err)
	}
	conf, err := rest.TLSConfigFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("who calls the webhook at %s: %w", host, err)
	}
	if conf != nil {
		t.TLSClientConfig.Certificates, t.TLSClientConfig.GetClientCertificate = conf.Certificates, conf.GetClientCertificate
	}
	return rest.HTTPWrappersForConfig(cfg, t)
}

// user is the most exact one: the name with its port (443 may be left out), then wildcards for its first parts, then *.
func (l *users) user(host string, port int) *clientcmdapi.AuthInfo {
	tries := []string{fmt.Sprintf("%s:%d", host, port)}
	if port == 443 {
		tries = append([]string{host}, tries...)
	}
	parts := strings.Split(host, ".")
	for i := 1; i < len(parts); i++ {
		wild := "*." + strings.Join(parts[i:], ".")
		if port == 443 {
			tries = append(tries, wild)
		}
		tries = append(tries, fmt.Sprintf("%s:%d", wild, port))
	}
	for _, name := range append(tries, "*") {
		if u := l.cfg.AuthInfos[name]; u != nil {
			return u
		}
	}
	return nil
}
