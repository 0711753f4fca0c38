package cluster

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/server/httpapi"
)

// The lease by which servers that share a store decide whose loops run; `kloop controllers` holds the same one.
const (
	leaderSpace    = "kube-system"
	leaderLease    = "kube-controller-manager"
	leaderDuration = 15 * time.Second
	leaderRenew    = 3 * time.Second
)

// elected is leader election: it runs the parts on one of the servers that share the store: the one that holds the lease. A server
// that loses it stops its loops before another one may begin, and stands for election again: its next loops start cold.
func (c *Cluster) elected(list func() ([]part, error)) part {
	return part{"loops", func(ctx context.Context, ready func()) error {
		ready()
		var failed error
		for ctx.Err() == nil && failed == nil {
			e := client.Election{Client: c.door.local(loopUser("leader-election"), leaderLease), Namespace: leaderSpace, Name: leaderLease,
				Identity: c.name,
				Duration: leaderDuration, Renew: leaderRenew}
			e.Run(ctx, func(ctx context.Context) {
				parts, err := list()
				if err == nil {
					err = RunParts(ctx, c.cfg.Log, func() { c.cfg.Log.Info("the loops run here") }, parts...)
				}
				failed = err
			})
		}
		return failed
	}}
}

// maxShutdownDelay leaves a part that is to stop a few seconds of its limit.
const maxShutdownDelay = stopLimit - 5*time.Second

// leave says at /readyz that the server is about to end, and waits for as long as load balancers take to notice.
func (c *Config) leave(h *httpapi.Handler) part {
	return part{"traffic", func(ctx context.Context, ready func()) error {
		ready()
		<-ctx.Done()
		h.Leave()
		time.Sleep(c.ShutdownDelay)
		return nil
	}}
}

// handOver has another member lead the store before this server stops serving: one that leads and just ends would have the
// others find out, and what is written meanwhile fail.
func (s *storage) handOver(ctx context.Context, ready func()) error {
	ready()
	<-ctx.Done()
	if s.etcd == nil {
		return nil
	}
	if err := s.etcd.HandOver(); err != nil {
		s.cfg.Log.Warn("hand the lead of the store over", "err", err)
	}
	return nil
}

// Identity is a name for a process that stands for election: nobody else has it, and a person can tell the machine.
func Identity() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s_%d_%x", strings.ToLower(host), os.Getpid(), time.Now().UnixNano())
}

// shared says that other servers may write to the store.
func (s *storage) shared() bool {
	return len(s.cfg.EtcdServers) > 0 || s.etcd != nil && !s.etcd.Sole()
}

// stay tells the other servers, and pods, that this one is there.
func (d *frontDoor) stay(ctx context.Context, ready func()) error {
	at := d.c.advertised()
	if len(at) == 0 {
		ready()
		<-ctx.Done()
		return nil
	}
	return d.alloc.Heartbeat(ctx, at[0], ready)
}
