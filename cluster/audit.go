package cluster

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/kloop-dev/kloop/server/audit"
	"github.com/kloop-dev/kloop/webhook"
)

// Audit says what is recorded of requests and where. The zero value records nothing.
type Audit struct {
	PolicyFile string // upstream's Policy (audit.k8s.io/v1); "": nothing is recorded, whatever the other fields say

	LogPath       string // one JSON event a line; "-": the standard output; "": no log
	LogMaxAge     int    // days that old log files are kept; 0: for ever
	LogMaxBackups int    // how many old log files are kept; 0: all
	LogMaxSize    int    // MiB from which a new log file is begun; 0: 100
	LogCompress   bool   // old log files are compressed (gzip)

	WebhookKubeconfig string        // the server that gets batches of events; "": none
	WebhookBackoff    time.Duration // pause before a batch is sent again; 0: 10 s
}

// newAuditor returns the auditor that the configuration asks for; nil for none.
func (c Config) newAuditor() (*audit.Auditor, error) {
	a := c.Audit
	if a.PolicyFile == "" || a.LogPath == "" && a.WebhookKubeconfig == "" {
		if a != (Audit{}) {
			c.Log.Warn("nothing is audited: that takes a policy and a log or a webhook", "policy", a.PolicyFile, "log", a.LogPath, "webhook",
				a.WebhookKubeconfig)
		}
		return nil, nil
	}
	policy, hook, err := a.files(c.Kit.Ways)
	if err != nil {
		return nil, err
	}
	cfg := audit.Config{Policy: policy}
	if a.LogPath != "" {
		size := int64(a.LogMaxSize)
		if size == 0 {
			size = 100
		}
		f := &audit.File{Path: a.LogPath, MaxAge: time.Duration(a.LogMaxAge) * 24 * time.Hour, MaxBackups: a.LogMaxBackups,
			MaxSize: size << 20, Compress: a.LogCompress}
		if err := f.Check(); err != nil {
			return nil, err
		}
		cfg.Outputs = append(cfg.Outputs, f)
	}
	if hook != nil {
		cfg.Outputs = append(cfg.Outputs, hook)
	}
	return audit.New(cfg), nil
}

// files reads the policy and the kubeconfig of the webhook; nil: there is none.
func (a Audit) files(w webhook.Ways) (policy *audit.Policy, hook *audit.Webhook, err error) {
	if a.PolicyFile != "" {
		data, err := os.ReadFile(a.PolicyFile)
		if err != nil {
			return nil, nil, fmt.Errorf("read the audit policy: %w", err)
		}
		if policy, err = audit.ParsePolicy(data); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", a.PolicyFile, err)
		}
	}
	if a.WebhookKubeconfig != "" {
		hook, err = audit.NewWebhook(w, a.WebhookKubeconfig, a.WebhookBackoff)
	}
	return policy, hook, err
}

// newAuditor sets the auditor and shows its metrics.
func (d *frontDoor) newAuditor() (err error) {
	if d.auditor, err = d.c.cfg.newAuditor(); d.auditor != nil {
		d.metrics.MustRegister(d.auditor.Collectors()...)
	}
	return err
}

// keepAudit writes what was recorded; it stops after the API, so that nothing is lost.
func (d *frontDoor) keepAudit(ctx context.Context, ready func()) error {
	ready()
	if d.auditor == nil {
		<-ctx.Done()
		return nil
	}
	d.auditor.Run(ctx, d.log)
	return nil
}
