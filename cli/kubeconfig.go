package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/auth/pki"
)

// kubeconfig prints a kubeconfig with a client certificate of the data directory's authority.
func kubeconfig(_ context.Context, std stdio, args []string) error {
	fs := flags(std, "kubeconfig", "--user NAME | --node NAME")
	dir := fs.String("data-dir", "/var/lib/kloop", "directory of the cluster's keys")
	server := fs.String("server", "", "address of the API (default: that of the server in the data directory)")
	user := fs.String("user", "", "name of the user")
	node := fs.String("node", "", "name of a node: the certificate is also good for its agent's own API")
	address := fs.String("address", "", "address of the node")
	life := fs.Duration("life", 365*24*time.Hour, "how long the certificate is good")
	var groups words
	fs.Var(&groups, "group", "a group of the user, one flag each")
	if err := parse(fs, args); err != nil {
		return err
	}
	leaf := pki.Leaf{User: *user, Groups: groups, Client: true, Life: *life}
	switch {
	case (*user == "") == (*node == ""):
		return misuse("say whom it is for: --user NAME or --node NAME, not both")
	case *node != "":
		leaf.User, leaf.Groups, leaf.Server = "system:node:"+*node, append(groups, auth.GroupNodes), true
		leaf.Hosts = []string{*node, "127.0.0.1"}
		if *address != "" {
			leaf.Hosts = append(leaf.Hosts, *address)
		}
	}
	if err := keysOf(*dir); err != nil {
		return err
	}
	keys, err := pki.Open(pki.Config{Dir: filepath.Join(*dir, "pki")})
	if err != nil {
		return err
	}
	if *server == "" {
		*server = serverOf(*dir)
	}
	cert, key, err := keys.CA.Issue(leaf, time.Now())
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(std.out, "%s", pki.Kubeconfig(*server, keys.CA.PEM(), cert, key))
	return err
}

// serverOf is the address that the server of a data directory wrote into its administrator's kubeconfig; the default one if it never ran.
func serverOf(dir string) string {
	cfg, err := clientcmd.LoadFromFile(filepath.Join(dir, "admin.kubeconfig"))
	if err == nil && cfg.Contexts[cfg.CurrentContext] != nil {
		if c := cfg.Clusters[cfg.Contexts[cfg.CurrentContext].Cluster]; c != nil && c.Server != "" {
			return c.Server
		}
	}
	return "https://127.0.0.1:6443"
}
