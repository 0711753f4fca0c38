package csi

import (
	"cmp"
	"context"
	"maps"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/internal/coldsort"
)

// measureWithin bounds the question: it delays the pod's other work.
const measureWithin = 10 * time.Second

// A Usage says how full a pod's volume was, in bytes and inodes. Zero: its driver does not say.
type Usage struct {
	Volume           string // its name in the pod
	Namespace, Claim string // "": none
	At               time.Time
	Used, Free, Size uint64

	InodesUsed, InodesFree, Inodes uint64
}

// Usage returns what drivers said last of a pod's volumes, sorted by name. Refresh asks them.
func (m *Mounter) Usage(uid types.UID) []Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return coldsort.Sorted(maps.Values(m.usage[uid]), func(a, b Usage) int { return cmp.Compare(a.Volume, b.Volume) })
}

// measure asks the driver how full a published volume is, if it can tell.
func (m *Mounter) measure(ctx context.Context, j *job) error {
	if !j.d.does(csi.NodeServiceCapability_RPC_GET_VOLUME_STATS) {
		return nil
	}
	call, stop := context.WithTimeout(ctx, measureWithin)
	defer stop()
	res, err := j.d.node.NodeGetVolumeStats(call, &csi.NodeGetVolumeStatsRequest{VolumeId: j.v.handle, VolumePath: j.target,
		StagingTargetPath: j.staging})
	if err != nil {
		return failed("the driver", err)
	}
	u := Usage{Volume: j.Name, At: time.Now()}
	if j.Claim != nil {
		u.Namespace, u.Claim = j.Claim.Namespace, j.Claim.Name
	}
	for _, of := range res.Usage {
		used, free, all := uint64(max(of.Used, 0)), uint64(max(of.Available, 0)), uint64(max(of.Total, 0))
		switch of.Unit {
		case csi.VolumeUsage_BYTES:
			u.Used, u.Free, u.Size = used, free, all
		case csi.VolumeUsage_INODES:
			u.InodesUsed, u.InodesFree, u.Inodes = used, free, all
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.usage[j.Pod.UID] == nil {
		m.usage[j.Pod.UID] = map[string]Usage{}
	}
	m.usage[j.Pod.UID][j.Name] = u
	return nil
}
