package cluster

import (
	"context"
	"os"
	"time"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/kit"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// sources are the loops that apply what lies outside of the cluster: files of this machine, and Git repositories. They act with
// all rights: users who may write the files, or make a GitSource, may do everything in the cluster.
func (c *Cluster) sources() (list []part) {
	if c.cfg.Kit.Sources == nil {
		return nil
	}
	for _, s := range c.cfg.Kit.Sources(kit.Sources{Manifests: c.cfg.ManifestsDir, Server: c.serverName(), Git: c.cfg.GitSources,
		GitDir: c.cfg.GitDir, Health: c.health}) {
		list = append(list, c.sourcePart(s))
	}
	return list
}

func (c *Cluster) sourcePart(s kit.Source) part {
	return part{s.LoopName(), func(ctx context.Context, ready func()) error {
		ready()
		user := &auth.User{Name: "system:kloop:" + s.Manager, Groups: []string{auth.GroupMasters, auth.GroupAuthenticated}}
		env := loop.Env{Client: c.door.local(user, s.Manager), Log: c.cfg.Log, Events: c.door.events.For(s.Manager, ""), Now: time.Now,
			Watch: c.Loops, Trail: c.door.trail != nil, Resync: c.cfg.resync(s.LoopName())}
		for s.First != nil && ctx.Err() == nil {
			err := s.First(ctx, env.Client)
			if err == nil {
				break
			}
			c.cfg.Log.Warn("prepare a source", "source", s.LoopName(), "err", err)
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
		return s.Run(ctx, env)
	}}
}

// serverName tells this server from others that run the same cluster.
func (c *Cluster) serverName() string {
	if c.cfg.Together.Name != "" {
		return c.cfg.Together.Name
	}
	name, _ := os.Hostname() // no name is one too
	return name
}

// health returns a judge of the state as it is now, which says what differs between an object and what it should be.
func (c *Cluster) health() func(k resource.Kind, obj resource.Object) string {
	if c.door.explainer == nil {
		return func(resource.Kind, resource.Object) string { return "" }
	}
	now := c.door.explainer.board.World()
	return func(k resource.Kind, obj resource.Object) string { return now.Health(k, obj).Says }
}
