package clusters

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kloop-dev/kloop/strict"
)

// MostNodes bounds a cluster of real nodes; each is a process with a runtime of its own. Simulated ones are bounded by MostSimulated.
const (
	MostNodes     = 50
	MostSimulated = 10000
)

// errExists is a name that is taken.
var errExists = errors.New("exists already")

// Create makes a cluster of what is asked for: name, nodes, ports, arguments. It runs nothing. The name must be free.
func (r Root) Create(c *Cluster) (err error) {
	most := MostNodes
	if c.Simulated {
		most = MostSimulated
	}
	if err := supervised(); err != nil {
		return err
	}
	if err := strict.Refuse(check(c, most)); err != nil {
		return err
	}
	if !c.Simulated {
		if err := canNetwork(); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(string(r), 0o755); err != nil {
		return fmt.Errorf("make the directory of clusters: %w: KLOOP_CLUSTERS names another one", err)
	}
	unlock, err := hold(filepath.Join(string(r), ".lock"), true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	list, err := r.List()
	if err != nil {
		return err
	}
	for _, other := range list {
		if err := c.beside(other); err != nil {
			return err
		}
	}
	if c.Index, err = free(list, func(i int) bool { return c.Simulated || unused((&Cluster{Index: i}).Gateway().Masked()) }); err != nil {
		return err
	}
	if c.API = 6443; c.Simulated {
		if c.API, err = freePort(list); err != nil {
			return err
		}
	}
	c.dir, c.Created = filepath.Join(string(r), c.Name), time.Now().UTC().Truncate(time.Second)
	if err := os.Mkdir(c.dir, 0o755); err != nil {
		return fmt.Errorf("make the cluster's directory: %w", err)
	}
	return c.save()
}

// check says what of a cluster can't be meant; it has so many nodes at most.
func check(c *Cluster, most int) error {
	if err := CheckName(c.Name); err != nil {
		return err
	}
	if c.Nodes < 1 || c.Nodes > most {
		return fmt.Errorf("%d nodes: it must be 1 to %d", c.Nodes, most)
	}
	for _, p := range c.Ports {
		if err := p.check(c); err != nil {
			return err
		}
	}
	return checkArgs(c)
}

// checkArgs refuses flags that the cluster's own command line has: with another address or directory nobody would find it.
func checkArgs(c *Cluster) error {
	plain := *c
	plain.Args, plain.Nodes = nil, max(c.Nodes, 1)
	for _, a := range c.Args {
		name, _, _ := strings.Cut("--"+strings.TrimLeft(a, "-"), "=")
		if strings.HasPrefix(a, "-") && name != "--hosts" && !slices.Contains(borrowed, name) && slices.Contains(plain.command(1), name) {
			return fmt.Errorf("%s is set for every cluster by kloop create: leave it away", name)
		}
	}
	return nil
}

// beside says why the cluster can't be beside another.
func (c *Cluster) beside(other *Cluster) error {
	if c.Name == other.Name {
		return fmt.Errorf("cluster %s %w: kloop start %s, or kloop delete %s", c.Name, errExists, c.Name, c.Name)
	}
	for _, p := range c.Ports {
		for _, q := range other.Ports {
			if p.Host == q.Host {
				return fmt.Errorf("port %d of this machine leads to cluster %s", p.Host, other.Name)
			}
		}
	}
	return nil
}

// freePort is a port of the loopback that nobody listens at and no cluster has. It stays the cluster's while that is stopped.
func freePort(list []*Cluster) (int, error) {
	taken := map[int]bool{}
	for _, c := range list {
		if c.Simulated {
			taken[c.API] = true
		}
	}
	for port := 16443; port < 17443; port++ {
		if taken[port] {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		return port, l.Close()
	}
	return 0, errors.New("no port from 16443 to 17442 is free for the API")
}

// Delete stops the cluster and removes all of it: processes, network, kubeconfig entries, data.
func (c *Cluster) Delete(ctx context.Context, out io.Writer) error {
	if err := c.Stop(ctx, out); err != nil {
		return err
	}
	var err error
	for _, k := range c.Keyrings {
		err = errors.Join(err, k.drop(c.Context()))
	}
	if err = errors.Join(err, c.forget()); err != nil {
		return err
	}
	if err := os.RemoveAll(c.dir); err != nil {
		return fmt.Errorf("remove the cluster's data: %w", err)
	}
	return nil
}

// forget has clusters that came after this one in a kubeconfig go back to the context before it when they go.
func (c *Cluster) forget() error {
	list, _ := Root(filepath.Dir(c.dir)).List() // broken ones have nothing to go back to
	var err error
	for _, other := range list {
		changed := false
		for i := range other.Keyrings {
			for _, k := range c.Keyrings {
				if other.Name != c.Name && other.Keyrings[i] == (Keyring{k.Path, c.Context()}) {
					other.Keyrings[i].Previous, changed = k.Previous, true
				}
			}
		}
		if changed {
			err = errors.Join(err, other.save())
		}
	}
	return err
}
