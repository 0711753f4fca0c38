// Package definition brings the kinds that users define into service, and takes them out again.
//
//	reads   CustomResourceDefinition, the objects of the kinds that they define
//	writes  CustomResourceDefinition: status, finalizer; objects of defined kinds: delete
//	rule    a definition whose names are free is served; one that is deleted loses its objects, then its kind, then itself
//
// Every server runs this loop for itself, with or without other loops: what is served is known per process.
package definition

import (
	"context"
	"fmt"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/crd"
	"github.com/kloop-dev/kloop/kinds/apiextensions"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// recheck is the time until a definition is looked at again whose objects wait for finalizers, should no change wake it.
const recheck = 15 * time.Second

// Controller returns the loop over the registry of this process.
func Controller(r *crd.Registry) *loop.Controller[*apiextensionsv1.CustomResourceDefinition] {
	d := definitions{r, &crd.Names{}}
	return &loop.Controller[*apiextensionsv1.CustomResourceDefinition]{
		Name:      "definition",
		For:       apiextensions.CustomResourceDefinitions,
		Outline:   true,
		Wake:      []loop.Wake{{Kind: apiextensions.CustomResourceDefinitions, Keys: d.group}, {Keys: left}},
		Find:      d.find,
		Writes:    loop.Anything,
		Reconcile: d.reconcile,
		Gone:      d.gone,
	}
}

// Adopt serves every established definition that there is already. The error names those that can't be served.
func Adopt(r *crd.Registry, read resource.Reader) error {
	var list []crd.Source
	for obj := range read.Each(apiextensions.CustomResourceDefinitions, "") {
		if def := crd.SourceOf(obj); crd.Is(def.CustomResourceDefinition, apiextensionsv1.Established) {
			list = append(list, def)
		}
	}
	return r.Serve(list...)
}

// definitions is the loop at work.
type definitions struct {
	registry *crd.Registry
	names    *crd.Names
}

func (d definitions) reconcile(ctx context.Context, c *loop.Ctx, def *apiextensionsv1.CustomResourceDefinition) (time.Duration, error) {
	if def.DeletionTimestamp != nil {
		return d.retire(ctx, c, def)
	}
	source := crd.SourceOf(c.Lookup(apiextensions.CustomResourceDefinitions, "", def.Name))
	next := *def // what it shares with def stays one in memory: the registry keeps it
	next.Status = d.names.Accept(def, metav1.Time{Time: c.Now().Truncate(time.Second)})
	if crd.Is(&next, apiextensionsv1.Established) {
		source.CustomResourceDefinition = &next
		if err := d.registry.Serve(source); err != nil {
			return 0, err
		}
	}
	if equality.Semantic.DeepEqual(next.Status, def.Status) {
		return 0, nil
	}
	whole := *source.Whole()
	whole.Status = next.Status
	if err := c.UpdateStatus(ctx, apiextensions.CustomResourceDefinitions,
		apiextensions.Draft{CustomResourceDefinition: &whole}); err != nil {
		return 0, fmt.Errorf("tell what became of the names: %w", err)
	}
	return 0, nil
}

func (d definitions) gone(_ context.Context, c *loop.Ctx, key loop.Key) (time.Duration, error) {
	if c.Client().Read().Lookup(apiextensions.CustomResourceDefinitions, "", key.Name) == nil { // a late look may have asked for its names
		d.names.Forget(key.Name)
	}
	return 0, d.registry.Forget(key.Name)
}

// retire deletes the objects of a definition under deletion, then lets it go.
func (d definitions) retire(ctx context.Context, c *loop.Ctx, def *apiextensionsv1.CustomResourceDefinition) (time.Duration, error) {
	if !slices.Contains(def.Finalizers, apiextensionsv1.CustomResourceCleanupFinalizer) {
		return 0, nil
	}
	if !crd.Is(def, apiextensionsv1.Established) {
		return 0, d.release(ctx, c, def, ended("NeverEstablished", "resource was never established"))
	}
	if err := d.registry.Serve(crd.SourceOf(c.Lookup(apiextensions.CustomResourceDefinitions, "",
		def.Name))); err != nil { // nothing new may come
		return 0, err
	}
	left, err := d.empty(ctx, c, def.Name)
	switch {
	case err != nil:
		return 0, err
	case left > 0:
		c.Waiting("%d objects are left", left)
		return recheck, d.say(ctx, c, def, apiextensionsv1.CustomResourceDefinitionCondition{Type: apiextensionsv1.Terminating,
			Status: apiextensionsv1.ConditionTrue,
			Reason: "InstanceDeletionInProgress", Message: "CustomResource deletion is in progress"})
	}
	return 0, d.release(ctx, c, def, ended("InstanceDeletionCompleted", "removed all instances"))
}

func ended(reason, message string) apiextensionsv1.CustomResourceDefinitionCondition {
	return apiextensionsv1.CustomResourceDefinitionCondition{Type: apiextensionsv1.Terminating, Status: apiextensionsv1.ConditionFalse,
		Reason: reason, Message: message}
}

// empty deletes the objects of a kind and says how many there were.
func (d definitions) empty(ctx context.Context, c *loop.Ctx, name string) (int, error) {
	k := d.registry.Kind(name)
	if k == nil {
		return 0, nil
	}
	all := slices.Collect(c.Client().Read().Each(k, ""))
	todo := slices.DeleteFunc(slices.Clone(all), func(o resource.Object) bool { return o.GetDeletionTimestamp() != nil })
	_, err := loop.All(len(todo), func(i int) error {
		if err := c.Client().Delete(ctx, k, todo[i].GetNamespace(), todo[i].GetName(), nil); !apierrors.IsNotFound(err) {
			return err
		}
		return nil
	})
	if err != nil {
		return len(all), fmt.Errorf("delete the objects of %s: %w", name, err)
	}
	n := 0
	for range c.Client().Read().Each(k, "") {
		n++
	}
	return n, nil
}

// say writes a condition if it is news.
func (d definitions) say(ctx context.Context, c *loop.Ctx, def *apiextensionsv1.CustomResourceDefinition,
	cond apiextensionsv1.CustomResourceDefinitionCondition) error {
	next := whole(c, def)
	crd.Set(&next.Status, cond, metav1.Time{Time: c.Now().Truncate(time.Second)})
	if equality.Semantic.DeepEqual(next.Status, def.Status) {
		return nil
	}
	return c.UpdateStatus(ctx, apiextensions.CustomResourceDefinitions, next)
}

// release takes the finalizer off: the server then removes the definition.
func (d definitions) release(ctx context.Context, c *loop.Ctx, def *apiextensionsv1.CustomResourceDefinition,
	cond apiextensionsv1.CustomResourceDefinitionCondition) error {
	next := whole(c, def)
	crd.Set(&next.Status, cond, metav1.Time{Time: c.Now().Truncate(time.Second)})
	next.Finalizers = slices.DeleteFunc(next.Finalizers, func(f string) bool { return f == apiextensionsv1.CustomResourceCleanupFinalizer })
	return c.UpdateStatus(ctx, apiextensions.CustomResourceDefinitions, next)
}

// whole is a definition with its schemas, to be changed.
func whole(c *loop.Ctx, def *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
	return resource.Clone(c.Lookup(apiextensions.CustomResourceDefinitions, "", def.Name)).(*apiextensionsv1.CustomResourceDefinition)
}

// group wakes the other definitions of a group that miss names: one may have become free.
func (d definitions) group(c client.Change, _ resource.Reader, wake func(ns, name string)) {
	def := resource.Outline[*apiextensionsv1.CustomResourceDefinition](c.Object())
	if c.New == nil {
		d.names.Forget(def.Name)
	} else {
		d.names.Note(def)
	}
	for _, other := range d.names.Waiting(def.Spec.Group) {
		if other != def.Name {
			wake("", other)
		}
	}
}

// find tells the names of all definitions, and of no others.
func (d definitions) find(read resource.Reader, _ func(ns, name string)) {
	there := map[string]bool{}
	for def := range resource.Outlines(read, apiextensions.CustomResourceDefinitions) {
		d.names.Note(def)
		there[def.Name] = true
	}
	d.names.Keep(there)
}

// left wakes the definition of a kind under deletion that lost an object.
func left(c client.Change, read resource.Reader, wake func(ns, name string)) {
	if c.New != nil || !c.Kind.Info().Custom {
		return
	}
	i := c.Kind.Info()
	name := i.Plural + "." + i.GVK.Group
	if def := read.Lookup(apiextensions.CustomResourceDefinitions, "", name); def != nil && def.GetDeletionTimestamp() != nil {
		wake("", name)
	}
}
