package machine

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/node"
	"github.com/kloop-dev/kloop/node/runtime"
)

// Here is the machine that this process runs on, as a node of the cluster in the same process: a runtime, an agent and the node's loops.
var Here cluster.Machine = here{}

type here struct{}

// Where a node keeps local storage, and a link to its agent's root directory, below its data directory.
const (
	storageDir = "storage"
	agentDir   = "node"
)

// runtimeOf is the runtime that the machine starts, or has.
func runtimeOf(c cluster.Config) runtime.Config {
	return runtime.Config{Socket: c.RuntimeSocket, Dir: filepath.Join(c.NodeDir, "runtime"), Foreign: c.Network == cluster.NetworkNone,
		Log: c.Log}
}

func (here) Check(c cluster.Config) error {
	var cfg node.Config
	var err error
	if s := c.RuntimeSocket; s != "" && !filepath.IsAbs(s) {
		err = fmt.Errorf("the runtime's socket %q: want its absolute path", s)
	}
	rt := runtimeOf(c)
	return errors.Join(err, reserve(c.NodeResources, &cfg), images(c.NodeImages, &cfg, &rt), linger(c.NodeShutdown, &cfg),
		place(c.NodeTopology, &cfg))
}

func (here) Fit(c cluster.Config) error {
	own := runtimeOf(c)
	if err := runtime.Available(own); err != nil {
		return err
	}
	if err := rootless(own.Dir); err != nil {
		return err
	}
	return layered(own.Dir)
}

func (here) Parts(h cluster.Host) ([]cluster.Part, error) {
	c, storage := h.Config, ""
	dir := filepath.Join(c.NodeDir, agentDir)
	if !c.NoLocalStorage {
		storage = filepath.Join(c.NodeDir, storageDir)
	}
	return Config{Name: h.Name, Address: h.Address, Second: h.Second, Dir: cmp.Or(c.RootDir, dir), Former: dir, StaticDir: c.StaticDir,
		Storage: storage,
		Runtime: runtimeOf(c), Serving: h.Serving, Callers: h.Callers, Client: h.Client, ProxyClient: h.ProxyClient, Events: h.Events,
		Loops: h.Loops,
		Beat:  h.Beat, Proxy: true, Services: c.ServiceCIDRs, ProxyMode: c.ProxyMode, ProxyScheduler: c.ProxyScheduler, IPVS: c.IPVS,
		NodePortAddresses: c.NodePortAddresses, PodCIDRs: h.PodCIDRs, Network: c.Network, DNS: c.DNS, NoPolicies: c.NoPolicies,
		Pressure: c.Pressure, Resources: c.NodeResources, Shutdown: c.NodeShutdown, LogQuery: c.NodeLogQuery, Topology: c.NodeTopology,
		Images: c.NodeImages, Log: c.Log}.parts()
}
