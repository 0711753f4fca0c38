package machine

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/internal/atomicfile"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/node/credential"
	"github.com/kloop-dev/kloop/node/meter"
)

// A Joined is a node in a process of its own. It has its certificates signed by the cluster, and renewed in time.
type Joined struct {
	Config
	// Rest configures the connection to the server: as system:node:NAME by a client certificate, or with a bootstrap token. nil: as Join
	// or the directory of keys says.
	Rest *rest.Config
	Join credential.Discovery // how to join as a machine that knows nothing but a token; Token "": it has joined
	Keys string               // directory of the node's certificates and of the kubeconfig that a joined node has

	trust     *anchors
	reconnect func() // over new connections
}

// The files of a node's keys, named as the kubelet's.
const (
	nodeKubeconfig = "kubelet.conf"
	nodeClientFile = "kubelet-client-current.pem"
	nodeServerFile = "kubelet-server-current.pem"
)

// Run runs a node until ctx ends; ready is called when its agent runs and can be asked.
func Run(ctx context.Context, n Joined, ready func()) error {
	if err := rootless(n.Runtime.Dir); err != nil {
		return err
	}
	own, remote, err := n.enrol(ctx)
	if err != nil {
		return err
	}
	if err := n.settleAddresses(ctx, remote); err != nil {
		return err
	}
	serving, err := n.serving(remote)
	if err != nil {
		return err
	}
	pinned := client.NewPinned(remote)
	n.Serving, n.Client, n.Pins, n.ProxyClient, n.Loops = serving, pinned, pinned, remote, &loop.Watchers{}
	n.Events = client.NewRecorder(remote, "kubelet", nil).For("kubelet", n.Name)
	parts, err := n.parts()
	if err != nil {
		return err
	}
	list := []cluster.Part{{Name: "copies", Run: pinned.Run}, cluster.ClockPart(n.Loops),
		{Name: "events", Run: func(ctx context.Context, ready func()) error { ready(); n.Events.Run(ctx); return nil }},
		{Name: "client certificate", Run: func(ctx context.Context, ready func()) error { ready(); return own.Run(ctx) }},
		{Name: "authorities", Run: func(ctx context.Context, ready func()) error {
			ready()
			return n.trust.follow(ctx, remote, askAuthority, &n, own, serving)
		}},
		{Name: "reports", Run: func(ctx context.Context, ready func()) error {
			ready()
			cluster.Tell(ctx, n.log(), remote, func() *convergence.Report { return converge.ReportOf(n.Loops, n.Name, "") })
			return nil
		}}}
	list = append(append(list, parts...), cluster.Part{Name: "serving certificate", Run: func(ctx context.Context, ready func()) error {
		return renewServing(ctx, serving, ready)
	}})
	return cluster.RunParts(ctx, n.log(), ready, list...)
}

// settleAddresses finds by which addresses the node is known, and the ranges of cluster IPs, which the cluster itself tells: so nobody
// needs to say on each machine which families it has. Where it never told them the settings hold.
func (n *Joined) settleAddresses(ctx context.Context, remote client.Client) error {
	if told := n.ranges(ctx, remote); told != nil {
		n.Services = told
	}
	if n.Address.IsValid() {
		return nil
	}
	var err error
	n.Address, n.Second, err = cluster.HostAddresses(n.Services, hostPort(n.Rest.Host))
	return err
}

// addresses are the node's, of one family or both.
func (n Config) addresses() []netip.Addr {
	if !n.Second.IsValid() {
		return []netip.Addr{n.Address}
	}
	return []netip.Addr{n.Address, n.Second}
}

// hostPort is the host:port of a server; "" if it can't be read.
func hostPort(server string) string {
	u, err := url.Parse(server)
	switch {
	case err != nil:
		return ""
	case u.Host == "":
		return server
	case u.Port() == "":
		return net.JoinHostPort(u.Hostname(), "443")
	}
	return u.Host
}

