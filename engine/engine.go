// Package engine runs a control plane of your own in one process: an API server with your kinds, a store, and loops that close the gap
// between what your objects want and what the world is. It brings no pods and needs none.
//
// A kind is a Go type and its CustomResourceDefinition (Kind). A loop (Loop) has three parts: Observe reads the world, Plan is pure and
// says which steps are missing, the steps act. The rest is the package's: when to look, pauses after failures, limits for each target,
// finalizers, the condition Ready, and what `kloop why`, `kloop gaps` and `kloop trace` tell. kubectl and client-go work as with any
// cluster: Plane.Kubeconfig and Plane.Rest.
//
// docs/library.md describes it, and says what is promised for later versions.
package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/kinds/apiextensions"
	"github.com/kloop-dev/kloop/kit"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/store/member"
)

// Config says where a plane runs. The zero value keeps everything in memory and serves on a free port of the loopback address.
type Config struct {
	DataDir    string        // keys, certificates and the store; "": all is in memory and gone when the process ends
	Store      member.Opener // what keeps objects in DataDir, as disk.Etcd does; nil: none can be given
	Listen     string        // host:port of the API; "": 127.0.0.1:0
	Kubeconfig string        // file for the administrator's kubeconfig; "": none but the one in DataDir
	Log        *slog.Logger  // nil: slog's default logger
}

// A Part is a Kind or a Loop.
type Part interface {
	// definition returns the CustomResourceDefinition of the part's kind, as YAML or JSON.
	definition() []byte
	// controller returns the part's loop; nil: it has none.
	controller(gk schema.GroupKind) (*runner, error)
}

// A Kind is a kind of objects: a Go type, which is a pointer to a struct with metav1.TypeMeta and metav1.ObjectMeta, and its definition.
// controller-gen makes the definition from the type and its markers.
type Kind[T metav1.Object] struct {
	CRD []byte // YAML or JSON
}

func (k Kind[T]) definition() []byte { return k.CRD }

func (k Kind[T]) controller(schema.GroupKind) (*runner, error) { return nil, nil }

// A Plane is a running control plane.
type Plane struct {
	cluster *cluster.Cluster
	ended   chan struct{}
}

// errNoStore tells what to import.
var errNoStore = errors.New("DataDir is given and no Store to keep objects there: Store: disk.Etcd() of package engine/disk is one")

// establish bounds how long Start waits until the server serves the kinds.
const establish = 30 * time.Second

// Start runs a plane with these kinds and loops. It returns when the API serves all kinds and the loops run. The plane ends with ctx, with
// Stop, or when a part of it can't go on. A loop's kind need not be named once more.
func Start(ctx context.Context, cfg Config, parts ...Part) (*Plane, error) {
	crds, runners, err := assemble(parts)
	if err != nil {
		return nil, err
	}
	if cfg.DataDir != "" && cfg.Store == nil {
		return nil, errNoStore
	}
	ctx, stop := context.WithCancel(ctx)
	c, err := cluster.Start(ctx, cluster.Config{DataDir: cfg.DataDir, Listen: cfg.Listen, Kubeconfig: cfg.Kubeconfig, Log: cfg.Log,
		Kit: kit.Kit{Kinds: builtIn, Loops: loops, Etcd: cfg.Store, Admission: admission.Chain{keepOut(), foretell(runners)},
			Explain: general.Rules(), Plugins: admission.General}, RuntimeConfig: notServed(), NoLocalStorage: true})
	if err != nil {
		stop()
		return nil, err
	}
	p := &Plane{cluster: c, ended: make(chan struct{})}
	if err := p.define(ctx, crds); err != nil {
		stop()
		return nil, errors.Join(err, c.Wait())
	}
	log := cfg.Log
	if log == nil {
		log = slog.Default()
	}
	go func() {
		defer close(p.ended)
		run(ctx, p, log, runners)
	}()
	go func() { // whatever ends the API ends the loops
		_ = c.Wait()
		stop()
	}()
	return p, nil
}

