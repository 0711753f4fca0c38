package csi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// idNote is the Node's annotation that says by which name each driver knows the node, as JSON.
const idNote = "csi.volume.kubernetes.io/nodeid"

// tries bounds how often a write is tried anew because somebody else wrote first.
const tries = 10

// books hold the drivers of the node: the Node's annotation and labels, and its CSINode. One goroutine writes at a time.
type books struct {
	client client.Client
	node   string
	log    *slog.Logger
	mu     sync.Mutex
}

// open makes the node's CSINode, if there is none.
func (b *books) open(ctx context.Context) error { return b.csiNode(ctx, func(*storagev1.CSINode) {}) }

// enter writes a driver into the Node and the CSINode.
func (b *books) enter(ctx context.Context, d *driver) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.label(ctx, d.name, d.id, d.topology); err != nil {
		return err
	}
	e := d.entry()
	changed := false // what drivers say of the node is immutable, but they may go and come
	drop := func(n *storagev1.CSINode) {
		n.Spec.Drivers = slices.DeleteFunc(n.Spec.Drivers, func(o storagev1.CSINodeDriver) bool {
			other := o.Name == e.Name && (o.NodeID != e.NodeID || !slices.Equal(o.TopologyKeys, e.TopologyKeys))
			changed = changed || other
			return other
		})
	}
	if err := b.csiNode(ctx, drop); err != nil {
		return err
	}
	if changed {
		b.log.Info("the CSI driver has another name or topology for this node than before", "driver", d.name, "id", d.id)
	}
	return b.csiNode(ctx, func(n *storagev1.CSINode) {
		i := slices.IndexFunc(n.Spec.Drivers, func(o storagev1.CSINodeDriver) bool { return o.Name == e.Name })
		if i < 0 {
			n.Spec.Drivers = append(n.Spec.Drivers, e)
			return
		}
		n.Spec.Drivers[i].Allocatable = e.Allocatable
	})
}

// entry returns the driver's part of the CSINode.
func (d *driver) entry() storagev1.CSINodeDriver {
	e := storagev1.CSINodeDriver{Name: d.name, NodeID: d.id, TopologyKeys: slices.Sorted(maps.Keys(d.topology))}
	if d.most > 0 {
		count := int32(d.most)
		e.Allocatable = &storagev1.VolumeNodeResources{Count: &count}
	}
	return e
}

// strike takes a driver out. Labels of its topology stay: volumes that are bound to them do, too.
func (b *books) strike(ctx context.Context, d *driver) {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.csiNode(ctx, func(n *storagev1.CSINode) {
		n.Spec.Drivers = slices.DeleteFunc(n.Spec.Drivers, func(o storagev1.CSINodeDriver) bool { return o.Name == d.name })
	})
	err = errors.Join(err, b.label(ctx, d.name, "", nil))
	if err != nil {
		b.log.Warn("take a CSI driver out of the Node and the CSINode", "driver", d.name, "err", err)
	}
}

// csiNode changes the node's CSINode, and makes it if there is none.
func (b *books) csiNode(ctx context.Context, change func(*storagev1.CSINode)) error {
	for range tries {
		obj, err := b.client.Get(ctx, kinds.CSINodes, "", b.node)
		if apierrors.IsNotFound(err) {
			if err = b.create(ctx); apierrors.IsAlreadyExists(err) {
				continue
			}
			if err == nil {
				continue // and change it
			}
		}
		if err != nil {
			return fmt.Errorf("read the CSINode: %w", err)
		}
		cur := obj.(*storagev1.CSINode)
		next := resource.Clone(cur)
		change(next)
		if sameDrivers(cur, next) {
			return nil
		}
		if _, err = b.client.Update(ctx, kinds.CSINodes, next, ""); !apierrors.IsConflict(err) {
			return err
		}
	}
	return errors.New("write the CSINode: it keeps changing")
}

func sameDrivers(a, b *storagev1.CSINode) bool {
	return slices.EqualFunc(a.Spec.Drivers, b.Spec.Drivers, func(x, y storagev1.CSINodeDriver) bool {
		return x.Name == y.Name && x.NodeID == y.NodeID && slices.Equal(x.TopologyKeys, y.TopologyKeys) && count(x) == count(y)
	})
}

func count(d storagev1.CSINodeDriver) int32 {
	if d.Allocatable == nil || d.Allocatable.Count == nil {
		return -1
	}
	return *d.Allocatable.Count
}

func (b *books) create(ctx context.Context) error {
	obj, err := b.client.Get(ctx, kinds.Nodes, "", b.node)
	if err != nil {
		return err
	}
	n := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: b.node, OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "Node", Name: b.node, UID: obj.GetUID()}}}}
	_, err = b.client.Create(ctx, kinds.CSINodes, n)
	return err
}

// label writes a driver's name for the node into the Node, or takes it out if id is "", and gives the Node the labels of its topology.
// One that has another value is an error: a driver does not move a node.
func (b *books) label(ctx context.Context, name, id string, topology map[string]string) error {
	for range tries {
		obj, err := b.client.Get(ctx, kinds.Nodes, "", b.node)
		if err != nil {
			return fmt.Errorf("read the Node: %w", err)
		}
		next := resource.Clone(obj.(*corev1.Node))
		changed, err := mark(next, name, id, topology)
		if err != nil || !changed {
			return err
		}
		if _, err = b.client.Update(ctx, kinds.Nodes, next, ""); !apierrors.IsConflict(err) {
			return err
		}
	}
	return errors.New("write the Node: it keeps changing")
}

// mark changes a Node as label says.
func mark(n *corev1.Node, name, id string, topology map[string]string) (changed bool, err error) {
	ids := map[string]string{}
	if text := n.Annotations[idNote]; text != "" {
		if err := json.Unmarshal([]byte(text), &ids); err != nil {
			return false, fmt.Errorf("the Node's annotation %s can't be read: %w", idNote, err)
		}
	}
	if changed = ids[name] != id; changed {
		if ids[name] = id; id == "" {
			delete(ids, name)
		}
		text, err := json.Marshal(ids)
		if err != nil {
			return false, err
		}
		if n.Annotations == nil {
			n.Annotations = map[string]string{}
		}
		if n.Annotations[idNote] = string(text); len(ids) == 0 {
			delete(n.Annotations, idNote)
		}
	}
	for key, value := range topology {
		have, there := n.Labels[key]
		switch {
		case there && have != value:
			return false, fmt.Errorf("the driver says that %s of this node is %q, and the Node's label says %q", key, value, have)
		case !there:
			if n.Labels == nil {
				n.Labels = map[string]string{}
			}
			n.Labels[key], changed = value, true
		}
	}
	return changed, nil
}
