package cli

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/kloop-dev/kloop/internal/profiles"
)

// servePprof serves profiles of this process at the address until ctx ends. They are for developers of kloop: the
// address should be one of the loopback, as whoever reaches it may read them.
func servePprof(ctx context.Context, addr string, log *slog.Logger) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("listen for profiles: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/{name...}", func(w http.ResponseWriter, r *http.Request) { profiles.Serve(w, r, r.PathValue("name")) })
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { s.Close() })
	go func() {
		if err := s.Serve(l); err != nil && ctx.Err() == nil {
			log.Warn("serve profiles", "err", err)
		}
	}()
	return nil
}
