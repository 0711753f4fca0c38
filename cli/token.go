package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/auth/pki"
	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/node/credential"
)

// token prints what lets another server, or a node, join this one's cluster.
func token(ctx context.Context, std stdio, args []string) error {
	fs := flags(std, "token", "")
	dir := fs.String("data-dir", "/var/lib/kloop", "directory of the cluster's keys")
	life := fs.Duration("life", time.Hour, "how long it is good; a server's token a day at most")
	node := fs.Bool("node", false, "for a node: prints the command to run on its machine")
	server := fs.String("server", "", "with --node: how the node reaches the API, https://host:port (default: as pods do)")
	if err := parse(fs, args); err != nil {
		return err
	}
	if !*node && *life > cluster.MaxJoinLife {
		return misusef("--life: %s: a server's token is good for %s at most", *life, cluster.MaxJoinLife)
	}
	if err := keysOf(*dir); err != nil {
		return err
	}
	keys, err := pki.Open(pki.Config{Dir: filepath.Join(*dir, "pki")})
	if err != nil {
		return err
	}
	if *node {
		return nodeToken(ctx, std, fs, filepath.Join(*dir, "admin.kubeconfig"), *server, keys, *life)
	}
	text, err := cluster.JoinToken(keys, *life)
	if err != nil {
		return err
	}
	return answer(std, fs, joining{Token: text}, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, text)
		return err
	})
}

// joining lets another server or a node join.
type joining struct {
	Token  string `json:"token"`
	Server string `json:"server,omitempty"` // of a node's: how it reaches the API
	CAHash string `json:"caHash,omitempty"`
}

func nodeToken(ctx context.Context, std stdio, fs *flag.FlagSet, kubeconfig, server string, keys *pki.PKI, life time.Duration) error {
	cfg, err := connection(kubeconfig)
	if err != nil {
		return err
	}
	admin, err := client.NewRemote(cfg, kinds.NewSet(), "kloop-token")
	if err != nil {
		return err
	}
	if server == "" {
		if server, err = advertised(ctx, admin); err != nil {
			return err
		}
	}
	text, err := cluster.NodeToken(ctx, admin, server, keys.CA.PEM(), life)
	if err != nil {
		return err
	}
	j := joining{text, server, credential.KeyHash(keys.CA.Cert())}
	return answer(std, fs, j, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "kloop node --server %s --token %s --ca-hash %s\n", j.Server, j.Token, j.CAHash)
		return err
	})
}

// advertised is the address at which pods reach the API.
func advertised(ctx context.Context, c client.Client) (string, error) {
	obj, err := c.Get(ctx, kinds.EndpointSlices, metav1.NamespaceDefault, "kubernetes")
	if err != nil {
		return "", fmt.Errorf("find the address of the API: %w", err)
	}
	s := obj.(*discoveryv1.EndpointSlice)
	if len(s.Endpoints) == 0 || len(s.Endpoints[0].Addresses) == 0 || len(s.Ports) == 0 || s.Ports[0].Port == nil {
		return "", errors.New("the API tells no address (api.listen is on the loopback?): say with --server how the node reaches it")
	}
	return "https://" + net.JoinHostPort(s.Endpoints[0].Addresses[0], strconv.Itoa(int(*s.Ports[0].Port))), nil
}
