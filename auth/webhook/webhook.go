// Package webhook asks another server who a token belongs to and what may be done, by TokenReview and
// SubjectAccessReview, as upstream's webhook modes.
//
//	tokens.go     who
//	authorize.go  what
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
	"k8s.io/client-go/tools/clientcmd"
)

// Bounds of asking, upstream's: tries, the pause before the second, and by how much pauses grow.
const (
	tries      = 5
	firstPause = 500 * time.Millisecond
	maxAnswer  = 1 << 20 // bytes
)

// A caller asks one server.
type caller struct {
	client *http.Client
	url    string
	pause  time.Duration
}

// newCaller reads the kubeconfig file; "" is the service account of the pod that this process runs in.
func newCaller(kubeconfig string, timeout time.Duration) (*caller, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig of the webhook: %w", err)
	}
	cfg.Timeout = timeout
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to the webhook: %w", err)
	}
	return &caller{client: client, url: cfg.Host, pause: firstPause}, nil
}

// Reviews asks a server to review something, by whatever kind of object.
type Reviews struct{ c *caller }

// NewReviews reads the kubeconfig of the server. pause is that before the second try; 0: 500 ms.
func NewReviews(kubeconfig string, pause time.Duration) (*Reviews, error) {
	c, err := newCaller(kubeconfig, 30*time.Second)
	if err == nil && pause > 0 {
		c.pause = pause
	}
	return &Reviews{c}, err
}

// Ask posts a review and reads the answer into the other.
func (r *Reviews) Ask(ctx context.Context, review, answer any) error {
	return r.c.ask(ctx, review, answer)
}

// ask posts a review and reads the answer into the other, trying again when the server can't answer.
func (c *caller) ask(ctx context.Context, review, answer any) error {
	body, err := json.Marshal(review)
	if err != nil {
		return err
	}
	pause := c.pause
	for try := 1; ; try++ {
		again, err := c.post(ctx, body, answer)
		if err == nil || !again || try == tries {
			return err
		}
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			t.Stop()
			return errors.Join(err, ctx.Err())
		case <-t.C:
		}
		pause += pause / 2
	}
}

func (c *caller) post(ctx context.Context, body []byte, answer any) (again bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return false, fmt.Errorf("ask the webhook %s: %w", c.url, err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	resp, err := c.client.Do(r)
	if err != nil {
		return true, fmt.Errorf("ask the webhook: %w", err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return true, fmt.Errorf("read the webhook's answer: %w", err)
	}
	if code := resp.StatusCode; code/100 != 2 {
		again = code >= 500 || code == http.StatusTooManyRequests
		return again, fmt.Errorf("the webhook %s answers %s", c.url, resp.Status)
	}
	if err := json.Unmarshal(data, answer); err != nil {
		return false, fmt.Errorf("read the webhook's answer: %w", err)
	}
	return false, nil
}
