package dra

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	drav1 "k8s.io/kubelet/pkg/apis/dra/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// Prepare has drivers make all devices ready that the pod claims. It does nothing for what is ready. What a driver was asked for is kept
// on disk before it is asked, whatever comes of it: Unprepare takes it back.
func (c *Claims) Prepare(ctx context.Context, pod *corev1.Pod) error {
	if !Wants(pod) || c.ready(pod) {
		return nil
	}
	list, err := c.fetch(ctx, pod)
	if err != nil {
		return err
	}
	unlock, err := c.lock(ctx, slices.Sorted(maps.Keys(list)))
	if err != nil {
		return err
	}
	defer unlock()
	todo, err := c.enter(pod, list)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(todo)) {
		errs = append(errs, c.prepare(ctx, name, todo[name]))
	}
	return errors.Join(errs...)
}

// ready says that all claims of the pod are prepared.
func (c *Claims) ready(pod *corev1.Pod) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	used := c.used(pod.UID)
	for name := range names(pod) {
		i := slices.IndexFunc(used, func(k *claim) bool { return k.Name == name })
		if i < 0 {
			return false
		}
		for _, p := range used[i].Drivers {
			if !p.Prepared {
				return false
			}
		}
	}
	return true
}

// names are the claims of a pod, and whether each must have been made for it. One that is not made yet has the name "".
func names(pod *corev1.Pod) map[string]bool {
	list := map[string]bool{}
	for i := range pod.Spec.ResourceClaims {
		switch name, own, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i]); {
		case err != nil:
			list[""] = false
		case name != nil: // else it turned out not to be needed
			list[*name] = own
		}
	}
	if e := pod.Status.ExtendedResourceClaimStatus; e != nil {
		list[e.ResourceClaimName] = true
	}
	return list
}

// fetch reads the pod's claims, and refuses those that are not for it.
func (c *Claims) fetch(ctx context.Context, pod *corev1.Pod) (map[types.UID]*resourcev1.ResourceClaim, error) {
	list := map[types.UID]*resourcev1.ResourceClaim{}
	for name, own := range names(pod) {
		if name == "" {
			return nil, errors.New("a resource claim of the pod has not been created yet")
		}
		obj, err := c.cfg.Client.Get(ctx, kinds.ResourceClaims, pod.Namespace, name)
		if err != nil {
			return nil, fmt.Errorf("failed to fetch ResourceClaim %s referenced by pod %s: %w", name, pod.Name, err)
		}
		k := resource.As[*resourcev1.ResourceClaim](obj)
		switch {
		case own && resourceclaim.IsForPod(pod, k, true) != nil:
			return nil, resourceclaim.IsForPod(pod, k, true)
		case k.Status.Allocation == nil:
			return nil, fmt.Errorf("ResourceClaim %s is not allocated", name)
		case !resourceclaim.IsReservedForPod(pod, k, true):
			return nil, fmt.Errorf("pod %s(%s) is not allowed to use resource claim %s(%s)", pod.Name, pod.UID, name, k.UID)
		}
		list[k.UID] = k
	}
	return list, nil
}

// enter notes that the pod uses the claims, and returns what drivers still have to prepare, by driver.
func (c *Claims) enter(pod *corev1.Pod, list map[types.UID]*resourcev1.ResourceClaim) (map[string][]*claim, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	todo := map[string][]*claim{}
	for _, uid := range slices.Sorted(maps.Keys(list)) {
		k := c.of[uid]
		if k == nil {
			for _, old := range c.of { // its devices may be those of the new one
				if old.Namespace == pod.Namespace && old.Name == list[uid].Name {
					return nil, fmt.Errorf("old ResourceClaim with same name %s and different UID %s still exists "+
						"(previous pod force-deleted?!)", old.Name, old.UID)
				}
			}
			k = &claim{UID: uid, Namespace: pod.Namespace, Name: list[uid].Name, Drivers: map[string]*part{}}
			for _, r := range list[uid].Status.Allocation.Devices.Results {
				k.Drivers[r.Driver] = &part{}
			}
			c.of[uid] = k
		}
		if !slices.Contains(k.Pods, pod.UID) {
			k.Pods = append(k.Pods, pod.UID)
		}
		for name, p := range k.Drivers {
			if !p.Prepared {
				todo[name] = append(todo[name], k)
			}
		}
	}
	return todo, c.save() // before the pod starts: else the next agent would take from it what it shares
}

