package audit

import (
	"bytes"
	"context"
	"time"

	"github.com/kloop-dev/kloop/webhook"
)

// Batches to a webhook, as upstream's.
const (
	webhookBatch   = 400
	webhookWait    = 30 * time.Second
	webhookTries   = 4
	webhookTimeout = 10 * time.Second
)

// A Webhook sends batches of events, as an EventList of audit.k8s.io/v1, to the server of a kubeconfig.
type Webhook struct{ server *webhook.Server }

// NewWebhook reads the kubeconfig. initialBackoff 0 is upstream's 10 s.
func NewWebhook(w webhook.Ways, kubeconfig string, initialBackoff time.Duration) (*Webhook, error) {
	if initialBackoff == 0 {
		initialBackoff = 10 * time.Second
	}
	s, err := w.Open("the audit webhook", kubeconfig, webhookTimeout, webhook.Retries{Tries: webhookTries, Pause: initialBackoff})
	if err != nil {
		return nil, err
	}
	return &Webhook{s}, nil
}

// Name implements Output.
func (w *Webhook) Name() string { return "webhook" }

// Batch implements Output.
func (w *Webhook) Batch() (int, time.Duration) { return webhookBatch, webhookWait }

// Write implements Output.
func (w *Webhook) Write(ctx context.Context, events [][]byte) error {
	body := []byte(`{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[`)
	body = append(append(body, bytes.Join(events, []byte(","))...), "]}"...)
	_, err := w.server.Send(ctx, body)
	return err
}
