package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kloop-dev/kloop/strict"
)

// Retries says how often a Server is asked that can't answer, and when. The pause grows by half each time.
type Retries struct {
	Tries int
	Pause time.Duration // before the second try
}

// A Server is one that a kubeconfig of the configuration names: it is asked to review something, or receives events. Safe for
// concurrent use.
type Server struct {
	what   string
	client *http.Client
	url    string
	Retries
}

// Open reads the kubeconfig file of a server; "" is the service account of the pod that this process runs in. what names the
// server in errors, as "the audit webhook"; timeout bounds one try.
func (w Ways) Open(what, kubeconfig string, timeout time.Duration, r Retries) (*Server, error) {
	if w.Read == nil {
		return nil, errNoWays
	}
	cfg, err := w.Read(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig of %s: %w", what, strict.Unquoted(err))
	}
	return w.To(what, cfg, "", timeout, r)
}

// To returns a Server at a path of the host that a configuration names, which is not changed.
func (w Ways) To(what string, cfg *rest.Config, path string, timeout time.Duration, r Retries) (*Server, error) {
	if w.Client == nil {
		return nil, errNoWays
	}
	cfg = rest.CopyConfig(cfg)
	cfg.Timeout = timeout
	client, err := w.Client(cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", what, err)
	}
	client.CheckRedirect = stay
	return &Server{what: what, client: client, url: cfg.Host + path, Retries: r}, nil
}

// maxReview bounds the answer of a Server in bytes.
const maxReview = 1 << 20

// Ask sends a review and reads the answer into the other.
func (s *Server) Ask(ctx context.Context, review, answer any) error {
	body, err := json.Marshal(review)
	if err != nil {
		return err
	}
	data, err := s.Send(ctx, body)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, answer); err != nil {
		return fmt.Errorf("read the answer of %s: %w", s.what, err)
	}
	return nil
}

// Send posts a JSON document and returns the answer. It tries again when the server can't be reached, answers with an error of its
// own, or has too much to do. Errors name the server.
func (s *Server) Send(ctx context.Context, body []byte) ([]byte, error) {
	pause := s.Pause
	for try := 1; ; try++ {
		data, again, err := s.once(ctx, body)
		if err == nil || !again || try >= s.Tries {
			return data, err
		}
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil, errors.Join(err, ctx.Err())
		case <-t.C:
		}
		pause += pause / 2
	}
}

// once makes one try; again says that another may succeed.
func (s *Server) once(ctx context.Context, body []byte) (data []byte, again bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return nil, false, fmt.Errorf("ask %s at %s: %w", s.what, s.url, err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	resp, err := s.client.Do(r)
	if err != nil {
		return nil, true, fmt.Errorf("ask %s: %w", s.what, err)
	}
	defer resp.Body.Close()
	data, err = io.ReadAll(io.LimitReader(resp.Body, maxReview))
	if err != nil {
		return nil, true, fmt.Errorf("read the answer of %s: %w", s.what, err)
	}
	if code := resp.StatusCode; code/100 != 2 {
		return nil, code >= 500 || code == http.StatusTooManyRequests, fmt.Errorf("%s at %s answers %s", s.what, s.url, resp.Status)
	}
	return data, false, nil
}
