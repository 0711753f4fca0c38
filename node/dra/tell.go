package dra

import (
	"cmp"
	"context"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	drahealthv1 "k8s.io/kubelet/pkg/apis/dra-health/v1"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// A use is one request of a claim that a container uses; all requests if request is "".
type use struct{ label, claim, request string }

// uses lists what a container uses of the pod's claims.
func uses(pod *corev1.Pod, container *corev1.Container) (list []use) {
	for _, r := range container.Resources.Claims {
		for i := range pod.Spec.ResourceClaims {
			if pod.Spec.ResourceClaims[i].Name != r.Name {
				continue
			}
			if name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i]); err == nil && name != nil {
				list = append(list, use{"claim:" + r.Name + slash(r.Request), *name, r.Request})
			}
		}
	}
	if e := pod.Status.ExtendedResourceClaimStatus; e != nil {
		for _, m := range e.RequestMappings {
			if m.ContainerName == container.Name {
				list = append(list, use{"claim:" + e.ResourceClaimName + slash(m.RequestName), e.ResourceClaimName, m.RequestName})
			}
		}
	}
	return list
}

func slash(request string) string {
	if request == "" {
		return ""
	}
	return "/" + request
}

// each calls f for every device that a container uses. c is locked.
func (c *Claims) each(pod *corev1.Pod, container *corev1.Container, f func(u use, driver string, d device)) {
	used := c.used(pod.UID)
	for _, u := range uses(pod, container) {
		for _, k := range used {
			if k.Name != u.claim {
				continue
			}
			for _, name := range slices.Sorted(maps.Keys(k.Drivers)) {
				for _, d := range k.Drivers[name].Devices {
					if u.request == "" || len(d.Requests) == 0 || slices.ContainsFunc(d.Requests,
						func(r string) bool { return resourceclaim.BaseRequestRef(r) == resourceclaim.BaseRequestRef(u.request) }) {
						f(u, name, d)
					}
				}
			}
		}
	}
}

// CDI lists the CDI devices that a container gets, each once.
func (c *Claims) CDI(pod *corev1.Pod, container *corev1.Container) (names []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.each(pod, container, func(_ use, _ string, d device) {
		for _, name := range d.CDI {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	})
	return names
}

// Status tells the health of a container's devices, by claim and request.
func (c *Claims) Status(pod *corev1.Pod, container *corev1.Container) (list []corev1.ResourceStatus) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.each(pod, container, func(u use, driver string, d device) {
		i := slices.IndexFunc(list, func(s corev1.ResourceStatus) bool { return string(s.Name) == u.label })
		if i < 0 {
			i, list = len(list), append(list, corev1.ResourceStatus{Name: corev1.ResourceName(u.label)})
		}
		h := corev1.ResourceHealth{ResourceID: corev1.ResourceID(driver + "/" + d.Pool + "/" + d.Device),
			Health: corev1.ResourceHealthStatusUnknown}
		if len(d.CDI) > 0 {
			h.ResourceID = corev1.ResourceID(d.CDI[0])
		}
		if told := c.health[deviceID{driver, d.Pool, d.Device}]; now.Before(told.until) {
			h.Health = told.is
			if told.message != "" {
				h.Message = &told.message
			}
		}
		if !slices.ContainsFunc(list[i].Resources, func(o corev1.ResourceHealth) bool { return o.ResourceID == h.ResourceID }) {
			list[i].Resources = append(list[i].Resources, h)
		}
	})
	return list
}

// Of tells which devices of claims a container has.
func (c *Claims) Of(pod *corev1.Pod, container *corev1.Container) (list []*podresourcesv1.DynamicResource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	by := map[string]*podresourcesv1.DynamicResource{}
	c.each(pod, container, func(u use, driver string, d device) {
		r := by[u.claim]
		if r == nil {
			r = &podresourcesv1.DynamicResource{ClaimName: u.claim, ClaimNamespace: pod.Namespace}
			by[u.claim], list = r, append(list, r)
		}
		one := &podresourcesv1.ClaimResource{DriverName: driver, PoolName: d.Pool, DeviceName: d.Device}
		if d.Share != "" {
			one.ShareId = &d.Share
		}
		for _, name := range d.CDI {
			one.CdiDevices = append(one.CdiDevices, &podresourcesv1.CDIDevice{Name: name})
		}
		r.ClaimResources = append(r.ClaimResources, one)
	})
	return list
}

