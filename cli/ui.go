package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kloop-dev/kloop/cli/ask"
	"github.com/kloop-dev/kloop/web"
)

// ui serves the live page on this machine, with the rights of the kubeconfig, until it is stopped.
func ui(ctx context.Context, std stdio, args []string) error {
	fs := flags(std, "ui", "")
	var where ask.Flags
	where.Bind(fs)
	port := fs.Int("port", 0, "port on 127.0.0.1; 0: one that is free")
	if _, err := wordsOf(fs, args, 0, 0); err != nil {
		return err
	}
	if *port < 0 || *port > 65535 {
		return misused(fs)
	}
	a, err := where.Connect()
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(*port)))
	if err != nil {
		return fmt.Errorf("serve the page: %w; choose another --port", err)
	}
	local, err := uiServer(a, l.Addr().String())
	if err != nil {
		return errors.Join(err, l.Close())
	}
	fmt.Fprintf(std.out, "%s\n\nopens once, in one browser; Ctrl-C ends it. It shows %s with your rights and changes nothing.\n",
		local.Link(), a.Rest.Host)
	return serveLocal(ctx, l, local)
}

// uiServer is the page's local server at an address, for the server that a asks.
func uiServer(a *ask.Asker, at string) (*web.Local, error) {
	server, _, err := rest.DefaultServerUrlFor(a.Rest)
	if err != nil {
		return nil, fmt.Errorf("find the server: %w", err)
	}
	transport, err := rest.TransportFor(a.Rest)
	if err != nil {
		return nil, fmt.Errorf("reach the server: %w", err)
	}
	return web.NewLocal(web.Config{Host: at, Server: server, Transport: transport, More: uiAnswers(a)}), nil
}

// serveLocal serves until ctx ends. Streams to the browser end with it.
func serveLocal(ctx context.Context, l net.Listener, h http.Handler) error {
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	done := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer done()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the page: %w", err)
	}
	return nil
}