// enrol gets the node's client certificate, and a client that shows it.
func (n *Joined) enrol(ctx context.Context) (*credential.Credential, *client.Remote, error) {
	if err := n.reach(ctx); err != nil {
		return nil, nil, err
	}
	var err error
	given, err := cluster.Authority(n.Rest)
	if err != nil {
		return nil, nil, err
	}
	if n.trust, err = newAnchors(given, n.Keys); err != nil {
		return nil, nil, err
	}
	n.Callers, n.Meter = n.trust.pool, meter.New()
	own, err := n.certificate(certificatesv1.KubeAPIServerClientKubeletSignerName, certificatesv1.UsageClientAuth, nodeClientFile)
	if err != nil {
		return nil, nil, err
	}
	if _, err := own.Get(); err != nil {
		if err := n.bootstrap(ctx, own); err != nil {
			return nil, nil, err
		}
	}
	n.Meter.Asks(own.Get)
	transport := credential.NewTransport(own, n.trust.pool)
	n.reconnect = transport.Renew
	cfg := &rest.Config{Host: n.Rest.Host, Transport: n.Meter.Transport(transport)}
	remote, err := client.NewRemote(cfg, kinds.NewSet(), "kubelet/kloop", nodeSources(n.Config)...)
	if err != nil {
		return nil, nil, err
	}
	own.AskAs(remote)
	n.whole = func(ctx context.Context) (client.Client, error) { return readWhole(ctx, cfg) }
	return own, remote, nil
}

// readWhole reads all that network policies are judged by: pods of all nodes, which the agent's own client must not see.
func readWhole(ctx context.Context, cfg *rest.Config) (client.Client, error) {
	remote, err := client.NewRemote(cfg, kinds.NewSet(), "kubelet/kloop", client.Source{Kind: kinds.NetworkPolicies},
		client.Source{Kind: kinds.Pods}, client.Source{Kind: kinds.Namespaces}, client.Source{Kind: kinds.Nodes})
	if err != nil {
		return nil, err
	}
	complete, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- remote.Run(ctx, func() { close(complete) }) }()
	select {
	case <-complete:
		return remote, nil
	case err := <-ended:
		return nil, fmt.Errorf("read what network policies are judged by: %w", errors.Join(err, ctx.Err()))
	}
}

// reach fills Rest: from the kubeconfig of a node that has joined, or by the token.
func (n *Joined) reach(ctx context.Context) error {
	if n.Rest != nil {
		return nil
	}
	path := filepath.Join(n.Keys, nodeKubeconfig)
	if known, err := joined(path); err != nil {
		return err
	} else if known != nil && (n.Join.Server == "" || n.Join.Server == known.Host) {
		// The kept certificate may not be good for any more: then a token helps.
		n.Rest = known
		n.Rest.BearerToken = n.Join.Token
		return nil
	}
	if n.Join.Server == "" {
		return errors.New(
			"say which cluster to join: --server URL with --token and --ca-hash (kloop token --node prints them on a server's machine), " +
				"or --kubeconfig FILE")
	}
	ca, err := n.Join.Authority(ctx)
	if err != nil {
		return err
	}
	n.Rest = &rest.Config{Host: n.Join.Server, BearerToken: n.Join.Token, TLSClientConfig: rest.TLSClientConfig{CAData: ca}}
	return n.keep(path, ca)
}

// JoinedTo is the URL of the server whose cluster the node with this directory of keys has joined; "": it has none.
func JoinedTo(keys string) (string, error) {
	if _, err := os.Stat(filepath.Join(keys, nodeClientFile)); errors.Is(err, fs.ErrNotExist) {
		return "", nil // it did not come to its end
	}
	known, err := joined(filepath.Join(keys, nodeKubeconfig))
	if err != nil || known == nil {
		return "", err
	}
	return known.Host, nil
}

// joined reads how a node that has joined, or began to, reaches the server; nil: it has not. The certificate is for package credential to
// read: there is none where the join did not come to its end.
func joined(path string) (*rest.Config, error) {
	// An empty one is left where the machine lost power while it was written.
	if info, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil, nil
	}
	file, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return nil, fmt.Errorf("read how to reach the server: %w", err)
	}
	for _, who := range file.AuthInfos {
		who.ClientCertificate, who.ClientKey = "", ""
	}
	cfg, err := clientcmd.NewDefaultClientConfig(*file, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read how to reach the server: %w", err)
	}
	return cfg, nil
}