// health holds what a driver told of a device last, and until when that counts.
type health struct {
	is      corev1.ResourceHealthStatus
	message string
	until   time.Time
}

// How long a device's health counts unless the driver says so, how long its message may be, and how soon a driver that stopped telling is
// asked again.
const (
	healthFor  = 30 * time.Second
	maxMessage = 1024
	askAgain   = 5 * time.Second
)

// watchHealth keeps what a driver tells of its devices, until ctx ends.
func (c *Claims) watchHealth(ctx context.Context, d *driver, method string) {
	for {
		err := c.followHealth(ctx, d, method)
		c.heard(d.plugin.Name, nil)
		if status.Code(err) == codes.Unimplemented {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(askAgain):
		}
	}
}

func (c *Claims) followHealth(ctx context.Context, d *driver, method string) error {
	s, err := d.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method)
	if err != nil {
		return err
	}
	if err := s.SendMsg(&drahealthv1.NodeWatchResourcesRequest{}); err != nil && err != io.EOF { //nolint:errorlint // gRPC returns it bare
		return err
	}
	if err := s.CloseSend(); err != nil {
		return err
	}
	late := time.AfterFunc(healthFor, func() { c.tell(d.plugin.Name, nil) })
	defer late.Stop()
	for {
		var list drahealthv1.NodeWatchResourcesResponse
		if err := s.RecvMsg(&list); err != nil {
			return err
		}
		c.heard(d.plugin.Name, list.GetDevices())
		var last time.Duration
		for _, dev := range list.GetDevices() {
			last = max(last, within(dev))
		}
		late.Reset(last + time.Second)
	}
}

func within(d *drahealthv1.DeviceHealth) time.Duration {
	if s := d.GetHealthCheckTimeoutSeconds(); s > 0 && s < 1<<30 {
		return time.Duration(s) * time.Second
	}
	return healthFor
}

// heard replaces all that is known of a driver's devices, and tells the pods whose devices changed.
func (c *Claims) heard(driver string, list []*drahealthv1.DeviceHealth) {
	now := time.Now()
	fresh := map[deviceID]health{}
	for _, d := range list {
		h := health{is: corev1.ResourceHealthStatusUnknown, message: d.GetMessage(), until: now.Add(within(d))}
		switch d.GetHealth() {
		case drahealthv1.HealthStatus_HEALTHY:
			h.is = corev1.ResourceHealthStatusHealthy
		case drahealthv1.HealthStatus_UNHEALTHY:
			h.is = corev1.ResourceHealthStatusUnhealthy
		}
		if len(h.message) > maxMessage {
			h.message = strings.ToValidUTF8(h.message[:maxMessage-3], "") + "..."
		}
		fresh[deviceID{driver, d.GetDevice().GetPoolName(), d.GetDevice().GetDeviceName()}] = h
	}
	changed := map[deviceID]bool{}
	c.mu.Lock()
	for id, old := range c.health {
		if id.driver == driver {
			changed[id] = old.is != fresh[id].is || old.message != fresh[id].message
			delete(c.health, id)
		}
	}
	for id, h := range fresh {
		if _, known := changed[id]; !known {
			changed[id] = true
		}
		c.health[id] = h
	}
	c.mu.Unlock()
	c.tell(driver, changed)
}

// tell has the status of pods told anew that have one of the devices; nil: any of the driver.
func (c *Claims) tell(driver string, which map[deviceID]bool) {
	c.mu.Lock()
	var pods []types.UID
	for _, k := range c.of {
		if p := k.Drivers[driver]; p != nil && slices.ContainsFunc(p.Devices, func(d device) bool {
			return which == nil || which[deviceID{driver, d.Pool, d.Device}]
		}) {
			pods = append(pods, k.Pods...)
		}
	}
	c.mu.Unlock()
	slices.SortFunc(pods, func(a, b types.UID) int { return cmp.Compare(a, b) })
	for _, uid := range slices.Compact(pods) {
		c.cfg.Health(uid)
	}
}