// prepare asks a driver for all that it has to prepare for a pod.
func (c *Claims) prepare(ctx context.Context, name string, list []*claim) error {
	d, _, err := c.driver(name)
	if err != nil {
		return err
	}
	if err := c.asked(name, list); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	res, err := d.prepare(ctx, &drav1.NodePrepareResourcesRequest{Claims: wire(list)})
	if err != nil {
		return fmt.Errorf("NodePrepareResources: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, k := range list {
		r, ok := res.GetClaims()[string(k.UID)]
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("NodePrepareResources skipped ResourceClaim %s", k.Name))
		case r.GetError() != "":
			errs = append(errs, fmt.Errorf("NodePrepareResources failed for ResourceClaim %s: %s", k.Name, r.GetError()))
		default:
			*k.Drivers[name] = part{Asked: true, Prepared: true, Devices: devicesOf(r.GetDevices())}
		}
	}
	return errors.Join(append(errs, c.save())...)
}

// asked notes that a driver may have prepared the claims from now on.
func (c *Claims) asked(name string, list []*claim) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range list {
		k.Drivers[name].Asked = true
	}
	return c.save()
}

func wire(list []*claim) (out []*drav1.Claim) {
	for _, k := range list {
		out = append(out, &drav1.Claim{Namespace: k.Namespace, Name: k.Name, Uid: string(k.UID)})
	}
	return out
}

func devicesOf(list []*drav1.Device) (out []device) {
	for _, d := range list {
		out = append(out, device{Requests: d.GetRequestNames(), Pool: d.GetPoolName(), Device: d.GetDeviceName(), Share: d.GetShareId(),
			CDI: d.GetCdiDeviceIds()})
	}
	return out
}

// Unprepare takes note that the pod uses none of its claims any more, and has drivers take those back that no other pod on the node uses.
// No process of the pod runs.
func (c *Claims) Unprepare(ctx context.Context, pod types.UID) error {
	c.mu.Lock()
	var uids []types.UID
	for _, k := range c.used(pod) {
		uids = append(uids, k.UID)
	}
	c.mu.Unlock()
	var errs []error
	for _, uid := range uids {
		errs = append(errs, c.leave(ctx, pod, uid))
	}
	return errors.Join(errs...)
}

func (c *Claims) leave(ctx context.Context, pod, uid types.UID) error {
	unlock, err := c.lock(ctx, []types.UID{uid})
	if err != nil {
		return err
	}
	defer unlock()
	c.mu.Lock()
	k := c.of[uid]
	last := k != nil && len(k.Pods) == 1
	c.mu.Unlock()
	if last {
		for _, name := range slices.Sorted(maps.Keys(k.Drivers)) {
			if err := c.unprepare(ctx, name, k); err != nil {
				return err
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case k == nil:
		return nil
	case last:
		delete(c.of, uid)
	default:
		k.Pods = slices.DeleteFunc(k.Pods, func(p types.UID) bool { return p == pod })
	}
	return c.save()
}

func (c *Claims) unprepare(ctx context.Context, name string, k *claim) error {
	c.mu.Lock()
	asked := k.Drivers[name].Asked
	c.mu.Unlock()
	if !asked {
		return nil
	}
	d, _, err := c.driver(name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	res, err := d.unprepare(ctx, &drav1.NodeUnprepareResourcesRequest{Claims: wire([]*claim{k})})
	if err != nil {
		return fmt.Errorf("NodeUnprepareResources: %w", err)
	}
	switch r, ok := res.GetClaims()[string(k.UID)]; {
	case !ok:
		return fmt.Errorf("NodeUnprepareResources skipped ResourceClaim %s", k.Name)
	case r.GetError() != "":
		return fmt.Errorf("NodeUnprepareResources failed for ResourceClaim %s: %s", k.Name, r.GetError())
	}
	return nil
}
