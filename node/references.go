package node

import (
	"context"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/node/volume"
	"github.com/kloop-dev/kloop/resource"
)

// Pins keeps copies of single objects, where the node's client has not all of their kinds.
type Pins interface {
	Keep(list []client.Ref)
	List(ref client.Ref) (list []resource.Object, complete bool)
	OnChange(f func(k resource.Kind, obj resource.Object))
}

// keepReferences has copies kept of what the node's pods use, until ctx ends.
func (a *Agent) keepReferences(ctx context.Context) {
	feed := a.cfg.Client.Feed(kinds.Pods)
	for {
		if _, err := feed.Next(ctx); err != nil {
			return // it fails only with ctx
		}
		var list []client.Ref
		for _, p := range a.pods() {
			if !core.Terminal(p) {
				list = append(append(append(list, References(p)...), a.certified(p)...), claimsOf(p)...)
			}
		}
		a.cfg.Pins.Keep(list)
	}
}

// changed wakes the pods of this node that use an object.
func (a *Agent) changed(k resource.Kind, obj resource.Object) {
	for _, p := range a.pods() {
		if a.uses(p, k, obj) {
			a.wake(p.Namespace, p.Name, k.Info().Singular+" changed")
		}
	}
}

// usersOf wakes the pods of this node that use an object of that kind, so that their volumes follow and containers that wait for it
// start.
func (a *Agent) usersOf(k resource.Kind) loop.Wake {
	return loop.Each(k, func(obj resource.Object, read resource.Reader, wake func(ns, name string)) {
		for _, p := range resource.Where(read, kinds.Pods, "spec.nodeName", a.cfg.Name) {
			if a.uses(p, k, obj) {
				wake(p.Namespace, p.Name)
			}
		}
	})
}

// uses says that the pod is to be looked at when the object changes: with its volumes, if it is a claim.
func (a *Agent) uses(p *corev1.Pod, k resource.Kind, obj resource.Object) bool {
	is := concerns(p, k, obj)
	if _, claim := obj.(*corev1.PersistentVolumeClaim); claim && is {
		a.vols.Look(p.UID)
	}
	return is
}

// claimsOf are the pod's claims: to hear of what becomes of them, not to have copies, which may be older than what was just written.
func claimsOf(p *corev1.Pod) (list []client.Ref) {
	for _, name := range core.ClaimNames(p) {
		list = append(list, client.Ref{Kind: kinds.PersistentVolumeClaims, Namespace: p.Namespace, Fields: "metadata.name=" + name})
	}
	return list
}

// concerns says that the pod's containers and volumes may need the object.
func concerns(p *corev1.Pod, k resource.Kind, obj resource.Object) bool {
	switch o := obj.(type) {
	case *certificatesv1.ClusterTrustBundle:
		return volume.Trusts(p, o)
	case *corev1.PersistentVolumeClaim:
		return o.Namespace == p.Namespace && slices.Contains(core.ClaimNames(p), o.Name)
	case *certificatesv1.PodCertificateRequest:
		return o.Namespace == p.Namespace && o.Spec.PodUID == p.UID
	}
	ref := client.Ref{Kind: k, Namespace: obj.GetNamespace(), Name: obj.GetName()}
	return p.Namespace == ref.Namespace && slices.Contains(References(p), ref)
}

// certified are the trust bundles that the pod's volumes show, and the requests for certificates of this node's pods.
func (a *Agent) certified(p *corev1.Pod) (list []client.Ref) {
	for s := range volume.Projections(p) {
		switch b := s.ClusterTrustBundle; {
		case s.PodCertificate != nil:
			list = append(list, client.Ref{Kind: kinds.PodCertificateRequests, Fields: "spec.nodeName=" + a.cfg.Name})
		case b == nil:
		case b.Name != nil:
			list = append(list, client.Ref{Kind: kinds.ClusterTrustBundles, Name: *b.Name})
		case b.SignerName != nil:
			list = append(list, bundlesOf(*b.SignerName))
		}
	}
	return list
}

func bundlesOf(signer string) client.Ref {
	return client.Ref{Kind: kinds.ClusterTrustBundles, Fields: "spec.signerName=" + signer}
}

// bundles lists a signer's trust bundles. complete: these are all.
func (c *common) bundles(signer string) (list []*certificatesv1.ClusterTrustBundle, complete bool) {
	if c.cfg.Pins == nil {
		for _, b := range resource.List(c.cfg.Client.Read(), kinds.ClusterTrustBundles, "") {
			if b.Spec.SignerName == signer {
				list = append(list, b)
			}
		}
		return list, true
	}
	objs, complete := c.cfg.Pins.List(bundlesOf(signer))
	for _, o := range objs {
		list = append(list, resource.As[*certificatesv1.ClusterTrustBundle](o))
	}
	return list, complete
}

// References are the ConfigMaps and Secrets that the pod's containers, volumes and images need: what the node authorizer lets the
// pod's node read.
func References(p *corev1.Pod) (list []client.Ref) {
	r := references{ns: p.Namespace}
	for i := range p.Spec.ImagePullSecrets {
		r.secret(p.Spec.ImagePullSecrets[i].Name)
	}
	for i := range p.Spec.Volumes {
		r.volume(&p.Spec.Volumes[i])
	}
	for _, l := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers, ephemeral(p)} {
		for i := range l {
			r.container(&l[i])
		}
	}
	return r.list
}

type references struct {
	ns   string
	list []client.Ref
}

func (r *references) secret(name string) {
	if name != "" {
		r.list = append(r.list, client.Ref{Kind: kinds.Secrets, Namespace: r.ns, Name: name})
	}
}

func (r *references) configMap(name string) {
	if name != "" {
		r.list = append(r.list, client.Ref{Kind: kinds.ConfigMaps, Namespace: r.ns, Name: name})
	}
}

func (r *references) volume(v *corev1.Volume) {
	switch {
	case v.Secret != nil:
		r.secret(v.Secret.SecretName)
	case v.ConfigMap != nil:
		r.configMap(v.ConfigMap.Name)
	case v.CSI != nil && v.CSI.NodePublishSecretRef != nil:
		r.secret(v.CSI.NodePublishSecretRef.Name)
	case v.Projected != nil:
		for _, s := range v.Projected.Sources {
			if s.Secret != nil {
				r.secret(s.Secret.Name)
			}
			if s.ConfigMap != nil {
				r.configMap(s.ConfigMap.Name)
			}
		}
	}
}

func (r *references) container(c *corev1.Container) {
	for _, f := range c.EnvFrom {
		if f.SecretRef != nil {
			r.secret(f.SecretRef.Name)
		}
		if f.ConfigMapRef != nil {
			r.configMap(f.ConfigMapRef.Name)
		}
	}
	for _, e := range c.Env {
		if e.ValueFrom == nil {
			continue
		}
		if ref := e.ValueFrom.SecretKeyRef; ref != nil {
			r.secret(ref.Name)
		}
		if ref := e.ValueFrom.ConfigMapKeyRef; ref != nil {
			r.configMap(ref.Name)
		}
	}
}
