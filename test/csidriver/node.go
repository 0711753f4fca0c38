package csidriver

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// GetInfo tells what registers.
func (d *Driver) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: registration.CSIPlugin, Name: d.Name, Endpoint: d.Socket(), SupportedVersions: d.Versions}, nil
}

// NotifyRegistrationStatus takes the answer.
func (d *Driver) NotifyRegistrationStatus(_ context.Context,
	s *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	select {
	case d.Told <- s:
	default: // nobody listens
	}
	return &registration.RegistrationStatusResponse{}, nil
}

// NodeGetInfo tells the node's name.
func (d *Driver) NodeGetInfo(ctx context.Context, r *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	res := &csi.NodeGetInfoResponse{NodeId: d.Node, MaxVolumesPerNode: d.Max}
	if d.Topology != nil {
		res.AccessibleTopology = &csi.Topology{Segments: d.Topology}
	}
	return res, d.serve(ctx, "NodeGetInfo", "", r, func() error { return nil })
}

// NodeGetCapabilities tells what the driver can do.
func (d *Driver) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	res := &csi.NodeGetCapabilitiesResponse{}
	for _, c := range d.Can {
		res.Capabilities = append(res.Capabilities, &csi.NodeServiceCapability{Type: &csi.NodeServiceCapability_Rpc{
			Rpc: &csi.NodeServiceCapability_RPC{Type: c}}})
	}
	return res, nil
}

// NodeStageVolume stages a volume.
func (d *Driver) NodeStageVolume(ctx context.Context, r *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	return &csi.NodeStageVolumeResponse{}, d.serve(ctx, "NodeStageVolume", r.VolumeId, r, func() error {
		if at := d.staged[r.VolumeId]; at != "" {
			if at != r.StagingTargetPath {
				d.breach("%s is staged at %s and at %s", r.VolumeId, at, r.StagingTargetPath)
			}
			return nil
		}
		if _, err := os.Stat(r.StagingTargetPath); err != nil {
			d.breach("the staging directory of %s is not there: %v", r.VolumeId, err)
		}
		if !block(r.VolumeCapability) {
			dir, err := d.store(r.VolumeId)
			if err != nil {
				return err
			}
			if err := d.bind(dir, r.StagingTargetPath); err != nil {
				return err
			}
		}
		d.staged[r.VolumeId] = r.StagingTargetPath
		return nil
	})
}

// NodeUnstageVolume takes it back.
func (d *Driver) NodeUnstageVolume(ctx context.Context, r *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	return &csi.NodeUnstageVolumeResponse{}, d.serve(ctx, "NodeUnstageVolume", r.VolumeId, r, func() error {
		for target, v := range d.published {
			if v == r.VolumeId {
				d.breach("%s is unstaged while it is published at %s", v, target)
			}
		}
		if !isBlock(r.StagingTargetPath) {
			if err := d.unbind(r.StagingTargetPath); err != nil {
				return err
			}
		}
		delete(d.staged, r.VolumeId)
		return nil
	})
}

// isBlock says that a staging path is of a block device: nothing is mounted on it.
func isBlock(at string) bool { return strings.Contains(at, "/volumeDevices/staging/") }

// NodePublishVolume publishes a volume for a pod.
func (d *Driver) NodePublishVolume(ctx context.Context, r *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	return &csi.NodePublishVolumeResponse{}, d.serve(ctx, "NodePublishVolume", r.VolumeId, r, func() error {
		if d.can(Stage) && !strings.HasPrefix(r.VolumeId, "csi-") && d.staged[r.VolumeId] != r.StagingTargetPath {
			d.breach("%s is published from %q and staged at %q", r.VolumeId, r.StagingTargetPath, d.staged[r.VolumeId])
		}
		if have := d.published[r.TargetPath]; have != "" {
			if have != r.VolumeId {
				d.breach("%s and %s are published at %s", have, r.VolumeId, r.TargetPath)
			}
			return nil
		}
		if err := d.mountFor(r); err != nil {
			return err
		}
		d.published[r.TargetPath] = r.VolumeId
		return nil
	})
}

func (d *Driver) mountFor(r *csi.NodePublishVolumeRequest) error {
	if block(r.VolumeCapability) {
		if d.Mount { // any device will do: the agent looks at what it is
			return unix.Mknod(r.TargetPath, unix.S_IFBLK|0o600, int(unix.Mkdev(7, 200)))
		}
		return os.Symlink("/dev/null", r.TargetPath)
	}
	from := r.StagingTargetPath
	if from == "" {
		dir, err := d.store(r.VolumeId)
		if err != nil {
			return err
		}
		from = dir
	}
	return d.bind(from, r.TargetPath)
}

// NodeUnpublishVolume takes it back.
func (d *Driver) NodeUnpublishVolume(ctx context.Context, r *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	return &csi.NodeUnpublishVolumeResponse{}, d.serve(ctx, "NodeUnpublishVolume", r.VolumeId, r, func() error {
		if have := d.published[r.TargetPath]; have != "" && have != r.VolumeId {
			d.breach("%s is unpublished at the target of %s", r.VolumeId, have)
		}
		if !strings.Contains(r.TargetPath, "/volumeDevices/publish/") {
			if err := d.unbind(r.TargetPath); err != nil {
				return err
			}
		}
		if err := os.Remove(r.TargetPath); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		delete(d.published, r.TargetPath)
		return nil
	})
}

// NodeExpandVolume enlarges a volume.
func (d *Driver) NodeExpandVolume(ctx context.Context, r *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse, error) {
	return &csi.NodeExpandVolumeResponse{CapacityBytes: r.CapacityRange.GetRequiredBytes()},
		d.serve(ctx, "NodeExpandVolume", r.VolumeId, r, func() error {
			if d.published[r.VolumePath] != r.VolumeId {
				d.breach("%s is enlarged at %s, where it is not published", r.VolumeId, r.VolumePath)
			}
			d.sizes[r.VolumeId] = r.CapacityRange.GetRequiredBytes()
			return nil
		})
}

// NodeGetVolumeStats tells how full a volume is: always as full.
func (d *Driver) NodeGetVolumeStats(ctx context.Context, r *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	res := &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{
		{Unit: csi.VolumeUsage_BYTES, Total: 1000, Used: 300, Available: 700}, {Unit: csi.VolumeUsage_INODES, Total: 10, Used: 3, Available: 7}}}
	return res, d.serve(ctx, "NodeGetVolumeStats", r.VolumeId, r, func() error {
		if d.published[r.VolumePath] != r.VolumeId {
			return status.Error(codes.NotFound, "not published there")
		}
		return nil
	})
}

// GetPluginInfo names the driver.
func (d *Driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: d.Name, VendorVersion: "1"}, nil
}

// Probe says that it works.
func (d *Driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}
