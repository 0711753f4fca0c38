package simtest

import (
	"net/http"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// mapper finds the resources of kinds as the one does that a client makes by itself, which asks for each group when it first needs one.
// What the server has without definitions is the same in all runs and known from the first one.
type mapper struct {
	meta.RESTMapper                 // asks the server
	known           meta.RESTMapper // what it always has
	reach           func() error    // why the server cannot be asked; nil if it can

	mu    sync.Mutex
	asked []string // groups
}

// RESTMapping implements meta.RESTMapper.
func (m *mapper) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if err := m.ask(gk.Group); err != nil {
		return nil, err
	}
	if found, err := m.known.RESTMapping(gk, versions...); err == nil {
		return found, nil
	}
	return m.RESTMapper.RESTMapping(gk, versions...)
}

// ask fails where a client that asks for a group for the first time would fail.
func (m *mapper) ask(group string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if slices.Contains(m.asked, group) {
		return nil
	}
	if err := m.reach(); err != nil {
		return err
	}
	m.asked = append(m.asked, group)
	return nil
}

// A recall is a mapper that keeps what it found: the search of all groups and versions is most of the work.
type recall struct {
	meta.RESTMapper

	mu    sync.Mutex
	found map[string]*meta.RESTMapping
}

// RESTMapping implements meta.RESTMapper.
func (m *recall) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	key := gk.String() + " " + strings.Join(versions, " ")
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.found[key]; r != nil {
		return r, nil
	}
	r, err := m.RESTMapper.RESTMapping(gk, versions...)
	if err == nil {
		m.found[key] = r
	}
	return r, err
}

// mapper makes the mapper of one life of the operator, or of the user.
func (w *World) mapper(cfg *rest.Config, h *http.Client) (meta.RESTMapper, error) {
	lazy, err := apiutil.NewDynamicRESTMapper(cfg, h)
	if err != nil || w.c.known == nil {
		return lazy, err
	}
	m := &mapper{RESTMapper: lazy, known: w.c.known, reach: func() error { return nil }}
	if w.life != nil {
		m.reach = func() error { return (&wire{w: w}).reach(w.life) }
	}
	return m, nil
}

// client makes the user's client.
func (w *World) client(cfg *rest.Config) (ctrlclient.Client, error) {
	h, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, err
	}
	if w.c.known == nil { // the first run: no definition is there yet
		d, err := discovery.NewDiscoveryClientForConfigAndClient(cfg, h)
		if err != nil {
			return nil, err
		}
		groups, err := restmapper.GetAPIGroupResources(d)
		if err != nil {
			return nil, err
		}
		w.c.known = &recall{RESTMapper: restmapper.NewDiscoveryRESTMapper(groups), found: map[string]*meta.RESTMapping{}}
	}
	m, err := w.mapper(cfg, h)
	if err != nil {
		return nil, err
	}
	return ctrlclient.New(cfg, ctrlclient.Options{Scheme: w.c.Scheme, HTTPClient: h, Mapper: m})
}