// assemble reads the parts: definitions, once each, and loops.
func assemble(parts []Part) (crds []*unstructured.Unstructured, runners []*runner, err error) {
	seen, names := map[string]bool{}, map[string]bool{}
	for _, p := range parts {
		crd := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(p.definition(), &crd.Object); err != nil {
			return nil, nil, fmt.Errorf("read the definition of a kind: %w", err)
		}
		group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
		if crd.GetKind() != "CustomResourceDefinition" || group == "" || kind == "" {
			return nil, nil, errors.New("the CRD of a kind is no CustomResourceDefinition: controller-gen makes one from a Go type")
		}
		if !seen[crd.GetName()] {
			seen[crd.GetName()], crds = true, append(crds, crd)
		}
		r, err := p.controller(schema.GroupKind{Group: group, Kind: kind})
		switch {
		case err != nil:
			return nil, nil, err
		case r == nil:
			continue
		case names[r.name]:
			return nil, nil, fmt.Errorf("two loops have the name %q: why and trace tell them apart by it", r.name)
		}
		names[r.name], runners = true, append(runners, r)
	}
	return crds, runners, nil
}

// define applies the definitions and waits until the kinds are served.
func (p *Plane) define(ctx context.Context, crds []*unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(ctx, establish)
	defer cancel()
	cl := p.cluster.Client()
	for _, crd := range crds {
		data, err := codec.MarshalJSON(crd)
		if err != nil {
			return err
		}
		patch := client.Patch{Type: types.ApplyPatchType, Data: data, Force: true}
		if _, err := cl.Patch(ctx, apiextensions.CustomResourceDefinitions, "", crd.GetName(), patch); err != nil {
			return fmt.Errorf("define %s: %w", crd.GetName(), err)
		}
	}
	feed := cl.Feed(apiextensions.CustomResourceDefinitions)
	for _, crd := range crds {
		group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
		for {
			if _, ok := cl.Kinds().GroupKind(schema.GroupKind{Group: group, Kind: kind}); ok {
				break
			}
			if _, err := feed.Next(ctx); err != nil {
				return fmt.Errorf("%s is not served: kubectl describe crd %s says why: %w", kind, crd.GetName(), err)
			}
		}
	}
	return nil
}

// run runs the loops until ctx ends.
func run(ctx context.Context, p *Plane, log *slog.Logger, runners []*runner) {
	events := client.NewRecorder(p.cluster.Client(), "engine", nil)
	done := make(chan struct{})
	go func() { defer close(done); events.Run(ctx) }()
	ended := make(chan struct{}, len(runners))
	for _, r := range runners {
		go func() {
			defer func() { ended <- struct{}{} }()
			env := loop.Env{Client: cluster.As(p.cluster, r.name), Log: log, Events: events.For(r.name, ""),
				Now: time.Now, Watch: p.cluster.Loops, Trail: true}
			if k, ok := env.Client.Kinds().GroupKind(r.kind); ok {
				defer cluster.Watching(p.cluster, k.Info().GR(), r.name)()
			}
			if err := r.run(ctx, env); err != nil && ctx.Err() == nil {
				log.Error("a loop can't go on", "loop", r.name, "err", err)
			}
		}()
	}
	for range runners {
		<-ended
	}
	<-done
}

// URL returns the address of the API.
func (p *Plane) URL() string { return p.cluster.URL() }

// Kubeconfig makes a kubeconfig with a fresh client certificate for a user: system:masters may do everything, other groups what RBAC says.
func (p *Plane) Kubeconfig(user string, groups ...string) ([]byte, error) {
	return p.cluster.Kubeconfig(user, groups...)
}

// Rest is for client-go and all that stands on it; it acts as the administrator.
func (p *Plane) Rest() (*rest.Config, error) { return p.cluster.Rest() }

// stopLimit bounds how long a plane waits for its loops to end.
const stopLimit = 20 * time.Second

// Stop ends the plane and waits until it has ended. The context of steps that are under way ends; one that does not heed it for
// 20 seconds is given up, which is an error.
func (p *Plane) Stop() error { return errors.Join(p.cluster.Stop(), p.rest()) }

// Wait waits until the plane has ended and says why, unless it was asked to.
func (p *Plane) Wait() error { return errors.Join(p.cluster.Wait(), p.rest()) }

// rest waits until the loops have ended.
func (p *Plane) rest() error {
	select {
	case <-p.ended:
		return nil
	case <-time.After(stopLimit):
		return fmt.Errorf("a loop did not end within %s: its Observe, Watch or a step does not heed its context", stopLimit)
	}
}
