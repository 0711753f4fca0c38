package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/crd"
	"github.com/kloop-dev/kloop/kinds/apiextensions"
	"github.com/kloop-dev/kloop/resource"
)

// copyLimit is the time that the first copy of a cluster may take. A leader that can't get one must let another replica try.
const copyLimit = 3 * time.Minute

// copied is a part that fills copies. It fails when they are not complete in time.
func copied(name string, remote *client.Remote, run func(ctx context.Context, ready func()) error) part {
	return part{name, func(ctx context.Context, ready func()) error {
		ctx, stop := context.WithCancelCause(ctx)
		defer stop(nil)
		late := time.AfterFunc(copyLimit, func() {
			stop(fmt.Errorf("not complete after %s: %s", copyLimit, remote.Trouble()))
		})
		err := run(ctx, func() {
			if late.Stop() {
				ready()
			}
		})
		late.Stop()
		if err == nil && ctx.Err() != nil && context.Cause(ctx) != context.Canceled {
			err = context.Cause(ctx)
		}
		return err
	}}
}

// definedKinds copies the objects of the kinds that users define, away from the server: an owner may be one of them, and a
// namespace is not empty before they are gone.
type definedKinds struct {
	remote *client.Remote
	log    *slog.Logger
	open   map[string]*openKind // by the definition's name
	bad    map[string]version   // definitions whose objects can't be copied, which the log has named
	wg     sync.WaitGroup
}

// A version is one state of a definition's spec.
type version struct {
	uid        types.UID
	generation int64
}

// An openKind is a kind whose objects are copied.
type openKind struct {
	version
	kind   resource.Kind
	synced chan struct{}
	stop   context.CancelFunc
	done   chan struct{}
}

// run follows the definitions; ready is called once the objects of those that are there have been copied.
func (d *definedKinds) run(ctx context.Context, ready func()) error {
	defer d.wg.Wait()
	d.open, d.bad = map[string]*openKind{}, map[string]version{}
	feed := d.remote.Feed(apiextensions.CustomResourceDefinitions)
	for first := true; ; first = false {
		batch, err := feed.Next(ctx)
		if err != nil {
			return nil // the context ended
		}
		d.match(ctx, batch)
		if first && d.wait(ctx) {
			ready()
		}
	}
}

// wait returns true when every open kind is copied, false when ctx ended before.
func (d *definedKinds) wait(ctx context.Context) bool {
	for _, o := range d.open {
		select {
		case <-o.synced:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// match opens and closes copies so that they are those of the definitions.
func (d *definedKinds) match(ctx context.Context, batch client.Batch) {
	there := map[string]bool{}
	for obj := range batch.Read.Each(apiextensions.CustomResourceDefinitions, "") {
		source := crd.SourceOf(obj)
		if !crd.Is(source.CustomResourceDefinition, apiextensionsv1.Established) {
			continue
		}
		there[source.Name] = true
		now := version{source.UID, source.Generation}
		if o := d.open[source.Name]; d.bad[source.Name] == now || o != nil && o.version == now {
			continue
		}
		delete(d.bad, source.Name)
		if err := d.follow(ctx, source.Whole()); err != nil {
			d.bad[source.Name] = now
			d.log.Warn("the objects of a kind can't be copied", "kind", source.Name, "err", err)
		}
	}
	maps.DeleteFunc(d.bad, func(name string, _ version) bool { return !there[name] })
	for name, o := range d.open {
		if !there[name] {
			d.close(name, o)
		}
	}
}

// follow copies the objects of a definition, anew when it serves another version or is another definition.
func (d *definedKinds) follow(ctx context.Context, def *apiextensionsv1.CustomResourceDefinition) error {
	k, err := servedKind(def)
	if err != nil {
		return err
	}
	if o := d.open[def.Name]; o != nil {
		if o.uid == def.UID && o.kind.Info().GVK == k.Info().GVK {
			o.generation = def.Generation
			return nil
		}
		d.close(def.Name, o)
	}
	own, stop := context.WithCancel(ctx)
	o := &openKind{version: version{def.UID, def.Generation}, kind: k, stop: stop, synced: make(chan struct{}), done: make(chan struct{})}
	d.open[def.Name] = o
	d.wg.Go(func() {
		defer close(o.done)
		d.remote.Open(own, client.Source{Kind: k}, func() { close(o.synced) })
	})
	return nil
}

func (d *definedKinds) close(name string, o *openKind) {
	o.stop()
	<-o.done
	delete(d.open, name)
	if err := d.remote.Forget(o.kind); err != nil {
		d.log.Warn("forget the copy of a kind", "kind", name, "err", err)
	}
}

// servedKind is the kind of a definition in a version that clients can read: the stored one, if that is served.
func servedKind(def *apiextensionsv1.CustomResourceDefinition) (resource.Kind, error) {
	k, err := crd.NewKind(def)
	if err != nil {
		return nil, err
	}
	hub := k.Info().GVK
	for _, v := range def.Spec.Versions {
		if v.Served && v.Name == hub.Version {
			return k, nil
		}
	}
	for _, v := range def.Spec.Versions {
		if v.Served {
			gvk := hub
			gvk.Version = v.Name
			if as, ok := resource.In(k, gvk); ok {
				return as, nil
			}
		}
	}
	return nil, fmt.Errorf("%s serves no version", def.Name)
}
