// Package apiservice keeps the list of API groups: who serves them, and whether they can be reached.
//
//	reads   APIService, CustomResourceDefinition, Service, EndpointSlice; the servers behind APIServices
//	writes  APIService: create and delete those of groups served here, and the status of all
//	rule    every version of a group served here has an APIService; one that another server answers says whether it does
//
// Every server runs this loop for itself, with or without other loops, as definition does.
package apiservice

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/kloop-dev/kloop/crd"
	"github.com/kloop-dev/kloop/kinds/apiextensions"
	"github.com/kloop-dev/kloop/kinds/apiregistration"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/discovery"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// Config holds the facts about its server that the loop needs.
type Config struct {
	Kinds *resource.Set // that the server starts with
	// Check asks the server behind an APIService for what it serves.
	Check func(ctx context.Context, svc *apiregistrationv1.APIService) error
}

// How soon the server behind an APIService is asked again.
const (
	wellAgain = 30 * time.Second
	illAgain  = 5 * time.Second
)

// Controller returns the loop.
func Controller(c Config) *loop.Controller[*apiregistrationv1.APIService] {
	r := &registrar{check: c.Check, own: builtin(c.Kinds), made: map[string]bool{}}
	return &loop.Controller[*apiregistrationv1.APIService]{
		Name: "apiservice",
		For:  apiregistration.APIServices,
		Wake: []loop.Wake{loop.Each(apiextensions.CustomResourceDefinitions, ofDefinition), loop.Each(core.Services, ofService),
			loop.Each(discovery.EndpointSlices, ofSlice)},
		Writes:    []resource.Kind{apiregistration.APIServices},
		Find:      r.find,
		Reconcile: r.reconcile,
		Gone:      r.gone,
	}
}

// registrar is the loop at work.
type registrar struct {
	check func(ctx context.Context, svc *apiregistrationv1.APIService) error
	own   map[string]schema.GroupVersion // built in, by the APIService's name

	mu   sync.Mutex
	made map[string]bool // of own, what exists or was made since the start: who deletes it then means it
}

// find names all that should exist.
func (r *registrar) find(read resource.Reader, wake func(ns, name string)) {
	for name := range r.own {
		wake("", name)
	}
	for def := range read.Each(apiextensions.CustomResourceDefinitions, "") {
		ofDefinition(def, read, wake)
	}
}

// once says whether the name was not seen since the start.
func (r *registrar) once(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := r.made[name]
	r.made[name] = true
	return !seen
}

// gone makes the APIService of a group that is served here.
func (r *registrar) gone(ctx context.Context, c *loop.Ctx, key loop.Key) (time.Duration, error) {
	gv, own := r.own[key.Name]
	switch {
	case own && r.once(key.Name):
		return 0, r.create(ctx, c, wanted(gv, false))
	case own:
		return 0, nil
	}
	if gv, ok := defined(c, key.Name); ok {
		return 0, r.create(ctx, c, wanted(gv, true))
	}
	return 0, nil
}

