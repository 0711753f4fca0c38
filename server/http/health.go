package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// checkLimit bounds one health check.
const checkLimit = 10 * time.Second

// checks are those of the given endpoint.
func (s *surface) checks(endpoint string) []Check {
	well := func(context.Context) error { return nil }
	list := []Check{{Name: "ping", Run: well}, {Name: "log", Run: well}}
	list = append(list, s.cfg.Live...)
	if endpoint == "livez" {
		return list
	}
	list = append(list, s.cfg.Ready...)
	if endpoint == "readyz" {
		list = append(list, s.cfg.Traffic...)
		list = append(list, Check{Name: "shutdown", Run: func(context.Context) error {
			if s.streams.closed() {
				return errors.New("process is shutting down")
			}
			return nil
		}})
	}
	return list
}

// health answers /healthz, /livez, /readyz and the single checks below them.
func (s *surface) health(w http.ResponseWriter, r *http.Request, parts []string) {
	checks := s.checks(parts[0])
	if len(parts) > 1 {
		name := strings.Join(parts[1:], "/")
		at := slices.IndexFunc(checks, func(c Check) bool { return c.Name == name })
		if at < 0 {
			notFoundPage(w)
			return
		}
		s.single(w, r, checks[at])
		return
	}
	s.report(w, r, parts[0], checks)
}

// single answers for one check: no list, whatever the query asks for.
func (s *surface) single(w http.ResponseWriter, r *http.Request, c Check) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	if err := run(r.Context(), c); err != nil {
		slog.Debug("health check failed", "check", c.Name, "err", err)
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = fmt.Fprintf(w, "internal server error: %v\n", err)
		return
	}
	_, _ = w.Write([]byte("ok"))
}

func (s *surface) report(w http.ResponseWriter, r *http.Request, endpoint string, checks []Check) {
	var out bytes.Buffer
	q := r.URL.Query()
	skip := slices.Clone(q["exclude"])
	slices.Sort(skip)
	skip = slices.Compact(skip)
	failed := false
	for _, c := range checks {
		if slices.Contains(skip, c.Name) {
			fmt.Fprintf(&out, "[+]%s excluded: ok\n", c.Name)
			continue
		}
		if err := run(r.Context(), c); err != nil {
			failed = true
			slog.Debug("health check failed", "endpoint", endpoint, "check", c.Name, "err", err)
			fmt.Fprintf(&out, "[-]%s failed: reason withheld\n", c.Name)
			continue
		}
		fmt.Fprintf(&out, "[+]%s ok\n", c.Name)
	}
	var unknown []string
	for _, name := range skip {
		if !slices.ContainsFunc(checks, func(c Check) bool { return c.Name == name }) {
			unknown = append(unknown, strconv.Quote(name))
		}
	}
	if unknown != nil {
		fmt.Fprintf(&out, "warn: some health checks cannot be excluded: no matches for %s\n", strings.Join(unknown, ","))
	}
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	if failed {
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(&out, "%s check failed\n", endpoint)
		_, _ = w.Write(out.Bytes())
		return
	}
	if _, verbose := q["verbose"]; !verbose {
		_, _ = w.Write([]byte("ok"))
		return
	}
	fmt.Fprintf(&out, "%s check passed\n", endpoint)
	_, _ = w.Write(out.Bytes())
}

func run(ctx context.Context, c Check) error {
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	return c.Run(ctx)
}
