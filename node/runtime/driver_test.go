package runtime

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// driver is a runtime that tells which cgroup driver it has, in an answer of its own or in its configuration, or does not.
type driver struct {
	cri.RuntimeServiceClient
	res    *cri.RuntimeConfigResponse
	config string
}

func (d driver) RuntimeConfig(context.Context, *cri.RuntimeConfigRequest, ...grpc.CallOption) (*cri.RuntimeConfigResponse, error) {
	if d.res == nil {
		return nil, errors.New("unknown method RuntimeConfig")
	}
	return d.res, nil
}

func (d driver) Status(_ context.Context, r *cri.StatusRequest, _ ...grpc.CallOption) (*cri.StatusResponse, error) {
	if !r.Verbose {
		return &cri.StatusResponse{}, nil
	}
	return &cri.StatusResponse{Info: map[string]string{"config": d.config}}, nil
}

// The driver is the runtime's where it tells, and the setting's where it does not; when the two differ, the error says how to mend that.
func TestCgroupDriver(t *testing.T) {
	of := func(d cri.CgroupDriver) *cri.RuntimeConfigResponse {
		return &cri.RuntimeConfigResponse{Linux: &cri.LinuxRuntimeConfiguration{CgroupDriver: d}}
	}
	const conf = `{"containerd":{"defaultRuntimeName":"b","runtimes":{"a":{"options":{"SystemdCgroup":false}},"b":{"options":BY}}}}`
	by := func(text string) driver { return driver{config: strings.Replace(conf, "BY", text, 1)} }
	for _, c := range []struct {
		name, ask, want string
		d               driver
	}{
		{"told systemd", "", Systemd, driver{res: of(cri.CgroupDriver_SYSTEMD)}},
		{"told cgroupfs", "", Cgroupfs, driver{res: of(cri.CgroupDriver_CGROUPFS)}},
		{"both systemd", Systemd, Systemd, driver{res: of(cri.CgroupDriver_SYSTEMD)}},
		{"told systemd, asked cgroupfs", Cgroupfs, "", driver{res: of(cri.CgroupDriver_SYSTEMD)}},
		{"told cgroupfs, asked systemd", Systemd, "", driver{res: of(cri.CgroupDriver_CGROUPFS)}},
		{"silent", "", Cgroupfs, driver{res: &cri.RuntimeConfigResponse{}}},
		{"silent, asked systemd", Systemd, Systemd, driver{}},
		{"configured systemd", "", Systemd, by(`{"SystemdCgroup":true}`)},
		{"configured cgroupfs", Systemd, "", by(`{"SystemdCgroup":false}`)},
		{"configured nothing", Systemd, Systemd, by(`null`)},
		{"configured otherwise", "", Cgroupfs, driver{config: `["?"]`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := (&Runtime{Containers: c.d}).CgroupDriver(t.Context(), c.ask)
			if got != c.want || (err == nil) != (c.want != "") {
				t.Errorf("%q, %v; want %q", got, err, c.want)
			}
			if err != nil && !strings.Contains(err.Error(), "set SystemdCgroup = "+map[string]string{Systemd: "true", Cgroupfs: "false"}[c.ask]) {
				t.Error(err)
			}
		})
	}
}

func (d driver) Version(context.Context, *cri.VersionRequest, ...grpc.CallOption) (*cri.VersionResponse, error) {
	return &cri.VersionResponse{RuntimeName: "cri-o"}, nil
}

// TestContainerID: a runtime's name for itself stands in the ids of its containers.
func TestContainerID(t *testing.T) {
	r := &Runtime{Containers: driver{}}
	if err := r.awake(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := r.ContainerID("x") + " " + (&Runtime{}).ContainerID("y"); got != "cri-o://x containerd://y" {
		t.Error(got)
	}
}
