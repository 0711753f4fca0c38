package cli

import (
	"context"
	"encoding/json"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kloop-dev/kloop/cli/ask"
	"github.com/kloop-dev/kloop/kinds/core"
)

// behind finds out whose an address is: policies see a pod in it, or the endpoints of a service. An address of nobody is outside.
func (r *reacher) behind(ctx context.Context, from *corev1.Pod, t target) ([]end, error) {
	var services corev1.ServiceList
	err := r.holding(ctx, from, t.addr, "services", "spec.clusterIP", &services)
	if !r.see(err, "which service has the address "+t.addr.String()) && !apierrors.IsForbidden(err) {
		return nil, err
	}
	for i := range services.Items {
		if s := &services.Items[i]; slices.Contains(addresses(s.Spec.ClusterIPs), t.addr) {
			t.kind, t.ns, t.name = "service", s.Namespace, s.Name
			return r.endpoints(ctx, from, t)
		}
	}
	p, err := r.holder(ctx, from, t.addr)
	if err != nil || p == nil {
		return []end{{"", t.addr, t.protocol, t.port}}, err
	}
	return r.podEnds(ctx, p, t)
}

// holder is the pod that has an address; nil: none that the caller may see.
func (r *reacher) holder(ctx context.Context, from *corev1.Pod, a netip.Addr) (*corev1.Pod, error) {
	var pods corev1.PodList
	err := r.holding(ctx, from, a, "pods", "status.podIP", &pods)
	if !r.see(err, "which pod has the address "+a.String()) && !apierrors.IsForbidden(err) {
		return nil, err
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		ended := core.Terminal(p)
		if !p.Spec.HostNetwork && !ended && slices.Contains(podAddrs(p), a) {
			return r.pod(ctx, p.Namespace, p.Name)
		}
	}
	return nil, nil
}

// holding lists the objects whose field is an address. The field has an object's first address alone, so that another of a pod with two
// families is found by looking through all.
func (r *reacher) holding(ctx context.Context, from *corev1.Pod, a netip.Addr, resource, field string, into any) error {
	req := r.Raw.Get().AbsPath("/api/v1/"+resource).SetHeader("Accept", "application/json")
	if own := podAddrs(from); len(own) < 2 || own[0].Is4() == a.Is4() {
		req = req.Param("fieldSelector", field+"="+a.String())
	}
	data, err := req.DoRaw(ctx)
	if err != nil {
		return ask.Refusal(data, err)
	}
	return json.Unmarshal(data, into)
}

func addresses(texts []string) (list []netip.Addr) {
	for _, s := range texts {
		if a, err := netip.ParseAddr(s); err == nil {
			list = append(list, a.Unmap())
		}
	}
	return list
}
