package cluster

import (
	"context"
	"path/filepath"

	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/trail"
)

// newTrail returns the log of who changed what and because of what; nil: the configuration wants none.
func (c *Cluster) newTrail() *trail.Log {
	if c.cfg.NoTrail || c.cfg.NoConvergence {
		return nil
	}
	cfg := trail.Config{Log: c.cfg.Log, News: c.cfg.Kit.News}
	if c.cfg.DataDir != "" {
		cfg.Dir = filepath.Join(c.cfg.DataDir, "trail")
	}
	if c.cfg.TraceExport != "" {
		cfg.Export = &trail.Exporter{URL: c.cfg.TraceExport}
	}
	return trail.New(cfg)
}

// remember keeps the log on disk.
func (d *frontDoor) remember(ctx context.Context, ready func()) error {
	ready()
	if d.trail == nil {
		<-ctx.Done()
		return nil
	}
	return d.trail.Run(ctx)
}

// tracked passes the server's writes on to the trail.
func (d *frontDoor) tracked() server.Trail {
	if d.trail == nil {
		return nil
	}
	return d.trail
}