func (r *registrar) create(ctx context.Context, c *loop.Ctx, svc *apiregistrationv1.APIService) error {
	if _, err := c.Create(ctx, apiregistration.APIServices, svc); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

func (r *registrar) reconcile(ctx context.Context, c *loop.Ctx, svc *apiregistrationv1.APIService) (time.Duration, error) {
	gv, own := r.own[svc.Name]
	custom := false
	if !own {
		gv, custom = defined(c, svc.Name)
	}
	switch todo := plan(svc, gv, own || custom, custom || r.once(svc.Name), custom); {
	case todo.delete:
		return 0, c.Delete(ctx, apiregistration.APIServices, svc)
	case todo.spec != nil:
		next := resource.Clone(svc)
		next.Spec = *todo.spec
		return 0, c.Update(ctx, apiregistration.APIServices, next)
	}
	cond := r.look(ctx, c, svc)
	if err := r.say(ctx, c, svc, cond); err != nil {
		return 0, err
	}
	switch {
	case svc.Spec.Service == nil:
		return 0, nil
	case cond.Status == apiregistrationv1.ConditionTrue:
		return wellAgain, nil
	}
	c.Waiting("%s: %s", cond.Reason, cond.Message)
	return illAgain, nil
}

// look finds out whether the group can be reached.
func (r *registrar) look(ctx context.Context, c *loop.Ctx, svc *apiregistrationv1.APIService) apiregistrationv1.APIServiceCondition {
	if svc.Spec.Service == nil {
		return condition(true, "Local", "Local APIServices are always available")
	}
	ref := svc.Spec.Service
	behind := slices.DeleteFunc(resource.List(c, discovery.EndpointSlices, ref.Namespace), func(s *discoveryv1.EndpointSlice) bool {
		return s.Labels[discoveryv1.LabelServiceName] != ref.Name
	})
	if bad := obstacle(svc, resource.Get(c, core.Services, ref.Namespace, ref.Name), behind); bad != nil {
		return *bad
	}
	if err := r.check(ctx, svc); err != nil {
		return condition(false, "FailedDiscoveryCheck", steady(err))
	}
	return condition(true, "Passed", "all checks passed")
}

// say writes the condition if it is news, and tells of a server that is lost.
func (r *registrar) say(ctx context.Context, c *loop.Ctx, svc *apiregistrationv1.APIService,
	cond apiregistrationv1.APIServiceCondition) error {
	next := resource.Clone(svc)
	set(&next.Status, cond, metav1.Time{Time: c.Now().Truncate(time.Second)})
	if equality.Semantic.DeepEqual(next.Status, svc.Status) {
		return nil
	}
	if err := c.UpdateStatus(ctx, apiregistration.APIServices, next); err != nil {
		return err
	}
	if cond.Status == apiregistrationv1.ConditionFalse {
		c.Event(apiregistration.APIServices, svc, corev1.EventTypeWarning, cond.Reason, "Nobody answers for %s/%s: %s",
			svc.Spec.Group, svc.Spec.Version, cond.Message)
	}
	return nil
}

// defined finds the group version of a name among those that users define.
func defined(read resource.Reader, name string) (schema.GroupVersion, bool) {
	for def := range resource.Outlines(read, apiextensions.CustomResourceDefinitions) {
		if !crd.Is(def, apiextensionsv1.Established) {
			continue
		}
		for _, v := range def.Spec.Versions {
			if v.Served && v.Name+"."+def.Spec.Group == name {
				return schema.GroupVersion{Group: def.Spec.Group, Version: v.Name}, true
			}
		}
	}
	return schema.GroupVersion{}, false
}

// ofDefinition wakes the APIServices of a definition's versions.
func ofDefinition(obj resource.Object, _ resource.Reader, wake func(ns, name string)) {
	def := resource.Outline[*apiextensionsv1.CustomResourceDefinition](obj)
	for _, v := range def.Spec.Versions {
		wake("", v.Name+"."+def.Spec.Group)
	}
}

func ofService(obj resource.Object, read resource.Reader, wake func(ns, name string)) {
	behind(read, obj.GetNamespace(), obj.GetName(), wake)
}

func ofSlice(obj resource.Object, read resource.Reader, wake func(ns, name string)) {
	behind(read, obj.GetNamespace(), obj.GetLabels()[discoveryv1.LabelServiceName], wake)
}

// behind wakes the APIServices that stand on a service.
func behind(read resource.Reader, ns, name string, wake func(ns, name string)) {
	for o := range read.Each(apiregistration.APIServices, "") {
		svc, ok := o.(*apiregistrationv1.APIService)
		if ok && svc.Spec.Service != nil && svc.Spec.Service.Namespace == ns && svc.Spec.Service.Name == name {
			wake("", svc.Name)
		}
	}
}
