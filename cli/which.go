package cli

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kloop-dev/kloop/cli/ask"
	"github.com/kloop-dev/kloop/clusters"
	"github.com/kloop-dev/kloop/kinds/convergence"
)

// which is ask.Which: all commands speak to the same cluster.
func which(kubeconfig string) (rules *clientcmd.ClientConfigLoadingRules, because string) {
	return ask.Which(kubeconfig)
}

// chosen reads the connection to the cluster that a command speaks to.
func chosen(kubeconfig, kubecontext string) (clientcmd.ClientConfig, *rest.Config, error) {
	rules, because := which(kubeconfig)
	cc := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: kubecontext})
	cfg, err := cc.ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, nil, ask.ErrNowhere
	case err != nil:
		return nil, nil, fmt.Errorf("read the kubeconfig (%s): %w", because, err)
	}
	return cc, cfg, nil
}

// doorOf is chosen for a page of a server of ours, with the client that may read it.
func doorOf(kubeconfig string) (*http.Client, *rest.Config, error) {
	_, cfg, err := chosen(kubeconfig, "")
	if err != nil {
		return nil, nil, err
	}
	door, err := rest.HTTPClientFor(cfg)
	return door, cfg, err
}

// status says which cluster commands speak to, by which rule, and how it is.
func status(ctx context.Context, std stdio, args []string) error {
	fs := flags(std, "status", "[NAME]")
	config := fs.String("kubeconfig", "", "how to reach the server (default: as other commands do)")
	kubecontext := fs.String("context", "", "context of the kubeconfig")
	words, err := wordsOf(fs, args, 0, 1)
	if err != nil {
		return err
	}
	if len(words) > 0 {
		return nameStatus(ctx, std, words)
	}
	cc, cfg, err := chosen(*config, *kubecontext)
	if err != nil {
		return err
	}
	raw, err := cc.RawConfig()
	if err != nil {
		return err
	}
	name := cmp.Or(*kubecontext, raw.CurrentContext)
	_, because := which(*config)
	fmt.Fprintf(std.out, "cluster   %s at %s\nbecause   %s\n", name, cfg.Host, because)
	if local := clusters.OfContext(name); local != "" {
		if root, err := clusters.Default(); err == nil {
			if c, err := root.Get(local); err == nil && !c.Running() {
				fmt.Fprintf(std.out, "state     stopped: kloop start %s\n", local)
				return exitError(1)
			}
		}
	}
	a, err := ask.New(cfg, "")
	if err != nil {
		return err
	}
	return askStatus(ctx, std, a)
}

// nameStatus tells how a named cluster is.
func nameStatus(ctx context.Context, std stdio, words []string) error {
	c, err := pick(words)
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, "cluster   %s at %s\nbecause   it was named\n", c.Name, c.Server())
	if !c.Running() {
		fmt.Fprintf(std.out, "state     stopped: kloop start %s\n", c.Name)
		return exitError(1)
	}
	a, err := askerOf(c)
	if err != nil {
		return err
	}
	return askStatus(ctx, std, a)
}

// askerOf asks a named cluster, whatever the kubeconfig says.
func askerOf(c *clusters.Cluster) (*ask.Asker, error) {
	raw, err := c.Kubeconfig()
	if err != nil {
		return nil, err
	}
	cfg, err := clientcmd.NewDefaultClientConfig(*raw, nil).ClientConfig()
	if err != nil {
		return nil, err
	}
	return ask.New(cfg, "")
}

func askStatus(ctx context.Context, std stdio, a *ask.Asker) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return tellStatus(ctx, std, a)
}

// tellStatus asks the server how it is. What it may not be asked is left out.
func tellStatus(ctx context.Context, std stdio, a *ask.Asker) error {
	var v version.Info
	if err := a.Get(ctx, "/version", &v); err != nil {
		fmt.Fprintf(std.out, "state     does not answer: %v\n", err)
		return exitError(1)
	}
	fmt.Fprintf(std.out, "version   %s\n", v.GitVersion)
	if ready, all, err := readyNodes(ctx, a); err == nil {
		fmt.Fprintf(std.out, "nodes     %d of %d ready\n", ready, all)
	}
	var gaps struct {
		Items []convergence.Gap `json:"items"`
	}
	if err := a.Get(ctx, ask.Within("", "gaps"), &gaps); err == nil {
		fmt.Fprintf(std.out, "gaps      %d%s\n", len(gaps.Items), map[bool]string{true: "", false: ": kloop gaps -A"}[len(gaps.Items) == 0])
	}
	fmt.Fprintf(std.out, "state     running\n")
	return nil
}

// readyNodes counts the nodes of a cluster.
func readyNodes(ctx context.Context, a *ask.Asker) (ready, all int, err error) {
	var nodes corev1.NodeList
	if err := a.Get(ctx, "/api/v1/nodes", &nodes); err != nil {
		return 0, 0, err
	}
	for i := range nodes.Items {
		for _, c := range nodes.Items[i].Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				ready++
			}
		}
	}
	return ready, len(nodes.Items), nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
