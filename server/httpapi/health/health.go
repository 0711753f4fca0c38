// Package health serves the health checks (/healthz, /livez, /readyz) and the pages by which the program tells of itself (/statusz,
// /flagz).
package health

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

	"github.com/kloop-dev/kloop/server/httpapi/reply"
)

// checkLimit bounds one health check.
const checkLimit = 10 * time.Second

// A Check is one named health check. Run returns nil when all is well.
type Check struct {
	Name string
	Run  func(ctx context.Context) error
}

// A Handler answers /healthz, /livez, /readyz and the single checks below them. It is safe for concurrent use.
type Handler struct {
	Live    []Check     // of all three
	Traffic []Check     // /readyz alone
	Begun   []Check     // of all three: what was started
	Ready   []Check     // /readyz and /healthz
	Closing func() bool // the server shuts down and takes nothing new
	SLIs    *SLIs       // count how the checks went
}

// Checks are those of the given endpoint, in upstream's order.
func (h *Handler) Checks(endpoint string) []Check {
	well := func(context.Context) error { return nil }
	list := []Check{{Name: "ping", Run: well}, {Name: "log", Run: well}}
	if endpoint == "readyz" {
		list = slices.Concat(list, h.Live, h.Traffic)
	} else { // this server calls itself without a certificate, so none can expire; the name is asked for
		list = append(append(list, Check{Name: "loopback-serving-certificate", Run: well}), h.Live...)
	}
	list = append(list, h.Begun...)
	if endpoint != "livez" {
		list = append(list, h.Ready...)
	}
	if endpoint == "readyz" {
		list = append(list, Check{Name: "shutdown", Run: func(context.Context) error {
			if h.Closing() {
				return errors.New("process is shutting down")
			}
			return nil
		}})
	}
	return list
}

// Serve answers the path whose segments are parts.
func (h *Handler) Serve(w http.ResponseWriter, r *http.Request, parts []string) {
	checks := h.Checks(parts[0])
	if strings.HasSuffix(r.URL.Path, "/") {
		reply.NotFoundPage(w)
		return
	}
	if len(parts) > 1 {
		name := strings.Join(parts[1:], "/")
		at := slices.IndexFunc(checks, func(c Check) bool { return c.Name == name })
		if at < 0 {
			reply.NotFoundPage(w)
			return
		}
		h.single(w, r, parts[0], checks[at])
		return
	}
	h.report(w, r, parts[0], checks)
}

// single answers for one check: no list, whatever the query asks for.
func (h *Handler) single(w http.ResponseWriter, r *http.Request, endpoint string, c Check) {
	head := w.Header()
	head.Set("Content-Type", "text/plain; charset=utf-8")
	if err := h.run(r.Context(), endpoint, c); err != nil {
		head.Set("X-Content-Type-Options", "nosniff")
		slog.Debug("health check failed", "check", c.Name, "err", err)
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = fmt.Fprintf(w, "internal server error: %v\n", err)
		return
	}
	_, _ = w.Write([]byte("ok"))
}

func (h *Handler) report(w http.ResponseWriter, r *http.Request, endpoint string, checks []Check) {
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
		if err := h.run(r.Context(), endpoint, c); err != nil {
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
	head := w.Header()
	head.Set("Content-Type", "text/plain; charset=utf-8")
	head.Set("X-Content-Type-Options", "nosniff")
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

func (h *Handler) run(ctx context.Context, endpoint string, c Check) error {
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	err := c.Run(ctx)
	h.SLIs.note(endpoint, c.Name, err)
	return err
}
