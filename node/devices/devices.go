// Package devices is the device manager of a node: it gives containers the devices of device plugins (v1beta1, KEP-3573), and keeps
// who has which.
//
//	reads   plugins that register at DIR/device-plugins/kubelet.sock; what they list
//	writes  DIR/device-plugins/kubelet_internal_checkpoint
//	rule    a device is one pod's at a time, for as long as the pod is on the node, whatever restarts
//
// A plugin registers and lists its devices; it may go and register again at any time. Containers keep the devices that they were given.
package devices

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	pluginv1 "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/kloop-dev/kloop/node/topology"
)

// Config says where plugins are and who wants to know of changes. Both functions are called without locks held, from any goroutine.
type Config struct {
	Dir     string          // the agent's root directory
	Boot    string          // names the run of the machine since it was switched on: files and modes of devices are gone after it
	Changed func()          // what the node has to give has changed
	Health  func(types.UID) // the health of a device that the pod has has changed
	Log     *slog.Logger    // nil: the default
}

// A Stock holds the devices of the node. Make it with New. Safe for concurrent use.
type Stock struct {
	cfg Config
	log *slog.Logger

	guests sync.WaitGroup // goroutines of plugins that came by the Handler: they end with their sockets

	mu    sync.Mutex
	of    map[string]*supply // by resource name
	given map[types.UID]map[string]map[string]*grant
}

// A supply holds the devices of one resource.
type supply struct {
	all    map[string]device // as its plugin listed them last
	plugin *plugin           // nil: it is gone
	late   *time.Timer       // ends the patience with a plugin that is gone
}

type device struct {
	healthy bool
	on      topology.Mask
}

// A grant holds the devices of one resource that one container has.
type grant struct {
	ids    []string
	answer *pluginv1.ContainerAllocateResponse // nil: the plugin is to be asked, at admission or after a reboot
}

// patience bounds for how long a node shows the capacity of a plugin that is gone, as in the kubelet.
const patience = 5 * time.Minute

// New returns the stock as the last agent left it: its devices count as unhealthy until their plugins are back.
func New(cfg Config) *Stock {
	s := &Stock{cfg: cfg, log: cmp.Or(cfg.Log, slog.Default()), of: map[string]*supply{}, given: map[types.UID]map[string]map[string]*grant{}}
	s.load()
	return s
}

// Resources counts what the node has of every resource, and how much of it is healthy. A resource whose plugin has been gone for long
// counts zero.
func (s *Stock) Resources() (capacity, allocatable corev1.ResourceList) {
	s.mu.Lock()
	defer s.mu.Unlock()
	capacity, allocatable = corev1.ResourceList{}, corev1.ResourceList{}
	for name, sup := range s.of {
		capacity[corev1.ResourceName(name)] = *apiresource.NewQuantity(int64(len(sup.all)), apiresource.DecimalSI)
		allocatable[corev1.ResourceName(name)] = *apiresource.NewQuantity(int64(len(sup.healthy())), apiresource.DecimalSI)
	}
	return capacity, allocatable
}

func (u *supply) healthy() (ids []string) {
	for id, d := range u.all {
		if d.healthy {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// listed takes what a plugin says that it has, if it is still the plugin of its resource.
func (s *Stock) listed(p *plugin, list []*pluginv1.Device) {
	all := make(map[string]device, len(list))
	for _, d := range list {
		if d.GetID() == "" {
			continue
		}
		on := topology.Mask(0)
		for _, n := range d.GetTopology().GetNodes() {
			on |= topology.MaskOf(int(n.GetID()))
		}
		all[d.ID] = device{healthy: d.Health == pluginv1.Healthy, on: on}
	}
	s.replace(p, all, false)
}

// lost takes note that a plugin does not answer any more. Its devices stay, unhealthy, and go when it stays away.
func (s *Stock) lost(p *plugin) {
	s.mu.Lock()
	sup := s.of[p.resource]
	if sup == nil || sup.plugin != p {
		s.mu.Unlock()
		return
	}
	all := make(map[string]device, len(sup.all))
	for id, d := range sup.all {
		d.healthy = false
		all[id] = d
	}
	sup.late = s.expire(p.resource)
	s.mu.Unlock()
	s.replace(p, all, true)
}

// note writes the checkpoint where nothing depends on it: what it leaves out is found out again. s is locked.
func (s *Stock) note() {
	if err := s.save(); err != nil {
		s.log.Warn("the next agent will not know who has which devices", "err", err)
	}
}

// expire forgets the devices of a resource when its plugin has been gone for long. s is locked.
func (s *Stock) expire(resource string) *time.Timer {
	return time.AfterFunc(patience, func() {
		s.mu.Lock()
		sup := s.of[resource]
		if sup.plugin != nil {
			s.mu.Unlock()
			return
		}
		sup.all = nil
		s.note()
		s.mu.Unlock()
		s.cfg.Changed()
	})
}

// replace puts what a plugin has in the place of what it had, and tells whom that concerns. gone: it is the last that it said.
func (s *Stock) replace(p *plugin, all map[string]device, gone bool) {
	s.mu.Lock()
	sup := s.of[p.resource]
	if sup == nil || sup.plugin != p {
		s.mu.Unlock()
		return
	}
	if gone {
		sup.plugin = nil
	}
	if !gone && maps.Equal(sup.all, all) {
		s.mu.Unlock()
		return
	}
	before := sup.all
	sup.all = all
	s.note()
	concerned := s.holders(p.resource, func(id string) bool { return gone || before[id].healthy != all[id].healthy })
	s.mu.Unlock()
	s.cfg.Changed()
	for _, uid := range concerned {
		s.cfg.Health(uid)
	}
}

// holders are the pods that have one of some devices. s is locked.
func (s *Stock) holders(resource string, of func(id string) bool) (list []types.UID) {
	for uid, containers := range s.given {
		for _, by := range containers {
			if g := by[resource]; g != nil && slices.ContainsFunc(g.ids, of) {
				list = append(list, uid)
				break
			}
		}
	}
	return list
}

// Free takes back what a pod has. It is called when no process of the pod can use it any more.
func (s *Stock) Free(pod types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.given[pod] != nil {
		delete(s.given, pod)
		s.note()
	}
}

// Keep takes back what all pods have but those.
func (s *Stock) Keep(used map[types.UID]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.given)
	maps.DeleteFunc(s.given, func(uid types.UID, _ map[string]map[string]*grant) bool { return !used[uid] })
	if len(s.given) != before {
		s.note()
	}
}

// Status tells the health of a container's devices, by resource; none for a container that has none.
func (s *Stock) Status(pod types.UID, container string) (list []corev1.ResourceStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	by := s.given[pod][container]
	for _, name := range slices.Sorted(maps.Keys(by)) {
		st := corev1.ResourceStatus{Name: corev1.ResourceName(name)}
		for _, id := range by[name].ids {
			st.Resources = append(st.Resources, corev1.ResourceHealth{ResourceID: corev1.ResourceID(id), Health: s.health(name, id)})
		}
		list = append(list, st)
	}
	return list
}

// health is a device's. Nobody knows that of one whose plugin is gone. s is locked.
func (s *Stock) health(resource, id string) corev1.ResourceHealthStatus {
	sup := s.of[resource]
	switch {
	case sup == nil || sup.plugin == nil:
		return corev1.ResourceHealthStatusUnknown
	case sup.all[id].healthy:
		return corev1.ResourceHealthStatusHealthy
	}
	return corev1.ResourceHealthStatusUnhealthy
}
