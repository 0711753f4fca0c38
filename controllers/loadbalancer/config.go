package loadbalancer

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/resource"
)

// group is MetalLB's.
const group = "metallb.io"

// byOther wakes for what has no kind of its own in the table: MetalLB's kinds and their definitions, the Leases by which nodes
// announce, and MetalLB itself.
func byOther(c client.Change, _ resource.Reader, wake func(ns, name string)) {
	o := c.Object()
	switch i := c.Kind.Info(); {
	case i.GVK.Group == group && (!strings.HasSuffix(i.Plural, "statuses") || c.New == nil):
	case c.Kind == kinds.Leases && o.GetNamespace() == wellknown.AnnounceSpace && o.GetLabels()[wellknown.AnnounceLabel] != "":
	case c.Kind == kinds.Secrets && o.GetNamespace() == wellknown.AnnounceSpace: // it may have a peer's password
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
			for obj := range read.Each(k, wellknown.AnnounceSpace) {
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
	names := communityNames(each)
	for _, plural := range []string{"l2advertisements", "bgpadvertisements"} {
		each(plural, func(obj resource.Object) {
			var o struct {
				Spec advertSpec `json:"spec"`
			}
			err := decode(obj, &o)
			a := newAdvert(obj.GetName(), plural == "bgpadvertisements", o.Spec, names)
			if err != nil {
				a.broken = err.Error()
			}
			w.adverts = append(w.adverts, a)
		})
	}
	slices.SortStableFunc(w.adverts, func(a, b *advert) int { return cmp.Compare(a.name, b.name) })
	each("bgppeers", func(obj resource.Object) { w.peers = append(w.peers, readPeer(read, obj)) })
	only(w.peers)
	w.sessions = sessionsOf(read)
}

// communityNames reads the names that Community objects give. each hands out the objects of a kind.
func communityNames(each func(plural string, f func(resource.Object))) map[string]string {
	names := map[string]string{}
	each("communities", func(obj resource.Object) {
		var o struct {
			Spec struct {
				Communities []struct {
					Name  string `json:"name"`
					Value string `json:"value"`
				} `json:"communities"`
			} `json:"spec"`
		}
		if decode(obj, &o) == nil { // advertisements that use its names say what is missing
			for _, c := range o.Spec.Communities {
				names[c.Name] = c.Value
			}
		}
	})
	return names
}

func readPeer(read resource.Reader, obj resource.Object) *peer {
	var o struct {
		Spec   peerSpec `json:"spec"`
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	err := decode(obj, &o)
	p := newPeer(obj.GetName(), o.Spec, func(name string) *corev1.Secret {
		return resource.Get(read, kinds.Secrets, wellknown.AnnounceSpace, name)
	})
	if p.object = obj; err != nil {
		p.broken = err.Error()
	}
	if c := meta.FindStatusCondition(o.Status.Conditions, "Ready"); c != nil {
		p.status = *c
	}
	return p
}

// sessionsOf reads how the nodes say that they get on with their peers.
func sessionsOf(read resource.Reader) map[string]map[string]wellknown.BGPSession {
	out := map[string]map[string]wellknown.BGPSession{}
	for obj := range read.ByLabel(kinds.Leases, wellknown.AnnounceSpace, wellknown.AnnounceLabel, "bgp") {
		var list map[string]wellknown.BGPSession
		if json.Unmarshal([]byte(obj.GetAnnotations()[wellknown.BGPSessions]), &list) == nil { // what can't be read says nothing
			out[strings.TrimPrefix(obj.GetName(), wellknown.BGPLease(""))] = list
		}
	}
	return out
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
