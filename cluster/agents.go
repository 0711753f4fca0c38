package cluster

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/auth/pki"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server/httpapi/stream"
)

// agentUser is the server's user name at node agents. It is no master: to an API server that a node gives out for its agent it
// may do what nodeBindings lets it, and that is to talk to agents.
const agentUser = "kube-apiserver-kubelet-client"

// agents finds node agents by what their Nodes say.
type agents struct{ d *frontDoor }

// Endpoint implements stream.Nodes.
func (a agents) Endpoint(_ context.Context, node string) (stream.Endpoint, error) {
	n := resource.Get(a.d.read(), core.Nodes, "", node)
	if n == nil {
		return stream.Endpoint{}, apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, node) // upstream's words
	}
	host := ""
	for _, addr := range n.Status.Addresses {
		if addr.Type == corev1.NodeInternalIP {
			host = addr.Address
			break
		}
	}
	port := int(n.Status.DaemonEndpoints.KubeletEndpoint.Port)
	if host == "" || port == 0 {
		return stream.Endpoint{}, fmt.Errorf("node %q has no agent to ask: it tells no address", node)
	}
	return a.d.dialer.endpoint(node, net.JoinHostPort(host, strconv.Itoa(port)))
}

// agentDialer connects to agents as the server.
type agentDialer struct {
	keys      *pki.PKI
	transport *http.Transport
}

func newAgentDialer(keys *pki.PKI) (*agentDialer, error) {
	cert, err := keys.CA.Rotating(pki.Leaf{User: agentUser, Client: true}, nil)
	if err != nil {
		return nil, err
	}
	// The names of agents are those of their Nodes, whatever address they are reached at; the node's own name is
	// what its certificate must have (see endpoint).
	return &agentDialer{keys, &http.Transport{DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12, GetClientCertificate: cert.Client}}}, nil
}

// endpoint is one agent. The transport is made for one call and keeps no connection.
func (d *agentDialer) endpoint(node, addr string) (stream.Endpoint, error) {
	t := d.transport.Clone()
	t.TLSClientConfig.ServerName, t.TLSClientConfig.RootCAs = node, d.keys.CA.Pool()
	t.DisableKeepAlives = true
	return stream.Endpoint{URL: "https://" + addr, Transport: t}, nil
}

// frontProxy is the server's user name at the servers of aggregated APIs: they accept the user that it names.
func frontProxy(keys *pki.PKI) (*pki.Rotating, error) {
	return keys.FrontProxy.Rotating(pki.Leaf{User: pki.FrontProxyUser, Client: true}, nil)
}
