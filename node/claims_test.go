package node

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	drahealthv1 "k8s.io/kubelet/pkg/apis/dra-health/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/test/dradriver"
)

const draDriver = "gpu.example.com"

// allocated makes a claim that is allocated, as the scheduler does it.
func (r *rig) allocated(name string) {
	r.t.Helper()
	k := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name, Finalizers: []string{resourcev1.Finalizer}},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{Name: "r",
			Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu"}}}}}}
	k = resource.Clone(create(r, kinds.ResourceClaims, k))
	k.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
		Results: []resourcev1.DeviceRequestAllocationResult{{Request: "r", Driver: draDriver, Pool: "pool", Device: name}}}}
	if _, err := r.Update(r.t.Context(), kinds.ResourceClaims, k, "status"); err != nil {
		r.t.Fatal(err)
	}
}

// reserve lets a pod use a claim, as the scheduler does it.
func (r *rig) reserve(claim, pod string) {
	r.t.Helper()
	k := resource.Clone(resource.Get(r.Read(), kinds.ResourceClaims, "d", claim))
	k.Status.ReservedFor = append(k.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: pod,
		UID: r.get(pod).UID})
	if _, err := r.Update(r.t.Context(), kinds.ResourceClaims, k, "status"); err != nil {
		r.t.Fatal(err)
	}
}

// using makes a pod's first container use a claim.
func using(claim string) func(p *corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &claim}}
		p.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
	}
}

func (r *rig) claimDriver(beta bool) *dradriver.Driver {
	r.t.Helper()
	d := &dradriver.Driver{Root: r.cfg.Dir, Name: draDriver, Beta: beta}
	if err := d.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(d.Stop)
	return d
}

func (r *rig) remove(name string) {
	r.t.Helper()
	if err := r.Delete(r.t.Context(), kinds.Pods, "d", name, nil); err != nil {
		r.t.Fatal(err)
	}
	r.until(name+" is gone", func() bool { return r.get(name) == nil })
}

func TestClaimsOfPods(t *testing.T) {
	for _, beta := range []bool{false, true} {
		live(t, func(r *rig) {
			r.allocated("one")
			r.pod("a", using("one"), "ca")
			said := func(text string) {
				t.Helper()
				r.until("an event says "+text, func() bool {
					return slices.ContainsFunc(resource.List(r.Read(), kinds.Events, "d"), func(e *corev1.Event) bool {
						return e.Reason == "FailedPrepareDynamicResources" && strings.Contains(e.Message, text)
					})
				})
			}
			said("is not allowed to use resource claim one")
			r.reserve("one", "a")
			said("DRA driver " + draDriver + " is not registered")
			d := r.claimDriver(beta)
			r.reaches("a", corev1.PodRunning)
			if conf := r.rt.newest("ca"); len(conf.CDIDevices) != 1 || conf.CDIDevices[0].Name != draDriver+"/class=one" {
				t.Errorf("the container gets %v", conf.CDIDevices)
			}
			health := func(want string) {
				t.Helper()
				r.until("health is "+want, func() bool { return r.health("a") == want })
			}
			health("claim:gpu " + draDriver + "/class=one Unknown")
			d.SetHealth(&drahealthv1.DeviceHealth{Device: &drahealthv1.DeviceIdentifier{PoolName: "pool", DeviceName: "one"},
				Health: drahealthv1.HealthStatus_UNHEALTHY, Message: "too hot"})
			health("claim:gpu " + draDriver + "/class=one Unhealthy")
			if m := r.get("a").Status.ContainerStatuses[0].AllocatedResourcesStatus[0].Resources[0].Message; m == nil || *m != "too hot" {
				t.Errorf("the driver's words are %v", m)
			}
			r.pod("b", func(p *corev1.Pod) { // shares the claim, already before its containers
				using("one")(p)
				p.Spec.InitContainers = []corev1.Container{{Name: "ib", Image: "img", Resources: p.Spec.Containers[0].Resources},
					{Name: "without", Image: "img"}}
			}, "cb")
			r.reserve("one", "b")
			for _, name := range []string{"ib", "without"} {
				r.until(name+" runs", func() bool { return r.rt.runs(name) })
				if got := len(r.rt.newest(name).CDIDevices); (got == 1) != (name == "ib") {
					t.Errorf("%s gets %d devices", name, got)
				}
				r.rt.exit(name, 0)
			}
			r.reaches("b", corev1.PodRunning)
			r.stop()
			r.start()
			r.remove("a")
			if got := strings.Join(d.Calls(), ", "); got != "prepare one" {
				t.Errorf("the driver was asked: %s", got)
			}
			r.until("the driver is registered again", func() bool {
				return errors.Is(r.Delete(r.t.Context(), kinds.Pods, "d", "b", nil), nil)
			})
			r.until("b is gone", func() bool { return r.get("b") == nil })
			if got := strings.Join(d.Calls(), ", "); got != "prepare one, unprepare one" {
				t.Errorf("the driver was asked: %s", got)
			}
		})
	}
}

