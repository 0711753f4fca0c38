// Package clusters keeps several named clusters on one machine: each with a directory, a network and a supervisor of its own.
//
// A cluster of real nodes has every node in a network namespace; a bridge joins them to each other and to the machine. A simulated one is
// a single process and needs no root. What a cluster is stands in ROOT/NAME/cluster.json and nowhere else; whether it runs, in the
// lock that its supervisor holds. Names, addresses and rules of the kernel follow from the cluster's name and index, so that clusters
// never share any.
package clusters

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ErrNone says that there is no cluster of that name.
var ErrNone = errors.New("there is no such cluster")

// file describes a cluster, in its directory.
const file = "cluster.json"

// A Cluster describes one cluster: the wish of its maker and what was chosen for it. Only Create sets the fields.
type Cluster struct {
	Name      string
	Nodes     int
	Simulated bool     // nodes are simulated, in one process
	Ports     []Port   // of the machine, that lead to nodes
	Args      []string // further arguments of kloop up
	NodeArgs  []string // those of them that kloop node has, too: for all nodes but the first
	From      string   // the directory in which relative paths of the arguments begin; "": the root
	Created   time.Time

	Index    int        // 0 to 255: no other cluster of the machine has it
	API      int        // port of the API
	Keyrings []Keyring  // kubeconfigs that know the cluster
	dir      string     // ROOT/NAME
	mountNS  []*os.File // the supervisor's: mount namespaces of real nodes
}

// A Keyring is a kubeconfig that a cluster's context was put into.
type Keyring struct {
	Path     string
	Previous string // the context that was current before; "": none
}

// A Root is the directory of all clusters of a user.
type Root string

// Default returns the directory of clusters: $KLOOP_CLUSTERS, /var/lib/kloop-clusters for root, and the user's state directory for others.
func Default() (Root, error) {
	if dir := os.Getenv("KLOOP_CLUSTERS"); dir != "" {
		abs, err := filepath.Abs(dir)
		return Root(abs), err
	}
	return defaultOf(os.Getuid())
}

func defaultOf(uid int) (Root, error) {
	if uid == 0 {
		return "/var/lib/kloop-clusters", nil
	}
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return Root(filepath.Join(dir, "kloop-clusters")), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("%w: set HOME, or KLOOP_CLUSTERS to a directory for clusters", err)
	}
	return Root(filepath.Join(home, ".local", "state", "kloop-clusters")), nil
}

// good are names that serve as file, host and context alike, short enough for the sockets of a runtime.
var good = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,22}[a-z0-9])?$`)

// CheckName says what is wrong with a name.
func CheckName(name string) error {
	if !good.MatchString(name) {
		return fmt.Errorf("%q can't be a cluster's name: 1 to 24 small letters, digits and dashes, a letter first and no dash last", name)
	}
	return nil
}

// List returns all clusters by their names. A directory whose description can't be read is an error, beside those that can.
func (r Root) List() (list []*Cluster, err error) {
	dirs, err := os.ReadDir(string(r))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the clusters: %w", err)
	}
	for _, d := range dirs {
		if CheckName(d.Name()) != nil || !d.IsDir() {
			continue
		}
		c, bad := r.Get(d.Name())
		if bad != nil {
			err = errors.Join(err, bad)
			continue
		}
		list = append(list, c)
	}
	return list, err
}

// Get returns a cluster; ErrNone if there is none of that name.
func (r Root) Get(name string) (*Cluster, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	c := &Cluster{dir: filepath.Join(string(r), name)}
	text, err := os.ReadFile(filepath.Join(c.dir, file))
	if errors.Is(err, fs.ErrNotExist) {
		if _, half := os.Stat(c.dir); half == nil {
			return nil, fmt.Errorf("%s has no %s: a directory that was made half, or is somebody else's; remove it by hand", c.dir, file)
		}
		return nil, fmt.Errorf("%s: %w; kloop list shows those that there are", name, ErrNone)
	}
	if err != nil {
		return nil, fmt.Errorf("read what cluster %s is: %w", name, err)
	}
	if err := json.Unmarshal(text, c); err != nil {
		return nil, fmt.Errorf("read what cluster %s is, in %s: %w", name, filepath.Join(c.dir, file), err)
	}
	if c.Name != name || c.Nodes < 1 || c.Index < 0 || c.Index > 255 {
		return nil, fmt.Errorf("%s does not describe cluster %s", filepath.Join(c.dir, file), name)
	}
	return c, nil
}

// save writes what the cluster is, whole or not at all.
func (c *Cluster) save() error {
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	return replace(filepath.Join(c.dir, file), append(text, '\n'), 0o644)
}

// replace writes a file whole or not at all.
func replace(path string, text []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// Dir is the cluster's directory.
func (c *Cluster) Dir() string { return c.dir }

// NodeDir is the data directory of a node, the first is 1. The first node's is that of the server, too.
func (c *Cluster) NodeDir(n int) string { return filepath.Join(c.dir, strconv.Itoa(n)) }

// NodeName is the name of a node, the first is 1.
func (c *Cluster) NodeName(n int) string { return c.Name + "-" + strconv.Itoa(n) }

// Log is the file of what the supervisor says.
func (c *Cluster) Log() string { return filepath.Join(c.dir, "kloop.log") }

// NodeLog is the file of what a node's process says.
func (c *Cluster) NodeLog(n int) string { return filepath.Join(c.dir, strconv.Itoa(n)+".log") }

// Address is that of a node, as the machine sees it.
func (c *Cluster) Address(n int) netip.Addr {
	if c.Simulated {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return netip.AddrFrom4([4]byte{10, 201, byte(c.Index), byte(1 + n)})
}

// Gateway is the machine in the cluster's network.
func (c *Cluster) Gateway() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 201, byte(c.Index), 1}), 24)
}

// Server is the URL of the API.
func (c *Cluster) Server() string {
	return "https://" + netip.AddrPortFrom(c.Address(1), uint16(c.API)).String()
}

// Context is the name of the cluster's context, cluster and user in kubeconfigs.
func (c *Cluster) Context() string { return contextPrefix + c.Name }

const contextPrefix = "kloop-"

// OfContext is the name of the cluster whose context it would be; "" for others.
func OfContext(context string) string {
	name, ok := strings.CutPrefix(context, contextPrefix)
	if !ok || CheckName(name) != nil {
		return ""
	}
	return name
}

// Admin is the administrator's kubeconfig.
func (c *Cluster) Admin() string { return filepath.Join(c.NodeDir(1), "admin.kubeconfig") }

// Sockets are those of the nodes' runtimes; a simulated cluster has none.
func (c *Cluster) Sockets() (list []string) {
	for n := 1; n <= c.Nodes && !c.Simulated; n++ {
		list = append(list, filepath.Join(c.NodeDir(n), "runtime", "run", "containerd.sock"))
	}
	return list
}

// free is the lowest index that no cluster has and that usable accepts.
func free(list []*Cluster, usable func(index int) bool) (int, error) {
	for i := range 256 {
		taken := slices.ContainsFunc(list, func(c *Cluster) bool { return c.Index == i })
		if !taken && usable(i) {
			return i, nil
		}
	}
	return 0, errors.New("no network of 10.201.0.0/16 is free for another cluster")
}
