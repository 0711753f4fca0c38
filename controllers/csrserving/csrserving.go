// Package csrserving approves the requests of nodes for the certificates of their agents' APIs.
//
//	reads   CertificateSigningRequest, Node; Service, Endpoints of the API, and the ConfigMap of the names that its servers have or had
//	writes  CertificateSigningRequest: approval
//	rule    a node's request for a serving certificate is approved when all names and addresses in it are the node's own
//	        and none of them ever stood in a certificate of an API server
//
// Unlike Kubernetes, which leaves these requests to people and to other programs, kloop approves those that it can vouch for.
package csrserving

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/controllers/internal/csr"
	"github.com/kloop-dev/kloop/kinds/certificates"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

const nodePrefix = "system:node:"

// Controller is the loop: wake on a request that nobody has decided, and on the node that made it.
var Controller = &loop.Controller[*certificatesv1.CertificateSigningRequest]{
	Name:   "csr-serving-approving",
	For:    certificates.CertificateSigningRequests,
	Wake:   []loop.Wake{loop.Each(core.Nodes, waiting), loop.Each(core.ConfigMaps, waitingForHosts)},
	Writes: []resource.Kind{certificates.CertificateSigningRequests},
	Skip: func(r *certificatesv1.CertificateSigningRequest) bool {
		return r.Spec.SignerName != certificatesv1.KubeletServingSignerName || csr.Decided(r)
	},
	Reconcile: func(ctx context.Context, c *loop.Ctx, r *certificatesv1.CertificateSigningRequest) (time.Duration, error) {
		req, err := csr.Parse(r)
		if err != nil || csr.CheckServing(req, r.Spec.Usages) != nil {
			return 0, nil // not one that would be signed: people decide
		}
		if why := plan(r, req, observe(c, r.Spec.Username)); why != "" {
			c.Waiting("%s", why)
			return 0, nil
		}
		return 0, csr.Approve(ctx, c, r, "Auto approving kubelet serving certificate: its names and addresses are those of its Node.")
	},
}

// waiting wakes the undecided requests of a node.
func waiting(obj resource.Object, read resource.Reader, wake func(ns, name string)) {
	for _, r := range resource.List(read, certificates.CertificateSigningRequests, "") {
		if r.Spec.Username == nodePrefix+obj.GetName() && r.Spec.SignerName == certificatesv1.KubeletServingSignerName && !csr.Decided(r) {
			wake("", r.Name)
		}
	}
}

// waitingForHosts wakes all undecided requests when the names of the API's servers are written.
func waitingForHosts(obj resource.Object, read resource.Reader, wake func(ns, name string)) {
	if obj.GetName() != wellknown.ServersName || obj.GetNamespace() != metav1.NamespaceSystem {
		return
	}
	for _, r := range resource.List(read, certificates.CertificateSigningRequests, "") {
		if r.Spec.SignerName == certificatesv1.KubeletServingSignerName && !csr.Decided(r) {
			wake("", r.Name)
		}
	}
}

// A world holds the facts that a request is compared with.
type world struct {
	node   *corev1.Node // of the one who asks; nil: there is none
	others []*corev1.Node
	api    []string // names and addresses of the API
	known  bool     // api has those that its servers wrote
}

func observe(read resource.Reader, user string) (w world) {
	for _, n := range resource.List(read, core.Nodes, "") {
		if nodePrefix+n.Name == user {
			w.node = n
		} else {
			w.others = append(w.others, n)
		}
	}
	if e := resource.Get(read, core.Endpoints, metav1.NamespaceDefault, "kubernetes"); e != nil {
		for _, s := range e.Subsets {
			for _, a := range s.Addresses {
				w.api = append(w.api, a.IP)
			}
		}
	}
	if s := resource.Get(read, core.Services, metav1.NamespaceDefault, "kubernetes"); s != nil {
		w.api = append(w.api, s.Spec.ClusterIPs...)
	}
	if m := resource.Get(read, core.ConfigMaps, metav1.NamespaceSystem, wellknown.ServersName); m != nil {
		hosts := strings.Fields(m.Data[wellknown.ServersKey])
		w.api, w.known = append(w.api, hosts...), len(hosts) > 0
	}
	return w
}

// plan says why a request is not to be approved by itself; "" when it is. A node writes its own addresses, so that they
// stand in its Node is not enough: they must not be somebody else's too.
func plan(r *certificatesv1.CertificateSigningRequest, req *x509.CertificateRequest, w world) string {
	switch {
	case r.Spec.Username != req.Subject.CommonName || !slices.Contains(r.Spec.Groups, "system:nodes"):
		return fmt.Sprintf("%s asks for the certificate of %s: only a node itself gets it", r.Spec.Username, req.Subject.CommonName)
	case w.node == nil:
		return fmt.Sprintf("there is no Node %s whose names the request could be held against", strings.TrimPrefix(r.Spec.Username,
			nodePrefix))
	case !w.known:
		return fmt.Sprintf("the names of the API's servers are not known: there is no ConfigMap %s/%s", metav1.NamespaceSystem,
			wellknown.ServersName)
	}
	own := named(w.node)
	for _, name := range asked(req) {
		switch {
		case !slices.Contains(own, name):
			return fmt.Sprintf("%s is not among the names and addresses of the Node %s", name, w.node.Name)
		case public(name) || slices.ContainsFunc(w.api, func(host string) bool { return covers(host, name) }):
			return fmt.Sprintf("%s is also how the API is reached", name)
		}
		for _, o := range w.others {
			if slices.Contains(named(o), name) {
				return fmt.Sprintf("%s also belongs to the Node %s", name, o.Name)
			}
		}
	}
	return ""
}

// asked are the names and addresses that a certificate would be good for.
func asked(req *x509.CertificateRequest) (list []string) {
	for _, name := range req.DNSNames {
		list = append(list, plain(name))
	}
	for _, ip := range req.IPAddresses {
		list = append(list, plain(ip.String()))
	}
	return list
}

// named are the names and addresses of a node.
func named(n *corev1.Node) []string {
	list := []string{n.Name}
	for _, a := range n.Status.Addresses {
		list = append(list, plain(a.Address))
	}
	return list
}

// plain is the one spelling of a name or address that is compared.
func plain(host string) string {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().WithZone("").String()
	}
	return strings.TrimRight(strings.ToLower(host), ".")
}

// covers says that a certificate for the host is good for the name too.
func covers(host, name string) bool {
	host = plain(host)
	if rest, wild := strings.CutPrefix(host, "*."); wild {
		_, after, _ := strings.Cut(name, ".")
		return after == rest
	}
	return host == name
}

// public says that a name or address stands for the API, whichever node it is on.
func public(name string) bool {
	if ip, err := netip.ParseAddr(name); err == nil {
		return !ip.IsGlobalUnicast()
	}
	return name == "" || name == "localhost" || name == "kubernetes" || strings.HasPrefix(name, "kubernetes.") ||
		strings.Contains(name, ".svc.") || strings.HasSuffix(name, ".svc") ||
		strings.HasSuffix(name, ".kloop.internal") || strings.Contains(name, "*")
}
