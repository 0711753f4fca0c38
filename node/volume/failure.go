package volume

import (
	"errors"
	"fmt"
	"strings"

	"github.com/kloop-dev/kloop/node/csi"
)

// unprocessed is the error of a claim that has no volume which could be mounted, or not yet.
type unprocessed struct{ ns, name, text string }

func (e unprocessed) Error() string {
	return "error processing PVC " + e.ns + "/" + e.name + ": " + e.text
}

// misused is the error of a volume that the pod uses as what it is not: as a device, as files, as its own.
type misused string

func (e misused) Error() string { return string(e) }

// unmounted is the error of a volume that nobody tries to mount yet: its claim is unprocessed, or it has another label of SELinux.
type unmounted struct {
	volume string
	error
}

func (e unmounted) Error() string {
	return fmt.Sprintf("Unable to attach or mount volumes: unmounted volumes=[%[1]s], unattached volumes=[], "+
		"failed to process volumes=[%[1]s]: %[2]v", e.volume, e.error)
}

func (e unmounted) Unwrap() error { return e.error }

// claimed is the error of a volume that a claim has: it goes by its own name.
type claimed struct {
	pv    string
	block bool
	error
}

func (e claimed) Unwrap() error { return e.error }

// The kubelet's words for steps; others are drivers'.
const (
	stepFiles    = "MountVolume.SetUp"
	stepDevice   = "MapVolume.MapBlockVolume"
	stepBegin    = "MountVolume.NewMounter initialization"
	stepLinks    = "MapVolume.EvalHostSymlinks"
	stepAffinity = "MountVolume.NodeAffinity check"
)

// setUpFailed words the error of a pod's volume as the kubelet's events do.
func setUpFailed(name string, err error) error {
	if errors.As(err, new(unprocessed)) || errors.As(err, new(misused)) || errors.As(err, new(*csi.Conflict)) {
		return unmounted{name, err}
	}
	step := stepFiles
	if of := (claimed{}); errors.As(err, &of) {
		if name = of.pv; of.block {
			step = stepDevice
		}
	}
	if at := (*csi.StepError)(nil); errors.As(err, &at) {
		step = at.Step
	}
	return fmt.Errorf("%s failed for volume %q : %w", step, name, err)
}

// Reason is that of the event which tells of an error of Prepare.
func Reason(err error) string {
	if strings.HasPrefix(err.Error(), "MapVolume.") {
		return "FailedMapVolume"
	}
	return "FailedMount"
}
