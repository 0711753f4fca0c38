package clusters

import (
	"path/filepath"
	"strings"

	"github.com/kloop-dev/kloop/node/systemd"
)

// podOf is the uid of the pod whose cgroup has a name: podUID, or, where systemd makes cgroups, kubepods-burstable-podUID.slice, in which
// the uid's hyphens are underscores.
func podOf(group string) (uid string, ok bool) {
	name, slice := strings.CutSuffix(group, ".slice")
	if !slice {
		return strings.CutPrefix(group, "pod")
	}
	i := strings.LastIndex(name, "-pod")
	if i < 0 {
		return "", false
	}
	return strings.ReplaceAll(name[i+len("-pod"):], "_", "-"), true
}

// stopSlices has systemd end the slices of pods, and those of all pods that held these and no others: an empty one may be another agent's.
func stopSlices(pods map[string]bool) (left []string) {
	all := systemd.NewSlices(systemd.Socket)
	stop := func(path string) {
		if err := all.Stop(filepath.Base(path)); err != nil {
			left = append(left, err.Error())
		}
	}
	for _, pattern := range []string{"", "*", "*/*.slice"} { // versions 2 and 1, and below a cgroupRoot
		tops, _ := filepath.Glob(filepath.Join(cgroups, pattern, "*kubepods.slice")) // fails on bad patterns only
		for _, top := range tops {
			ours, others := false, false
			for _, inner := range []string{"*-pod*.slice", "*.slice/*-pod*.slice"} {
				list, _ := filepath.Glob(filepath.Join(top, inner))
				for _, path := range list {
					if uid, _ := podOf(filepath.Base(path)); pods[uid] {
						ours = true
						stop(path)
					} else {
						others = true
					}
				}
			}
			if ours && !others {
				stop(top)
			}
		}
	}
	return left
}
