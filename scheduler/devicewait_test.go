package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// fabric gives a node a device that has to be attached before it can be used.
func (w *world) fabric(node string) {
	made(w, &resourcev1.ResourceSlice{},
		`{metadata: {name: %s}, spec: {driver: gpu.example.com, nodeName: %s, pool: {name: %s, resourceSliceCount: 1},
  devices: [{name: gpu-0, bindingConditions: [attached], bindingFailureConditions: [broken]}]}}`, node, node, node)
}

// says plays the driver, whom the scheduler may come before.
func (w *world) says(claim, condition string) {
	w.Helper()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		c := resource.Clone(w.now(claim))
		r := c.Status.Allocation.Devices.Results[0]
		c.Status.Devices = []resourcev1.AllocatedDeviceStatus{{Driver: r.Driver, Pool: r.Pool, Device: r.Device, Conditions: []metav1.Condition{
			{Type: condition, Status: metav1.ConditionTrue, Reason: "Told", Message: "by its driver", LastTransitionTime: metav1.Now()}}}}
		_, err := client.UpdateStatus(w.Context(), w, kinds.ResourceClaims, c)
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
}

// untilClaim waits for a claim to be as wanted.
func (w *world) untilClaim(name string, good func(c *resourcev1.ResourceClaim) bool) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	feed := w.Feed(kinds.ResourceClaims)
	for {
		_, err := feed.Next(ctx)
		c := w.now(name)
		if c != nil && good(c) {
			return
		}
		if err != nil {
			w.Fatalf("claim %s is not as wanted: %+v", name, c)
		}
	}
}

func TestDevicesMustBeReady(t *testing.T) {
	w := start(t, true)
	made(w, &resourcev1.DeviceClass{}, gpuClass)
	w.create(node("n1", "", ""))
	w.fabric("n1")
	w.gpuClaim("c", "")
	w.create(wanting("p", "c"))
	w.until("p", func(p *corev1.Pod) bool { return p.Status.NominatedNodeName == "n1" })
	w.untilClaim("c", func(c *resourcev1.ResourceClaim) bool { return c.Status.Allocation != nil })
	if bound(resource.Get(w.Read(), kinds.Pods, "default", "p")) {
		t.Fatal("it is bound before its device is attached")
	}
	w.says("c", "broken") // it is given back, and tried again
	failed := func(p *corev1.Pod) bool {
		c := find(p, corev1.PodScheduled)
		return c != nil && (strings.HasPrefix(c.Message, `running PreBind plugin "DynamicResources": device binding failed: claim=`) ||
			strings.Contains(c.Message, "deallocation of ResourceClaim completed"))
	}
	w.until("p", failed)
	w.untilClaim("c", func(c *resourcev1.ResourceClaim) bool {
		return c.Status.Allocation != nil && len(c.Status.Devices) == 0
	})
	w.says("c", "attached")
	w.until("p", bound)
}

// TestAlternatives has a claim that would rather have a large device.
func TestAlternatives(t *testing.T) {
	w := start(t, false)
	made(w, &resourcev1.DeviceClass{}, gpuClass)
	for i, size := range []string{"small", "large", "small"} {
		name := fmt.Sprintf("n%d", i)
		w.create(node(name, "", ""))
		made(w, &resourcev1.ResourceSlice{},
			`{metadata: {name: %s}, spec: {driver: gpu.example.com, nodeName: %s, pool: {name: %s, resourceSliceCount: 1}, `+
				`devices: [{name: d, attributes: {size: {string: %s}}}]}}`,
			name, name, name, size)
	}
	const size = `selectors: [{cel: {expression: 'device.attributes["gpu.example.com"].size == "%s"'}}]`
	made(w, &resourcev1.ResourceClaim{},
		`{metadata: {name: c, namespace: default}, spec: {devices: {requests: [{name: r, firstAvailable: [{name: best, deviceClassName: gpu, %s},
  {name: good, deviceClassName: gpu, %s}]}]}}}`, fmt.Sprintf(size, "large"), fmt.Sprintf(size, "small"))
	w.create(wanting("p", "c"))
	w.schedule(t.Context())
	if p := w.until("p", bound); p.Spec.NodeName != "n1" {
		t.Errorf("is on %s with %+v", p.Spec.NodeName, w.now("c").Status.Allocation.Devices.Results)
	}
	made(w, &resourcev1.ResourceClaim{},
		`{metadata: {name: none, namespace: default}, spec: {devices: {requests: [{name: r, exactly: {deviceClassName: nothing}}]}}}`)
	w.create(wanting("q", "none"))
	if said := find(w.until("q", refused), corev1.PodScheduled).Message; !strings.Contains(said,
		"request r: device class nothing does not exist") {
		t.Errorf("told: %s", said)
	}
}

