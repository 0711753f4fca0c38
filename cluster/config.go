// Package cluster is the map: it puts the parts together in one process, in the order in which they start,
// and stops them in reverse. `kloop up` runs it; tests embed it.
package cluster

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// The stores.
const (
	StoreEtcd   = "etcd"   // embedded in this process, or EtcdServers
	StoreMemory = "memory" // gone when the process ends
)

// What a process does about a node of its own.
const (
	NodeAuto = "auto" // a real one if a container runtime can be had
	NodeReal = "real" // a real one, or fail
	NodeNone = "none"
)

// Config says what a process runs. The zero value is a whole cluster in memory, without a node, on a free
// port of the loopback address.
type Config struct {
	DataDir     string   // keys, certificates and the store; needed unless Store is memory
	Store       string   // StoreEtcd or StoreMemory; "": memory without DataDir, etcd with
	EtcdServers []string // use this etcd instead of an embedded one: https://host:2379
	EtcdTLS     EtcdTLS

	// EncryptionConfig names upstream's EncryptionConfiguration file; "": objects are stored in clear. It is read again
	// when it changes.
	EncryptionConfig string

	Listen string   // host:port of the API; "": 127.0.0.1:0
	Hosts  []string // further names and addresses that the serving certificate is good for

	NoLoops   bool // the front door alone: no controllers, no scheduler
	Node      string
	StaticDir string // manifests of the own node's static pods; "": none
	NodeName  string // "": the host's name
	NodeDir   string // runtime and volumes of the own node; "": DataDir
	SimNodes  int    // how many simulated nodes to make

	Kubeconfig string // where to write the administrator's kubeconfig; "": nowhere

	NodeMonitorGrace time.Duration // silence after which a node is not ready; 0: 50 s
	Log              *slog.Logger  // nil: the default logger
}

// EtcdTLS names the files of a client of an external etcd.
type EtcdTLS struct{ CA, Cert, Key string }

// withDefaults fills in and checks.
func (c Config) withDefaults() (Config, error) {
	if c.Store == "" {
		c.Store = StoreEtcd
		if c.DataDir == "" && len(c.EtcdServers) == 0 {
			c.Store = StoreMemory
		}
	}
	if c.Listen == "" {
		c.Listen = "127.0.0.1:0"
	}
	if c.Node == "" {
		c.Node = NodeNone
	}
	if c.NodeDir == "" {
		c.NodeDir = c.DataDir
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	switch {
	case c.Store != StoreEtcd && c.Store != StoreMemory:
		return c, fmt.Errorf("store %q: use etcd or memory", c.Store)
	case c.Store == StoreEtcd && c.DataDir == "":
		return c, errors.New("the etcd store needs a data directory")
	case c.Store == StoreMemory && len(c.EtcdServers) > 0:
		return c, errors.New("the memory store and etcd servers exclude each other")
	case c.Node != NodeAuto && c.Node != NodeReal && c.Node != NodeNone:
		return c, fmt.Errorf("node %q: use auto, real or none", c.Node)
	case c.Node != NodeNone && c.NodeDir == "":
		return c, errors.New("a node of its own needs a directory: NodeDir or DataDir")
	case c.SimNodes < 0:
		return c, fmt.Errorf("%d simulated nodes: can't be negative", c.SimNodes)
	}
	return c, nil
}
