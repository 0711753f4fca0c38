package volume

import (
	"errors"
	"testing"

	"github.com/kloop-dev/kloop/node/csi"
)

// TestFailuresInWords words failures as the kubelet does: a claim's volume goes by its own name, and what was not tried yet by the pod's.
func TestFailuresInWords(t *testing.T) {
	const waits = "Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], failed to process volumes=[v]: "
	no := errors.New("no")
	for name, tt := range map[string]struct {
		err          error
		want, reason string
	}{
		"the pod's own":      {no, `MountVolume.SetUp failed for volume "v" : no`, "FailedMount"},
		"a claim's":          {claimed{"pv", false, no}, `MountVolume.SetUp failed for volume "pv" : no`, "FailedMount"},
		"a claim's device":   {claimed{"pv", true, no}, `MapVolume.MapBlockVolume failed for volume "pv" : no`, "FailedMapVolume"},
		"no volume yet":      {unprocessed{"ns", "c", "no"}, waits + "error processing PVC ns/c: no", "FailedMount"},
		"a device as files":  {misused("no"), waits + "no", "FailedMount"},
		"with another label": {claimed{"pv", false, &csi.Conflict{}}, waits, "FailedMount"},
		"a step of the driver": {claimed{"pv", true, &csi.StepError{Step: "MapVolume.SetUpDevice", Err: no}},
			`MapVolume.SetUpDevice failed for volume "pv" : no`, "FailedMapVolume"},
	} {
		t.Run(name, func(t *testing.T) {
			err := setUpFailed("v", tt.err)
			if err.Error() != tt.want || Reason(err) != tt.reason {
				t.Errorf("%s: %s\nwant %s: %s", Reason(err), err, tt.reason, tt.want)
			}
			if errors.Is(tt.err, no) && !errors.Is(err, no) {
				t.Error("the error is lost")
			}
		})
	}
}