// TestClaimIsTakenBackBeforeTheEndIsTold: as soon as a pod's end is in the API, its device may be another's.
func TestClaimIsTakenBackBeforeTheEndIsTold(t *testing.T) {
	live(t, func(r *rig) {
		d := r.claimDriver(false)
		r.allocated("one")
		r.pod("a", func(p *corev1.Pod) { using("one")(p); p.Spec.RestartPolicy = corev1.RestartPolicyNever }, "c")
		r.reserve("one", "a")
		r.reaches("a", corev1.PodRunning)
		d.Break(errors.New("it burns"))
		r.rt.exit("c", 0)
		r.until("the driver is asked", func() bool { return slices.Contains(d.Calls(), "unprepare one") })
		if p := r.get("a"); core.Terminal(p) {
			t.Errorf("the pod has ended, with a device that it still has: %s", p.Status.Phase)
		}
		d.Break(nil)
		r.reaches("a", corev1.PodSucceeded)
		r.remove("a")
	})
}

// TestClaimNeverPreparedHoldsNothingUp: a pod whose driver never came can be deleted.
func TestClaimNeverPreparedHoldsNothingUp(t *testing.T) {
	live(t, func(r *rig) {
		r.allocated("one")
		r.pod("a", using("one"), "c")
		r.reserve("one", "a")
		r.until("the pod waits", func() bool { return strings.Contains(r.events("a"), "FailedPrepareDynamicResources") })
		r.remove("a")
	})
}

// TestRuntimeWithoutCDI: a runtime that leaves out CDI devices without a word gets no container that needs one.
func TestRuntimeWithoutCDI(t *testing.T) {
	for version, ok := range map[string]bool{"1.6.20~ds1": false, "1.7.0": true, "v2.1.4": true} {
		t.Run(version, func(t *testing.T) {
			if err := knowsCDI(t.Context(), versioned{version: version}); (err == nil) != ok {
				t.Errorf("%s: %v", version, err)
			}
		})
	}
}

type versioned struct {
	cri.RuntimeServiceClient
	version string
}

func (v versioned) Version(context.Context, *cri.VersionRequest, ...opt) (*cri.VersionResponse, error) {
	return &cri.VersionResponse{RuntimeName: "containerd", RuntimeVersion: v.version}, nil
}

// TestForcedPodGivesItsDevicesBack: a pod that is deleted by force has its claim taken back all the same.
func TestForcedPodGivesItsDevicesBack(t *testing.T) {
	live(t, func(r *rig) {
		d := r.claimDriver(false)
		r.allocated("one")
		r.pod("a", using("one"), "c")
		r.reserve("one", "a")
		r.reaches("a", corev1.PodRunning)
		if err := r.Delete(t.Context(), kinds.Pods, "d", "a", &metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
			t.Fatal(err)
		}
		r.until("the driver is asked", func() bool { return strings.Join(d.Calls(), ", ") == "prepare one, unprepare one" })
	})
}
