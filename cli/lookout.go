package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/kit/whole"
	"github.com/kloop-dev/kloop/survey"
)

// lookout explains another cluster to all its users: it is a server that extends that cluster's API.
func lookout(ctx context.Context, std stdio, args []string) error {
	fs := flags(std, "lookout", "")
	config := fs.String("kubeconfig", "", "how to reach the cluster; without it, by the service account of the pod that this runs in")
	listen := fs.String("listen", ":6443", "address at which the cluster's API server asks, host:port")
	every := fs.Duration("every", 15*time.Second, "how often to read the cluster, at least; a large one is read less often")
	level := fs.String("log", "info", "debug, info, warn or error")
	if err := parse(fs, args); err != nil {
		return err
	}
	if *every < time.Second {
		return misused(fs)
	}
	log, err := logger(std, *level, "text")
	if err != nil {
		return err
	}
	cfg, err := rest.InClusterConfig()
	if *config != "" {
		cfg, err = connection(*config)
	}
	if errors.Is(err, rest.ErrNotInCluster) {
		return errors.New("say how to reach the cluster with --kubeconfig FILE, or run this in a pod of it")
	}
	if err != nil {
		return fmt.Errorf("reach the cluster: %w", err)
	}
	cfg.UserAgent = "kloop-lookout"
	cfg.QPS, cfg.Burst = 200, 400 // a look lists page after page, a few at once; and each reader's rights are asked for
	c, err := cluster.Start(ctx, cluster.Config{Kit: whole.Kit(), Store: cluster.StoreMemory, Listen: *listen, Log: log,
		Explains: &cluster.Elsewhere{Rest: cfg, Every: *every, Survey: survey.World}})
	if err != nil {
		return err
	}
	log.Info("explains " + cfg.Host + " at " + c.URL())
	return c.Wait()
}
