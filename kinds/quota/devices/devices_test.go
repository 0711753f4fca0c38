package devices

import (
	"testing"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/kinds/quota"
)

// TestOf: of alternatives the most of each class counts, for one of them will be taken.
func TestOf(t *testing.T) {
	claim := &resourcev1.ResourceClaim{Spec: resourcev1.ResourceClaimSpec{
		Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{
			{Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu", Count: 2,
				AllocationMode: resourcev1.DeviceAllocationModeExactCount}},
			{FirstAvailable: []resourcev1.DeviceSubRequest{{DeviceClassName: "gpu", Count: 1}, {DeviceClassName: "gpu", Count: 3},
				{DeviceClassName: "nic", Count: 1}}}}}}}
	const want = "count/resourceclaims.resource.k8s.io=1,gpu.deviceclass.resource.k8s.io/devices=5,nic.deviceclass.resource.k8s.io/devices=1"
	use := quota.Usage(schema.ParseGroupResource("resourceclaims.resource.k8s.io"), claim, time.Now(), Of)
	if got := quota.Text(use); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for name := range use {
		if !quota.Counts(schema.ParseGroupResource("resourceclaims.resource.k8s.io"), name) {
			t.Errorf("%s is counted, and a quota can't ask for it", name)
		}
	}
}
