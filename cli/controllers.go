package cli

import (
	"context"
	"os"
	"time"

	"github.com/kloop-dev/kloop/cli/settings"
	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/internal/wallclock"
	"github.com/kloop-dev/kloop/kit/whole"
)

// controllersCmd runs the loops against a server elsewhere. Several replicas elect one that works.
func controllersCmd(ctx context.Context, std stdio, args []string) error {
	fs := flags(std, "controllers", "")
	config := fs.String("kubeconfig", os.Getenv("KUBECONFIG"), "how to reach the server")
	lease := fs.Duration("lease", 15*time.Second, "how long a leader is believed without a sign of life")
	o := settings.Defaults()
	s := settings.New(&o)
	file := s.Bind(fs, settings.Controllers)
	if err := parse(fs, args); err != nil {
		return err
	}
	if err := fill(s, &o, *file); err != nil {
		return err
	}
	log, err := logger(std, o.LogLevel, o.LogFormat)
	if err != nil {
		return err
	}
	heed(ctx, std, s)
	rest, err := connection(*config)
	if err != nil {
		return err
	}
	o.Kit = whole.Kit()
	return s.Blame(cluster.RunLoops(ctx, cluster.Loops{Rest: rest, Config: o.Config, Log: log, Clock: wallclock.Watch,
		Election: client.Election{
			Namespace: "kube-system", Name: "kube-controller-manager", Duration: *lease, Renew: *lease / 5,
			Identity: cluster.Identity()}}), nil)
}
