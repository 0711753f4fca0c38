package cgroup

import (
	"math"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/kloop-dev/kloop/node/systemd"
)

// Slices are systemd's: groups that nobody else may make or remove where it rules.
type Slices interface {
	Set(name string, list []systemd.Property) error
	Stop(name string) error
}

// By has systemd make the groups, before the first is made. It gets to know their limits: it would write its own over ours.
func (t *Tree) By(s Slices) { t.slices = s }

// group is a group below that of all pods. A slice has the names of all above it before its own:
// /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<UID>.slice.
func (t *Tree) group(parts ...string) string {
	parts = append(strings.Split(t.name, "/"), parts...)
	if t.slices == nil {
		return "/" + strings.Join(parts, "/")
	}
	var all, name string
	for _, p := range parts {
		name += strings.ReplaceAll(p, "-", "_")
		all += "/" + name + ".slice"
		name += "-"
	}
	return all
}

// Parent names a group to a runtime, for containers in it.
func (t *Tree) Parent(group string) string {
	if t.slices == nil {
		return group
	}
	return path.Base(group)
}

// container is the id of the container whose group has the name: a scope of systemd has the runtime's before it.
func container(name string) string {
	if scope, ok := strings.CutSuffix(name, ".scope"); ok {
		return scope[strings.LastIndexByte(scope, '-')+1:]
	}
	return name
}

// properties are values as systemd has them. It counts quotas in whole hundredths of a CPU; the exact one is written over it.
func (t *Tree) properties(v Values) (list []systemd.Property) {
	const each, hundredth = 1000000 / Period, 10000 // microseconds of a second
	quota, weight, version := v.Quota, (*int64)(nil), 0
	if quota != nil && *quota > 0 {
		quota = new((*quota*each + hundredth - 1) / hundredth * hundredth)
	}
	if v.Shares != nil {
		weight = new(int64(*v.Shares))
	}
	if t.Unified() {
		version = 1
		if weight != nil {
			*weight = int64(Weight(*v.Shares))
		}
	}
	for _, x := range []struct {
		names [2]string // in both versions
		value *int64
		none  uint64
	}{
		{[2]string{"CPUShares", "CPUWeight"}, weight, 0}, {[2]string{"CPUQuotaPerSecUSec", "CPUQuotaPerSecUSec"}, quota, math.MaxUint64},
		{[2]string{"MemoryLimit", "MemoryMax"}, v.Memory, math.MaxUint64}, {[2]string{"", "MemoryMin"}, v.Min, 0},
		{[2]string{"", "MemoryLow"}, v.Low, 0}, {[2]string{"", "MemoryHigh"}, v.High, math.MaxUint64},
		{[2]string{"TasksMax", "TasksMax"}, v.Pids, math.MaxUint64},
	} {
		p := systemd.Property{Name: x.names[version], Value: x.none}
		if x.value == nil || p.Name == "" {
			continue
		}
		if *x.value >= 0 {
			p.Value = uint64(*x.value)
		}
		list = append(list, p)
	}
	return list
}

// end removes a group from one hierarchy. It kills the processes in it first: systemd would wait for them.
func (t *Tree) end(root, group string) error {
	dir := filepath.Join(root, group)
	if _, err := os.Stat(dir); err == nil && t.slices != nil {
		dirs, err := below(dir)
		if err != nil {
			return err
		}
		for _, d := range dirs {
			killAll(d)
		}
		if err := t.slices.Stop(path.Base(group)); err != nil {
			return err
		}
	}
	return removeGroup(dir)
}
