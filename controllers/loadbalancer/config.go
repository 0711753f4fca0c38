package loadbalancer

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// group is MetalLB's.
const group = "metallb.io"

// byOther wakes for what has no kind of its own in the table: MetalLB's kinds and their definitions, the Leases by which nodes
// announce, and MetalLB itself.
func byOther(c client.Change, _ resource.Reader, wake func(ns, name string)) {
	o := c.Object()
	switch i := c.Kind.Info(); {
	case i.GVK.Group == group && (i.Plural != "servicel2statuses" || c.New == nil):
	case c.Kind == kinds.Leases && o.GetNamespace() == kinds.AnnounceSpace && o.GetLabels()[kinds.AnnounceLabel] != "":
	case c.Kind == kinds.CustomResourceDefinitions && isDefinition(o.GetName()):
	case c.Kind == kinds.Namespaces:
		if c.Old != nil && c.New != nil && labels.Equals(c.Old.GetLabels(), c.New.GetLabels()) {
			return
		}
	case c.Kind == kinds.Deployments && isMetalLB(o.GetLabels()):
	default:
		return
	}
	wake("", one)
}

// isMetalLB says that labels are those that MetalLB's manifests, or its chart, give to its controller.
func isMetalLB(set map[string]string) bool {
	return set["app"] == "metallb" || set["app.kubernetes.io/name"] == "metallb"
}

// configure reads MetalLB's kinds, as far as they are served, in MetalLB's namespace.
func (w *world) configure(read resource.Reader, set *resource.Set) {
	w.spaces = map[string]labels.Set{}
	for _, ns := range resource.List(read, kinds.Namespaces, "") {
		w.spaces[ns.Name] = ns.Labels
	}
	each := func(plural string, f func(obj resource.Object)) {
		if k, ok := set.GR(schema.GroupResource{Group: group, Resource: plural}); ok {
			for obj := range read.Each(k, kinds.AnnounceSpace) {
				f(obj)
			}
		}
	}
	each("ipaddresspools", func(obj resource.Object) {
		var o struct {
			Spec   poolSpec   `json:"spec"`
			Status poolStatus `json:"status"`
		}
		err := decode(obj, &o)
		p := newPool(obj.GetName(), obj.GetLabels(), o.Spec)
		p.object, p.status = obj, o.Status
		if err != nil {
			p.broken = err.Error()
		}
		w.pools = append(w.pools, p)
	})
	for _, plural := range []string{"l2advertisements", "bgpadvertisements"} {
		each(plural, func(obj resource.Object) {
			var o struct {
				Spec advertSpec `json:"spec"`
			}
			err := decode(obj, &o)
			a := newAdvert(obj.GetName(), plural == "bgpadvertisements", o.Spec)
			if err != nil {
				a.broken = err.Error()
			}
			w.adverts = append(w.adverts, a)
		})
	}
}

// metalLB says that MetalLB's own controller runs here.
func metalLB(read resource.Reader) bool {
	for label, value := range map[string]string{"app": "metallb", "app.kubernetes.io/name": "metallb"} {
		for range read.ByLabel(kinds.Deployments, "", label, value) {
			return true
		}
	}
	return false
}