// keep writes the kubeconfig of a node that joins, for its next start and for those who look.
func (n *Joined) keep(path string, ca []byte) error {
	if err := os.MkdirAll(n.Keys, 0o700); err != nil {
		return fmt.Errorf("keep the node's keys: %w", err)
	}
	cfg, file := clientcmdapi.NewConfig(), filepath.Join(n.Keys, nodeClientFile)
	cfg.Clusters["kloop"] = &clientcmdapi.Cluster{Server: n.Join.Server, CertificateAuthorityData: ca}
	cfg.AuthInfos["node"] = &clientcmdapi.AuthInfo{ClientCertificate: file, ClientKey: file}
	cfg.Contexts["kloop"] = &clientcmdapi.Context{Cluster: "kloop", AuthInfo: "node"}
	cfg.CurrentContext = "kloop"
	text, err := clientcmd.Write(*cfg)
	if err != nil {
		return fmt.Errorf("keep how to reach the server: %w", err)
	}
	return atomicfile.Write(path, text, 0o600)
}

// certificate is one of the node's certificates: the one that is kept, or that of the kubeconfig, or none yet.
func (n *Joined) certificate(signer string, usage certificatesv1.KeyUsage, file string) (*credential.Credential, error) {
	want := &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:" + n.Name, Organization: []string{auth.GroupNodes}}}
	if usage == certificatesv1.UsageServerAuth {
		want.DNSNames, want.IPAddresses = []string{n.Name}, nil
		for _, a := range n.addresses() {
			want.IPAddresses = append(want.IPAddresses, a.AsSlice())
		}
	}
	c := credential.New(credential.Config{Signer: signer, Usage: usage, Want: want, File: filepath.Join(n.Keys, file),
		Roots: n.trust.pool, Log: n.log(), Failed: func() { n.Meter.NotRenewed(usage == certificatesv1.UsageServerAuth) }})
	if _, err := c.Get(); err == nil {
		return c, nil
	}
	pair, err := keyPair(n.Rest)
	if err != nil || pair == nil {
		return c, err
	}
	if err := c.Adopt(pair); err != nil && usage == certificatesv1.UsageClientAuth {
		return nil, fmt.Errorf("the kubeconfig's certificate is not one of the node %s: %w", n.Name, err)
	}
	return c, nil
}

// serving is the certificate of the agent's own API.
func (n *Joined) serving(asker client.Client) (*credential.Credential, error) {
	c, err := n.certificate(certificatesv1.KubeletServingSignerName, certificatesv1.UsageServerAuth, nodeServerFile)
	if err == nil {
		c.AskAs(asker)
	}
	return c, err
}

// bootstrap asks for the first client certificate with a bootstrap token.
func (n *Joined) bootstrap(ctx context.Context, own *credential.Credential) error {
	if n.Rest.BearerToken == "" && n.Rest.BearerTokenFile == "" {
		return errors.New(
			"the node has no client certificate and no token to ask for one with: kloop kubeconfig --node NAME makes one, " +
				"kloop token --node the other")
	}
	remote, err := client.NewRemote(n.Rest, kinds.NewSet(), "kubelet/kloop")
	if err != nil {
		return err
	}
	own.AskAs(remote)
	n.log().Info("asking for the node's certificate with a bootstrap token", "server", n.Rest.Host)
	return own.Renew(ctx)
}

// servingPatience bounds how long a node waits for the certificate of its API before it says that it is ready all the same: its pods
// run, only logs and the like can't be had.
const servingPatience = 30 * time.Second

// renewServing renews the serving certificate until ctx ends. It is ready when there is one.
func renewServing(ctx context.Context, c *credential.Credential, ready func()) error {
	done := make(chan error, 1)
	there := make(chan struct{}, 1)
	c.OnChange(func() {
		select {
		case there <- struct{}{}:
		default:
		}
	})
	go func() { done <- c.Run(ctx) }()
	if _, err := c.Get(); err != nil {
		late := time.NewTimer(servingPatience)
		defer late.Stop()
		select {
		case <-there:
		case <-late.C:
		case err := <-done:
			return err
		}
	}
	ready()
	return <-done
}

// keyPair is the client certificate of the kubeconfig; nil when it has none.
func keyPair(cfg *rest.Config) (*tls.Certificate, error) {
	if cmp.Or(string(cfg.CertData), cfg.CertFile) == "" {
		return nil, nil
	}
	cfg = rest.CopyConfig(cfg)
	if err := rest.LoadTLSFiles(cfg); err != nil {
		return nil, fmt.Errorf("read the kubeconfig's certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(cfg.CertData, cfg.KeyData)
	if err != nil {
		return nil, fmt.Errorf("read the node's certificate: %w", err)
	}
	return &pair, nil
}
