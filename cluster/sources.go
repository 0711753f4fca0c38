package cluster

import (
	"context"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/controllers/gitsource"
	"github.com/kloop-dev/kloop/controllers/manifests"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
)

// sources are the loops that apply what lies outside of the cluster: files of this machine, and Git repositories. Who may write
// the files is root here, and who may make a GitSource may do all in the cluster: they act with all rights.
func (c *Cluster) sources() (list []part) {
	run := func(l loop.Loop, manager string, first func(context.Context, client.Client) error) {
		list = append(list, part{l.LoopName(), func(ctx context.Context, ready func()) error {
			ready()
			env := loop.Env{Client: c.door.local(&auth.User{Name: "system:kloop:" + manager, Groups: []string{auth.GroupMasters,
				auth.GroupAuthenticated}}, manager), Log: c.cfg.Log, Events: c.door.events.For(manager, ""), Now: time.Now,
				Watch: c.Loops, Trail: c.door.trail != nil, Resync: c.cfg.resync(l.LoopName())}
			for first != nil && ctx.Err() == nil {
				err := first(ctx, env.Client)
				if err == nil {
					break
				}
				c.cfg.Log.Warn("define the kind of Git sources", "err", err)
				select {
				case <-ctx.Done():
				case <-time.After(time.Second):
				}
			}
			return l.Run(ctx, env)
		}})
	}
	if c.cfg.ManifestsDir != "" {
		run(manifests.Controller(c.cfg.ManifestsDir, c.serverName()), "manifests", nil)
	}
	if c.cfg.GitSources {
		run(gitsource.Controller(gitsource.Config{Dir: c.cfg.GitDir, Health: c.health}), "git-source", defineGitSources)
	}
	return list
}

// serverName tells this server from others that run the same cluster.
func (c *Cluster) serverName() string {
	if c.cfg.Together.Name != "" {
		return c.cfg.Together.Name
	}
	name, _ := os.Hostname() // no name is one too
	return name
}

// defineGitSources applies the definition of the kind.
func defineGitSources(ctx context.Context, cl client.Client) error {
	def, err := gitsource.Definition()
	if err != nil {
		return err
	}
	data, err := codec.MarshalJSON(def)
	if err != nil {
		return err
	}
	_, err = cl.Patch(ctx, kinds.CustomResourceDefinitions, "", def.GetName(), client.Patch{Type: types.ApplyPatchType, Data: data, Force: true})
	return err
}

// health returns a judge of the state as it is now, which says what differs between an object and what it should be.
func (c *Cluster) health() func(k resource.Kind, obj resource.Object) string {
	if c.door.lookout == nil {
		return func(resource.Kind, resource.Object) string { return "" }
	}
	now := c.door.lookout.board.World()
	return func(k resource.Kind, obj resource.Object) string { return now.Health(k, obj).Says }
}
