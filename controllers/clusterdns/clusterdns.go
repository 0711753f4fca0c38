// Package clusterdns publishes the cluster DNS: the Service kube-system/kube-dns, by which pods, charts and policies find it, with
// the nodes' DNS servers as endpoints.
//
//	reads   Nodes: the annotation kloop.dev/cluster-dns; Service and EndpointSlices of kube-system/kube-dns; ConfigMap coredns-custom
//	writes  Service: create, update, delete; EndpointSlice: create, update, delete
//	rule    there is the Service, and every node whose agent serves the DNS is one of its endpoints; without such nodes there is
//	        neither, and a Service that somebody else made is left alone
//
// What the ConfigMap adds stands in an annotation of the Service, which all agents see. Parts that are not understood make an event.
//
// Unlike Kubernetes, where the DNS is an add-on that runs in pods, kloop's agents serve it. Somebody who brings another (CoreDNS)
// changes the Service's selector, or makes one of his own: from then on it is his.
package clusterdns

import (
	"context"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/internal/corefile"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// Where the DNS is found, under the name that everybody looks for.
const (
	space = metav1.NamespaceSystem
	name  = "kube-dns"
)

// Controller returns the loop: one key, woken by nodes and by what it writes. clusterIPs are the addresses of the cluster DNS;
// none: it is switched off, and its Service and slices go.
func Controller(clusterIPs []netip.Addr) *loop.Controller[*corev1.Service] {
	added := &added{}
	one := func(_ client.Change, _ resource.Reader, wake func(ns, name string)) { wake(space, name) }
	return &loop.Controller[*corev1.Service]{
		Name: "cluster-dns",
		For:  kinds.Services,
		Skip: func(s *corev1.Service) bool { return s.Namespace != space || s.Name != name },
		Find: func(_ resource.Reader, wake func(ns, name string)) { wake(space, name) },
		Wake: []loop.Wake{{Kind: kinds.Nodes, Keys: func(c client.Change, r resource.Reader, wake func(ns, name string)) {
			if changed(c) {
				one(c, r, wake)
			}
		}}, {Kind: kinds.EndpointSlices, Keys: func(c client.Change, r resource.Reader, wake func(ns, name string)) {
			if o := c.Object(); o.GetNamespace() == space && o.GetLabels()[discoveryv1.LabelServiceName] == name {
				one(c, r, wake)
			}
		}}, {Kind: kinds.ConfigMaps, Keys: func(c client.Change, r resource.Reader, wake func(ns, name string)) {
			if o := c.Object(); o.GetNamespace() == corefile.Namespace && o.GetName() == corefile.Name {
				one(c, r, wake)
			}
		}}},
		Writes: []resource.Kind{kinds.Services, kinds.EndpointSlices},
		Reconcile: func(ctx context.Context, c *loop.Ctx, s *corev1.Service) (time.Duration, error) {
			return 0, reconcile(ctx, c, s, clusterIPs, added)
		},
		Gone: func(ctx context.Context, c *loop.Ctx, _ loop.Key) (time.Duration, error) {
			return 0, reconcile(ctx, c, nil, clusterIPs, added)
		},
	}
}

// changed says that a node changed in its DNS server.
func changed(c client.Change) bool {
	var old, now end
	if o, ok := c.Old.(*corev1.Node); ok && o != nil {
		old = endOf(o)
	}
	if n, ok := c.New.(*corev1.Node); ok && n != nil {
		now = endOf(n)
	}
	return old != now
}

func reconcile(ctx context.Context, c *loop.Ctx, s *corev1.Service, clusterIPs []netip.Addr, added *added) error {
	var ends []end
	if len(clusterIPs) > 0 {
		for _, n := range resource.List(c, kinds.Nodes, "") {
			if e := endOf(n); e.serves() {
				ends = append(ends, e)
			}
		}
	}
	var have []*discoveryv1.EndpointSlice
	for obj := range c.ByLabel(kinds.EndpointSlices, space, discoveryv1.LabelServiceName, name) {
		if obj.GetLabels()[discoveryv1.LabelManagedBy] == manager {
			have = append(have, resource.As[*discoveryv1.EndpointSlice](obj))
		}
	}
	return act(ctx, c, plan(s, have, ends, clusterIPs, added.read(c, len(ends) > 0)))
}

// An added remembers what the ConfigMap comes to: it may be a megabyte, and is read for every node that comes or goes.
type added struct {
	uid     types.UID
	version string
	text    string
}

// read reads the ConfigMap and tells what of it has no effect. on: somebody serves it.
func (a *added) read(c *loop.Ctx, on bool) string {
	m := resource.Get(c, kinds.ConfigMaps, corefile.Namespace, corefile.Name)
	if m == nil || !on {
		return ""
	}
	if a.uid == m.UID && a.version == m.ResourceVersion {
		return a.text
	}
	custom, faults := corefile.Parse(m.Data)
	if len(faults) > 0 {
		c.Event(kinds.ConfigMaps, m, corev1.EventTypeWarning, "CoreDNSCustomIgnored", "%s", corefile.Summary(faults))
	}
	a.uid, a.version, a.text = m.UID, m.ResourceVersion, custom.Text()
	return a.text
}

func act(ctx context.Context, c *loop.Ctx, d todo) error {
	if d.create != nil {
		_, err := c.Create(ctx, kinds.Services, d.create) // its slices follow when it is there
		return err
	}
	if d.tell != nil {
		if err := c.Update(ctx, kinds.Services, d.tell); err != nil {
			return err
		}
	}
	for _, s := range d.make {
		if _, err := c.Create(ctx, kinds.EndpointSlices, s); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	for _, s := range d.change {
		if err := c.Update(ctx, kinds.EndpointSlices, s); err != nil {
			return err
		}
	}
	for _, s := range d.drop {
		if err := c.Delete(ctx, kinds.EndpointSlices, s); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	if d.remove != nil {
		if err := c.Delete(ctx, kinds.Services, d.remove); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}
