package machine

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/cpuset"

	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/node"
	"github.com/kloop-dev/kloop/node/cgroup"
	"github.com/kloop-dev/kloop/node/provider"
	"github.com/kloop-dev/kloop/node/pullrecord"
	"github.com/kloop-dev/kloop/node/runtime"
	"github.com/kloop-dev/kloop/resource"
)

// reserve fills in an agent's configuration, or says what can't be meant.
func reserve(n cluster.NodeResources, cfg *node.Config) (err error) {
	r := &cfg.Resources
	if r.SystemReserved, err = reservation("systemReserved", n.SystemReserved); err != nil {
		return err
	}
	if r.KubeReserved, err = reservation("kubeReserved", n.KubeReserved); err != nil {
		return err
	}
	if _, err := cpuset.Parse(n.ReservedSystemCPUs); err != nil {
		return fmt.Errorf("reservedSystemCPUs %q: want a list of CPUs, as 0-1,4: %w", n.ReservedSystemCPUs, err)
	}
	if root := n.CgroupRoot; root != "" && (!path.IsAbs(root) || path.Clean(root) != root) {
		return fmt.Errorf("cgroupRoot %q: want the path of a cgroup, as /kloop", root)
	}
	if _, err := either("cgroupDriver", n.CgroupDriver, runtime.Cgroupfs, runtime.Systemd); err != nil {
		return err
	}
	cfg.CgroupDir = strings.TrimPrefix(path.Join(n.CgroupRoot, cgroup.Pods), "/")
	if p := n.MaxContainerRestartPeriod; p != 0 && (p < time.Second || p > 5*time.Minute) {
		return fmt.Errorf("maxContainerRestartPeriod %s: want a time from 1s to 5m", p)
	}
	cfg.MaxRestartPause = n.MaxContainerRestartPeriod
	if err := admit(n, cfg); err != nil {
		return err
	}
	r.ReservedSystemCPUs, r.PodPidsLimit = n.ReservedSystemCPUs, int64(n.PodPidsLimit)
	if r.LimitedSwap, err = either("swapBehavior", n.SwapBehavior, "NoSwap", "LimitedSwap"); err != nil {
		return err
	}
	if r.TieredReservation, err = either("memoryReservationPolicy", n.MemoryReservationPolicy, "None", "TieredReservation"); err != nil {
		return err
	}
	if n.MemoryThrottlingFactor == "" {
		return nil
	}
	f, err := strconv.ParseFloat(n.MemoryThrottlingFactor, 64)
	if err != nil || !(f > 0 && f <= 1) {
		return fmt.Errorf("memoryThrottlingFactor %q: want a number above 0 and at most 1", n.MemoryThrottlingFactor)
	}
	r.MemoryThrottlingFactor = f
	return nil
}

// admit fills in how many pods there may be, what they may set of the kernel, and how much they may log.
func admit(n cluster.NodeResources, cfg *node.Config) error {
	if n.MaxPods < 0 {
		return fmt.Errorf("maxPods %d: can't be negative", n.MaxPods)
	}
	cfg.MaxPods = n.MaxPods
	if err := node.CheckSysctls(n.AllowedUnsafeSysctls); err != nil {
		return err
	}
	cfg.AllowedSysctls = n.AllowedUnsafeSysctls
	if n.ContainerLogMaxSize != "" {
		q, err := resource.ParseQuantity(n.ContainerLogMaxSize)
		if err != nil || q.Sign() <= 0 {
			return fmt.Errorf("containerLogMaxSize %q: want a quantity, as 10Mi", n.ContainerLogMaxSize)
		}
		cfg.LogMax = q.Value()
	}
	if n.ContainerLogMaxFiles != 0 && n.ContainerLogMaxFiles < 2 {
		return fmt.Errorf("containerLogMaxFiles %d: want 2 or more", n.ContainerLogMaxFiles)
	}
	cfg.LogFiles = n.ContainerLogMaxFiles
	return nil
}

// images fills in how an agent treats images, and where its runtime gets them.
func images(n cluster.NodeImages, cfg *node.Config, rt *runtime.Config) (err error) {
	switch {
	case n.MinimumGCAge < 0 || n.MaximumGCAge < 0:
		return errors.New("imageMinimumGCAge and imageMaximumGCAge can't be negative")
	case n.MaximumGCAge != 0 && n.MaximumGCAge <= n.MinimumGCAge:
		return fmt.Errorf("imageMaximumGCAge %s: must be longer than imageMinimumGCAge, %s", n.MaximumGCAge, n.MinimumGCAge)
	case n.MaxParallelPulls < 0:
		return fmt.Errorf("maxParallelImagePulls %d: can't be negative", n.MaxParallelPulls)
	}
	cfg.ImageAge, cfg.ImageMaxAge, cfg.ParallelPulls = n.MinimumGCAge, n.MaximumGCAge, n.MaxParallelPulls
	if rt.Registries, err = runtime.ReadRegistries(n.Registries); err != nil {
		return err
	}
	if rt.Registries != nil && rt.Socket != "" {
		return errors.New("registries are the runtime's own business with containerRuntimeEndpoint: write hosts.toml files for it")
	}
	if rt.Registries != nil {
		for host, c := range rt.Registries.Configs {
			cfg.Credentials = append(cfg.Credentials, node.Credential{Server: host, User: c.Auth.Username, Password: c.Auth.Password,
				Both: c.Auth.Auth})
		}
	}
	if cfg.Providers, err = provider.Open(n.CredentialProviderConfig, n.CredentialProviderBinDir); err != nil {
		return err
	}
	cfg.Verification, err = pullrecord.NewPolicy(n.VerificationPolicy, n.PreloadedAllowlist)
	return err
}

// either reads a choice between two: whether it is the second.
func either(key, value, first, second string) (bool, error) {
	if value != "" && value != first && value != second {
		return false, fmt.Errorf("%s %q: want %s or %s", key, value, first, second)
	}
	return value == second, nil
}

// reservation reads the amounts that are reserved.
func reservation(key string, amounts map[string]string) (corev1.ResourceList, error) {
	list := corev1.ResourceList{}
	for _, name := range slices.Sorted(maps.Keys(amounts)) {
		switch corev1.ResourceName(name) {
		case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, node.Pid:
		default:
			return nil, fmt.Errorf("%s: %s can't be reserved: use cpu, memory, ephemeral-storage and pid", key, name)
		}
		q, err := resource.ParseQuantity(amounts[name])
		if err != nil || q.Sign() < 0 {
			return nil, fmt.Errorf("%s: %s=%s: want a quantity that is not negative, as 500m or 1Gi", key, name, amounts[name])
		}
		list[corev1.ResourceName(name)] = q
	}
	return list, nil
}
