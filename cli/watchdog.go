package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/notify"
)

// tellManager tells systemd, or who else started this process, that it is ready; then, until ctx ends, that it lives, if that is asked
// for (WatchdogSec) and as long as well says so.
func tellManager(ctx context.Context, log *slog.Logger, well func(context.Context) error) {
	if err := notify.Send(notify.Ready); err != nil {
		log.Warn("the service manager was not told", "err", err)
	}
	go notify.Watchdog(ctx, well, func(err error) {
		log.Error("systemd was not told that kloop lives", "err", err)
	})
}

// runs is all that there is to say of a program that serves no requests: that it runs.
func runs(context.Context) error { return nil }

// serves asks the API server of this process for an answer, which needs no store: a new process would not mend one that waits for others.
func serves(c *cluster.Cluster) func(context.Context) error {
	return func(ctx context.Context) error {
		cfg, err := c.Rest() // each time, since authorities are exchanged
		if err != nil {
			return err
		}
		pair, err := tls.X509KeyPair(cfg.CertData, cfg.KeyData) // strangers may be refused
		if err != nil {
			return err
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(cfg.CAData)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL()+"/livez/ping", nil)
		if err != nil {
			return err
		}
		via := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair},
			MinVersion: tls.VersionTLS12}}
		res, err := (&http.Client{Transport: via}).Do(req)
		if err != nil {
			return fmt.Errorf("ask this server whether it lives: %w", err)
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("this server answers whether it lives with %s", res.Status)
		}
		return nil
	}
}
