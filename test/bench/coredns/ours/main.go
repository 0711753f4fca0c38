// Command ours is kloop's cluster DNS in a process of its own, with copies of its own of what the agent of a node has anyway: what it
// costs beside nothing else.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/signal"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/dns"
	"github.com/kloop-dev/kloop/kinds"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "of the server")
	off := flag.Bool("off", false, "serve nothing: keep the copies alone, as the agent of a node does for the service proxy")
	port := flag.Uint("port", 10053, "to serve at on 127.0.0.1; metrics at the next one")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *kubeconfig, uint16(*port), *off); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig string, port uint16, off bool) error {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	c, err := client.NewRemote(cfg, kinds.NewSet(), "bench", client.Source{Kind: kinds.Services}, client.Source{Kind: kinds.EndpointSlices},
		client.Source{Kind: kinds.Namespaces}, client.Source{Kind: kinds.Nodes})
	if err != nil {
		return err
	}
	go func() {
		if err := c.Run(ctx, func() {}); err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	if off {
		<-ctx.Done()
		return nil
	}
	return dns.Run(ctx, dns.Config{Client: c, Node: "bench", Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")}, Port: port,
		Metrics: port + 1}, func() {})
}
