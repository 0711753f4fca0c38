package devices

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	pluginv1 "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// Options hold what the runtime must give a container so that it can use its devices.
type Options struct {
	Env     []*cri.KeyValue
	Mounts  []*cri.Mount
	Devices []*cri.Device
	Notes   map[string]string // annotations of the container
	CDI     []*cri.CDIDevice
}

// Start makes a container's devices ready and returns how it gets them. It is called before each start of the container, after
// Take. What plugins say twice counts once: the first says it.
func (s *Stock) Start(ctx context.Context, pod types.UID, container string) (Options, error) {
	if err := s.Allocate(ctx, pod, container); err != nil {
		return Options{}, err
	}
	s.mu.Lock()
	by := maps.Clone(s.given[pod][container])
	s.mu.Unlock()
	var o Options
	for _, name := range slices.Sorted(maps.Keys(by)) {
		if err := s.prepare(ctx, name, by[name].ids); err != nil {
			return Options{}, err
		}
		s.mu.Lock()
		answer := by[name].answer
		s.mu.Unlock()
		o.add(answer)
	}
	return o, nil
}

// prepare tells a plugin that wants to know it that a container is about to start with devices of its.
func (s *Stock) prepare(ctx context.Context, name string, ids []string) error {
	s.mu.Lock()
	var p *plugin
	if sup := s.of[name]; sup != nil {
		p = sup.plugin
	}
	wants := p != nil && p.options.GetPreStartRequired()
	s.mu.Unlock()
	if !wants {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, prepareWithin)
	defer cancel()
	if _, err := p.api.PreStartContainer(ctx, &pluginv1.PreStartContainerRequest{DevicesIds: ids}); err != nil {
		return fmt.Errorf("device plugin PreStartContainer rpc failed with err: %w", err)
	}
	return nil
}

func (o *Options) add(r *pluginv1.ContainerAllocateResponse) {
	for _, k := range slices.Sorted(maps.Keys(r.GetEnvs())) {
		if !slices.ContainsFunc(o.Env, func(e *cri.KeyValue) bool { return e.Key == k }) {
			o.Env = append(o.Env, &cri.KeyValue{Key: k, Value: []byte(r.Envs[k])})
		}
	}
	for _, m := range r.GetMounts() {
		if !slices.ContainsFunc(o.Mounts, func(e *cri.Mount) bool { return e.ContainerPath == m.ContainerPath }) {
			o.Mounts = append(o.Mounts, &cri.Mount{ContainerPath: m.ContainerPath, HostPath: m.HostPath, Readonly: m.ReadOnly})
		}
	}
	for _, d := range r.GetDevices() {
		if !slices.ContainsFunc(o.Devices, func(e *cri.Device) bool { return e.ContainerPath == d.ContainerPath }) {
			o.Devices = append(o.Devices, &cri.Device{ContainerPath: d.ContainerPath, HostPath: d.HostPath, Permissions: d.Permissions})
		}
	}
	for k, v := range r.GetAnnotations() {
		if o.Notes == nil {
			o.Notes = map[string]string{}
		}
		if _, ok := o.Notes[k]; !ok {
			o.Notes[k] = v
		}
	}
	for _, d := range r.GetCdiDevices() {
		if !slices.ContainsFunc(o.CDI, func(e *cri.CDIDevice) bool { return e.Name == d.Name }) {
			o.CDI = append(o.CDI, &cri.CDIDevice{Name: d.Name})
		}
	}
}
