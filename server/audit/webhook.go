package audit

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Batches to a webhook, as upstream's.
const (
	webhookBatch   = 400
	webhookWait    = 30 * time.Second
	webhookTries   = 4
	webhookTimeout = 10 * time.Second
)

// A Webhook sends batches of events, as an EventList of audit.k8s.io/v1, to the server of a kubeconfig.
type Webhook struct {
	client *http.Client
	url    string
	first  time.Duration // pause before the second try; grows half as much again
	wait   time.Duration
}

// NewWebhook reads the kubeconfig. initialBackoff 0 is upstream's 10 s.
func NewWebhook(kubeconfig string, initialBackoff time.Duration) (*Webhook, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig of the audit webhook: %w", err)
	}
	cfg.Timeout = webhookTimeout
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to the audit webhook: %w", err)
	}
	if initialBackoff == 0 {
		initialBackoff = 10 * time.Second
	}
	return &Webhook{client: client, url: cfg.Host, first: initialBackoff, wait: webhookWait}, nil
}

// Name implements Output.
func (w *Webhook) Name() string { return "webhook" }

// Batch implements Output.
func (w *Webhook) Batch() (int, time.Duration) { return webhookBatch, w.wait }

// Write implements Output.
func (w *Webhook) Write(ctx context.Context, events [][]byte) error {
	body := []byte(`{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[`)
	body = append(append(body, bytes.Join(events, []byte(","))...), "]}"...)
	pause := w.first
	for try := 1; ; try++ {
		again, err := w.send(ctx, body)
		if err == nil || !again || try == webhookTries {
			return err
		}
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			t.Stop()
			return err
		case <-t.C:
		}
		pause += pause / 2
	}
}

// send makes one try; again says that another may succeed.
func (w *Webhook) send(ctx context.Context, body []byte) (again bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return false, fmt.Errorf("send audit events to %s: %w", w.url, err)
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := w.client.Do(r)
	if err != nil {
		return true, fmt.Errorf("send audit events: %w", err)
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	_ = resp.Body.Close()
	if resp.StatusCode/100 == 2 {
		return false, nil
	}
	again = resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests
	return again, fmt.Errorf("send audit events to %s: the answer is %s", w.url, resp.Status)
}
