package loadbalancer

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
)

// announced is the status of a ServiceL2Status, the node that answers for a service; or of a ServiceBGPStatus, a node that announces
// it, and to which peers.
type announced struct {
	Node             string   `json:"node"`
	ServiceName      string   `json:"serviceName"`
	ServiceNamespace string   `json:"serviceNamespace"`
	Peers            []string `json:"peers,omitempty"`
}

// marked is a label of the objects that are ours: where MetalLB ran before, its own may be left.
const marked = "app.kubernetes.io/managed-by"

// answering reads from the Leases which node answers for which service. It is pure.
func answering(leases []*coordinationv1.Lease) map[string]announced {
	out := map[string]announced{}
	for _, l := range leases {
		if l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "" {
			continue
		}
		for _, service := range strings.Split(l.Annotations[wellknown.AnnouncedServices], ",") {
			if ns, name, ok := strings.Cut(service, "/"); ok {
				sum := sha256.Sum256([]byte(service))
				out[fmt.Sprintf("l2-%x", sum[:5])] = announced{*l.Spec.HolderIdentity, name, ns, nil}
			}
		}
	}
	return out
}

// l2Statuses writes which node answers for which service, by MetalLB's names and labels.
func l2Statuses(ctx context.Context, c *loop.Ctx, set *resource.Set) error {
	var leases []*coordinationv1.Lease
	for obj := range c.ByLabel(kinds.Leases, wellknown.AnnounceSpace, wellknown.AnnounceLabel, "layer2") {
		leases = append(leases, resource.As[*coordinationv1.Lease](obj))
	}
	return statuses(ctx, c, set, "servicel2statuses", answering(leases))
}

// bgpStatuses writes which nodes announce which service to which peers.
func bgpStatuses(ctx context.Context, c *loop.Ctx, set *resource.Set, b *book) error {
	want := map[string]announced{}
	if b != nil {
		for s, peers := range b.services {
			sum := sha256.Sum256([]byte(s))
			parts := strings.SplitN(s, "/", 3)
			want[fmt.Sprintf("bgp-%x", sum[:5])] = announced{parts[0], parts[2], parts[1], peers}
		}
	}
	return statuses(ctx, c, set, "servicebgpstatuses", want)
}

// statuses brings the objects of one kind that are ours to what is wanted.
func statuses(ctx context.Context, c *loop.Ctx, set *resource.Set, plural string, want map[string]announced) error {
	k, ok := set.GR(schema.GroupResource{Group: group, Resource: plural})
	if !ok {
		return nil
	}
	var errs []error
	for obj := range c.ByLabel(k, wellknown.AnnounceSpace, marked, "kloop") {
		var has struct {
			Status announced `json:"status"`
		}
		if err := decode(obj, &has); err != nil {
			return err
		}
		w, there := want[obj.GetName()]
		switch {
		case !there || obj.GetLabels()["metallb.io/node"] != w.Node: // its labels follow the node
			errs = append(errs, c.Delete(ctx, k, obj))
		case !reflect.DeepEqual(has.Status, w):
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

func makeStatus(ctx context.Context, c *loop.Ctx, k resource.Kind, name string, w announced) error {
	text, err := json.Marshal(map[string]any{"apiVersion": k.Info().GVK.GroupVersion().String(), "kind": k.Info().GVK.Kind,
		"metadata": map[string]any{"namespace": wellknown.AnnounceSpace, "name": name,
			"labels": map[string]string{marked: "kloop", "metallb.io/node": w.Node,
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

func writeStatus(ctx context.Context, c *loop.Ctx, k resource.Kind, obj resource.Object, w announced) error {
	data, err := json.Marshal(map[string]any{"status": w})
	if err != nil {
		return err
	}
	return c.Patch(ctx, k, obj, client.Patch{Type: types.MergePatchType, Data: data, Sub: "status"})
}
