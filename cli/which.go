package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
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

// A clusterState holds what kloop status tells.
type clusterState struct {
	Cluster  string   `json:"cluster"`
	Server   string   `json:"server"`
	Because  string   `json:"because"`
	State    string   `json:"state"` // running, stopped, or no answer
	Version  string   `json:"version,omitempty"`
	Emulated string   `json:"emulated,omitempty"` // the version that the server shows to clients, when it is another: 1.36
	Nodes    *counted `json:"nodes,omitempty"`    // what the caller may not see is left out
	Gaps     *int     `json:"gaps,omitempty"`
	Error    string   `json:"error,omitempty"` // why there is no answer

	local string // the name of a cluster of this machine
}

type counted struct {
	Ready int `json:"ready"`
	All   int `json:"all"`
}

// The states of a cluster.
const (
	stateRunning = "running"
	stateStopped = "stopped"
	stateSilent  = "no answer"
)

// status says which cluster commands speak to, by which rule, and how it is.
func status(ctx context.Context, std stdio, args []string) error {
	fs := flags(std, "status", "[NAME]")
	config := fs.String("kubeconfig", "", "how to reach the server (default: as other commands do)")
	kubecontext := fs.String("context", "", "context of the kubeconfig")
	words, err := wordsOf(fs, args, 0, 1)
	if err != nil {
		return err
	}
	s := &clusterState{State: stateStopped}
	var a *ask.Asker
	if len(words) > 0 {
		a, err = s.ofName(words)
	} else {
		a, err = s.ofContext(*config, *kubecontext)
	}
	if err != nil {
		return err
	}
	if a != nil {
		s.ask(ctx, a)
	}
	err = answer(std, fs, s, s.text)
	if err == nil && s.State != stateRunning {
		err = exitError(1)
	}
	return err
}

// ofContext finds the cluster that commands speak to. There is nobody to ask where it is stopped.
func (s *clusterState) ofContext(config, kubecontext string) (*ask.Asker, error) {
	cc, cfg, err := chosen(config, kubecontext)
	if err != nil {
		return nil, err
	}
	raw, err := cc.RawConfig()
	if err != nil {
		return nil, err
	}
	s.Cluster, s.Server = cmp.Or(kubecontext, raw.CurrentContext), cfg.Host
	_, s.Because = which(config)
	if s.local = clusters.OfContext(s.Cluster); s.local != "" {
		if root, err := clusters.Default(); err == nil {
			if c, err := root.Get(s.local); err == nil && !c.Running() {
				return nil, nil
			}
		}
	}
	return ask.New(cfg, "")
}

// ofName finds a named cluster.
func (s *clusterState) ofName(words []string) (*ask.Asker, error) {
	c, err := pick(words)
	if err != nil {
		return nil, err
	}
	s.Cluster, s.Server, s.Because, s.local = c.Name, c.Server(), "it was named", c.Name
	if !c.Running() {
		return nil, nil
	}
	return askerOf(c)
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

// ask asks the server how it is.
func (s *clusterState) ask(ctx context.Context, a *ask.Asker) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var v version.Info
	if err := a.Get(ctx, "/version", &v); err != nil {
		s.State, s.Error = stateSilent, outOfTime(err).Error()
		return
	}
	s.State, s.Version = stateRunning, v.GitVersion
	if v.EmulationMinor != v.Minor && v.EmulationMinor != "" {
		s.Emulated = v.EmulationMajor + "." + v.EmulationMinor
	}
	if ready, all, err := readyNodes(ctx, a); err == nil {
		s.Nodes = &counted{ready, all}
	}
	var gaps struct {
		Items []convergence.Gap `json:"items"`
	}
	if err := a.Get(ctx, ask.Within("", "gaps"), &gaps); err == nil {
		n := len(gaps.Items)
		s.Gaps = &n
	}
}

// text is the state for people.
func (s *clusterState) text(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "cluster   %s at %s\nbecause   %s\n", s.Cluster, s.Server, s.Because)
	if s.Version != "" {
		fmt.Fprintf(&b, "version   %s\n", s.Version)
	}
	if s.Emulated != "" {
		fmt.Fprintf(&b, "as        %s, which it emulates\n", s.Emulated)
	}
	if s.Nodes != nil {
		fmt.Fprintf(&b, "nodes     %d of %d ready\n", s.Nodes.Ready, s.Nodes.All)
	}
	if s.Gaps != nil {
		fmt.Fprintf(&b, "gaps      %d%s\n", *s.Gaps, map[bool]string{true: "", false: ": kloop gaps -A"}[*s.Gaps == 0])
	}
	switch s.State {
	case stateStopped:
		fmt.Fprintf(&b, "state     stopped: kloop start %s\n", s.local)
	case stateSilent:
		fmt.Fprintf(&b, "state     does not answer: %s\n", s.Error)
	default:
		fmt.Fprintf(&b, "state     %s\n", s.State)
	}
	_, err := io.WriteString(w, b.String())
	return err
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