// forgetful does a write of a claim's status and loses its own answer; then it can't be asked for a while.
type forgetful struct {
	client.Client
	silent int // how many questions it does not answer
}

func (f *forgetful) Update(ctx context.Context, k resource.Kind, obj resource.Object, sub string) (resource.Object, error) {
	out, err := f.Client.Update(ctx, k, obj, sub)
	if err == nil && sub == "status" && k == kinds.ResourceClaims {
		return nil, apierrors.NewInternalError(errors.New("the store did not answer"))
	}
	return out, err
}

func (f *forgetful) Get(ctx context.Context, k resource.Kind, ns, name string) (resource.Object, error) {
	if f.silent--; f.silent >= 0 {
		return nil, apierrors.NewTimeoutError("the store does not answer", 0)
	}
	return f.Client.Get(ctx, k, ns, name)
}

// Devices whose allocation was written, though nobody heard of it, stay the claim's until the state shows it; those of a claim that
// went meanwhile do not.
func TestAllocationWithoutAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, false)
		claim := made(w, &resourcev1.ResourceClaim{}, `{metadata: {name: c, namespace: default},
  spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}}`)
		p := w.create(pod("a", "", "cpu=1", "resourceClaims: [{name: c, resourceClaimName: c}]")).(*corev1.Pod)
		b := &deviceBinder{r: &runner{env: loop.Env{Client: &forgetful{Client: w.Local, silent: 3}, Now: time.Now}}}
		plan := &devicePlan{claims: []*resourcev1.ResourceClaim{claim}, results: []*resourcev1.AllocationResult{{}}}
		if err := b.writePlan(t.Context(), plan, p); plan.written != 0 || plan.doubt == nil || err == nil {
			t.Errorf("%d are the pod's, in doubt is %v, %v; want none, the one, and an error", plan.written, plan.doubt, err)
		}
		if has, known := b.allocatedNow(t.Context(), claim); !has || !known {
			t.Errorf("it has devices: %t, known: %t", has, known)
		}
		gone := claim.DeepCopy()
		gone.Name = "gone"
		plan.claims[0], plan.doubt = gone, nil
		if err := b.writePlan(t.Context(), plan, p); plan.written != 0 || plan.doubt != nil || !apierrors.IsNotFound(err) {
			t.Errorf("%d are the pod's, in doubt is %v, %v; want none", plan.written, plan.doubt, err)
		}
	})
}

// mute answers nothing about claims until a time, and does nothing either.
type mute struct {
	client.Client
	until time.Time
}

func (m *mute) hang(ctx context.Context, k resource.Kind) error {
	if k != kinds.ResourceClaims || !time.Now().Before(m.until) {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (m *mute) Update(ctx context.Context, k resource.Kind, obj resource.Object, sub string) (resource.Object, error) {
	if err := m.hang(ctx, k); err != nil {
		return nil, err
	}
	return m.Client.Update(ctx, k, obj, sub)
}

func (m *mute) Get(ctx context.Context, k resource.Kind, ns, name string) (resource.Object, error) {
	if err := m.hang(ctx, k); err != nil {
		return nil, err
	}
	return m.Client.Get(ctx, k, ns, name)
}

// TestDevicesAfterSilence: a server that answers nothing for longer than a write may take does not cost the pod its devices.
func TestDevicesAfterSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, false)
		made(w, &resourcev1.DeviceClass{}, gpuClass)
		w.create(node("n1", "", ""))
		w.gpus("n1", 1)
		w.gpuClaim("c", "")
		w.create(wanting("p", "c"))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- New(Config{}).Run(ctx, loop.Env{Client: &mute{w.Local, time.Now().Add(3 * writeTime)}, Log: slog.New(slog.DiscardHandler)})
		}()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if p := resource.Get(w.Read(), kinds.Pods, "default", "p"); !bound(p) {
			t.Errorf("%+v", p.Status)
		}
		cancel()
		<-done
	})
}
