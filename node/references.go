package node

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// Pins keeps copies of single objects, where the node's client has not all of their kinds.
type Pins interface {
	Keep(list []client.Ref)
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
			if !finished(p) {
				list = append(list, References(p)...)
			}
		}
		a.cfg.Pins.Keep(list)
	}
}

// changed wakes the pods of this node that use an object.
func (a *Agent) changed(k resource.Kind, obj resource.Object) {
	ref := client.Ref{Kind: k, Namespace: obj.GetNamespace(), Name: obj.GetName()}
	for _, p := range a.pods() {
		if p.Namespace == ref.Namespace && slices.Contains(References(p), ref) {
			a.wake(p.Namespace, p.Name, k.Info().Singular+" changed")
		}
	}
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
