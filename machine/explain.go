package machine

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/podnetwork"
	"github.com/kloop-dev/kloop/proxy"
)

// Explain writes what a node's loops would do to its machine, with the rights of n.Rest's user: the server need not be kloop's, the
// machine need not be this one, and nothing is changed. It gives up after patience.
func Explain(ctx context.Context, n Joined, patience time.Duration, out io.Writer) error {
	remote, err := client.NewRemote(n.Rest, kinds.NewSet(), "kloop-explain",
		client.Source{Kind: kinds.Nodes},
		client.Source{Kind: kinds.Services}, client.Source{Kind: kinds.EndpointSlices}, client.Source{Kind: kinds.ServiceCIDRs})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	synced, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- remote.Run(ctx, func() { close(synced) }) }()
	defer func() { cancel(); <-done }()
	select {
	case <-synced:
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(patience): // the watches go on until their trouble is read: it ends with them
		return fmt.Errorf("read the cluster's services: %s", cmp.Or(remote.Trouble(), "the server does not answer"))
	}
	if n.Network != cluster.NetworkNone {
		if err := podnetwork.Explain(out, remote.Read(), n.Name, n.Network); err != nil {
			return err
		}
	}
	return proxy.Explain(out, remote.Read(), proxy.Config{Node: n.Name, Address: n.Address, Services: n.Services,
		NodePortAddresses: n.NodePortAddresses})
}
