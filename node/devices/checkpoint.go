package devices

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"
	pluginv1 "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/kloop-dev/kloop/internal/atomicfile"
	"github.com/kloop-dev/kloop/node/topology"
)

// The checkpoint holds who has which devices. Its fields and its place are the kubelet's, for programs that read it; the kubelet's
// checksum is neither written nor read.
type checkpoint struct {
	Data struct {
		PodDeviceEntries  []entry
		RegisteredDevices map[string][]string
	}
	Boot string // the run of the machine in which plugins answered; the kubelet has no such field
}

type entry struct {
	PodUID        types.UID
	ContainerName string
	ResourceName  string
	DeviceIDs     map[string][]string // by NUMA node; -1: on none
	AllocResp     []byte
}

func (c Config) dir() string { return filepath.Join(c.Dir, "device-plugins") }

func (c Config) checkpoint() string { return filepath.Join(c.dir(), "kubelet_internal_checkpoint") }

// load reads the checkpoint. One that can't be read is set aside: containers that run keep their devices, but the next may get the same.
func (s *Stock) load() {
	text, err := os.ReadFile(s.cfg.checkpoint())
	if errors.Is(err, fs.ErrNotExist) {
		return // no agent gave devices here yet
	}
	var c checkpoint
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		err = errors.Join(err, os.Rename(s.cfg.checkpoint(), s.cfg.checkpoint()+".bad"))
		s.log.Warn("who has which devices can't be read and is forgotten", "err", err)
		return
	}
	for name, ids := range c.Data.RegisteredDevices {
		sup := &supply{all: map[string]device{}}
		for _, id := range ids {
			sup.all[id] = device{}
		}
		s.of[name] = sup
	}
	for _, e := range c.Data.PodDeviceEntries {
		s.restore(e, c.Boot == s.cfg.Boot)
	}
}

// restore gives a container back what it has. same: the machine has not been switched off since.
func (s *Stock) restore(e entry, same bool) {
	g := &grant{}
	for _, node := range slices.Sorted(maps.Keys(e.DeviceIDs)) {
		g.ids = append(g.ids, e.DeviceIDs[node]...)
	}
	answer := &pluginv1.ContainerAllocateResponse{}
	if same && len(e.AllocResp) > 0 && proto.Unmarshal(e.AllocResp, answer) == nil {
		g.answer = answer
	}
	if s.given[e.PodUID] == nil {
		s.given[e.PodUID] = map[string]map[string]*grant{}
	}
	if s.given[e.PodUID][e.ContainerName] == nil {
		s.given[e.PodUID][e.ContainerName] = map[string]*grant{}
	}
	s.given[e.PodUID][e.ContainerName][e.ResourceName] = g
	if s.of[e.ResourceName] == nil {
		s.of[e.ResourceName] = &supply{}
	}
}

// save writes the checkpoint for the next agent. s is locked. Until it is written, a change of it must not be acted upon.
func (s *Stock) save() error {
	c := checkpoint{Boot: s.cfg.Boot}
	c.Data.RegisteredDevices = map[string][]string{}
	for name, sup := range s.of {
		c.Data.RegisteredDevices[name] = slices.Sorted(maps.Keys(sup.all))
	}
	for _, pod := range slices.Sorted(maps.Keys(s.given)) {
		for _, container := range slices.Sorted(maps.Keys(s.given[pod])) {
			for _, name := range slices.Sorted(maps.Keys(s.given[pod][container])) {
				e, err := s.entry(pod, container, name)
				if err != nil {
					return err
				}
				c.Data.PodDeviceEntries = append(c.Data.PodDeviceEntries, e)
			}
		}
	}
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	file := s.cfg.checkpoint()
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return fmt.Errorf("keep who has which devices: %w", err)
	}
	if err := atomicfile.Write(file, text, 0o600); err != nil {
		return fmt.Errorf("keep who has which devices: %w", err)
	}
	return nil
}

func (s *Stock) entry(pod types.UID, container, name string) (entry, error) {
	g := s.given[pod][container][name]
	e := entry{PodUID: pod, ContainerName: container, ResourceName: name, DeviceIDs: map[string][]string{}}
	for _, id := range g.ids {
		node := -1
		if on := s.of[name].on(id).Nodes(); len(on) > 0 {
			node = on[0]
		}
		e.DeviceIDs[strconv.Itoa(node)] = append(e.DeviceIDs[strconv.Itoa(node)], id)
	}
	if g.answer == nil {
		return e, nil
	}
	text, err := proto.Marshal(g.answer)
	if err != nil {
		return e, fmt.Errorf("keep what the device plugin of %s answered: %w", name, err)
	}
	e.AllocResp = text
	return e, nil
}

func (u *supply) on(id string) topology.Mask {
	if u == nil {
		return 0
	}
	return u.all[id].on
}
