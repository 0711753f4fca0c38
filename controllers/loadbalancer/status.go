package loadbalancer

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
)

// l2Status is the status of a ServiceL2Status: the node that answers for a service.
type l2Status struct {
	Node             string `json:"node"`
	ServiceName      string `json:"serviceName"`
	ServiceNamespace string `json:"serviceNamespace"`
}

// marked is a label of the ServiceL2Status objects that are ours: where MetalLB ran before, its own may be left.
const marked = "app.kubernetes.io/managed-by"

// answering reads from the Leases which node answers for which service. It is pure.
func answering(leases []*coordinationv1.Lease) map[string]l2Status {
	out := map[string]l2Status{}
	for _, l := range leases {
		if l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "" {
			continue
		}
		for _, service := range strings.Split(l.Annotations[kinds.AnnouncedServices], ",") {
			if ns, name, ok := strings.Cut(service, "/"); ok {
				sum := sha256.Sum256([]byte(service))
				out[fmt.Sprintf("l2-%x", sum[:5])] = l2Status{*l.Spec.HolderIdentity, name, ns}
			}
		}
	}
	return out
}

// l2Statuses writes them, by MetalLB's names and labels.
func l2Statuses(ctx context.Context, c *loop.Ctx, set *resource.Set) error {
	k, ok := set.GR(schema.GroupResource{Group: group, Resource: "servicel2statuses"})
	if !ok {
		return nil
	}
	var leases []*coordinationv1.Lease
	for obj := range c.ByLabel(kinds.Leases, kinds.AnnounceSpace, kinds.AnnounceLabel, "layer2") {
		leases = append(leases, resource.As[*coordinationv1.Lease](obj))
	}
	want := answering(leases)
	var errs []error
	for obj := range c.ByLabel(k, kinds.AnnounceSpace, marked, "kloop") {
		var has struct {
			Status l2Status `json:"status"`
		}
		if err := decode(obj, &has); err != nil {
			return err
		}
		w, there := want[obj.GetName()]
		switch {
		case !there || obj.GetLabels()["metallb.io/node"] != w.Node: // its labels follow the node
			errs = append(errs, c.Delete(ctx, k, obj))
		case has.Status != w:
			errs = append(errs, writeStatus(ctx, c, k, obj, w))
			fallthrough
		default:
			delete(want, obj.GetName())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		errs = append(errs, makeStatus(ctx, c, k, name, want[name]))
	}
	return errors.Join(errs...)
}

func makeStatus(ctx context.Context, c *loop.Ctx, k resource.Kind, name string, w l2Status) error {
	text, err := json.Marshal(map[string]any{"apiVersion": k.Info().GVK.GroupVersion().String(), "kind": k.Info().GVK.Kind,
		"metadata": map[string]any{"namespace": kinds.AnnounceSpace, "name": name, "labels": map[string]string{marked: "kloop", "metallb.io/node": w.Node,
			"metallb.io/service-name": w.ServiceName, "metallb.io/service-namespace": w.ServiceNamespace}}})
	if err != nil {
		return err
	}
	obj := k.New(k.Info().GVK)
	if _, err := codec.UnmarshalJSON(text, obj); err != nil {
		return err
	}
	if _, err := c.Create(ctx, k, obj); err != nil {
		if apierrors.IsAlreadyExists(err) { // under deletion
			return nil
		}
		return err
	}
	return writeStatus(ctx, c, k, obj, w)
}

func writeStatus(ctx context.Context, c *loop.Ctx, k resource.Kind, obj resource.Object, w l2Status) error {
	data, err := json.Marshal(map[string]any{"status": w})
	if err != nil {
		return err
	}
	return c.Patch(ctx, k, obj, client.Patch{Type: types.MergePatchType, Data: data, Sub: "status"})
}

// bgpPeers tells every BGPPeer that nobody speaks BGP here.
func bgpPeers(ctx context.Context, c *loop.Ctx, set *resource.Set) error {
	k, ok := set.GR(schema.GroupResource{Group: group, Resource: "bgppeers"})
	if !ok {
		return nil
	}
	var errs []error
	for obj := range c.Each(k, kinds.AnnounceSpace) {
		var has struct {
			Status struct {
				Conditions []metav1.Condition `json:"conditions"`
			} `json:"status"`
		}
		if err := decode(obj, &has); err != nil {
			return err
		}
		if meta.FindStatusCondition(has.Status.Conditions, "Ready") != nil {
			continue
		}
		data, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []metav1.Condition{{Type: "Ready",
			Status: metav1.ConditionFalse, Reason: "NotSupported", LastTransitionTime: metav1.Time{Time: c.Now().Truncate(time.Second)},
			Message: "kloop speaks no BGP: install MetalLB itself, or announce by an L2Advertisement"}}}})
		if err != nil {
			return err
		}
		errs = append(errs, c.Patch(ctx, k, obj, client.Patch{Type: types.MergePatchType, Data: data, Sub: "status"}))
	}
	return errors.Join(errs...)
}
