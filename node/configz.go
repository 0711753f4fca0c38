package node

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/node/logs"
	"github.com/kloop-dev/kloop/node/pressure"
)

// configuration tells the node's configuration in the words of the kubelet's KubeletConfiguration, as far as they say something of this
// agent: tools read evictionHard, maxPods or systemReserved there.
func (a *Agent) configuration() map[string]any {
	c := a.cfg
	hard, soft, grace, reclaim := thresholdTexts(c.Eviction)
	m := map[string]any{"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1",
		"port": c.Port, "maxPods": c.MaxPods, "clusterDomain": c.Domain, "staticPodPath": c.StaticDir, "podLogsDir": c.LogDir,
		"cgroupDriver": either(c.SystemdCgroup, "systemd", "cgroupfs"), "cgroupRoot": path.Dir("/" + c.CgroupDir),
		"cgroupsPerQOS": true, "enforceNodeAllocatable": []string{"pods"},
		"failSwapOn": false, "failCgroupV1": false,
		"memorySwap":              map[string]string{"swapBehavior": either(c.Resources.LimitedSwap, "LimitedSwap", "NoSwap")},
		"memoryReservationPolicy": either(c.Resources.TieredReservation, "TieredReservation", "None"),
		"systemReserved":          quantityTexts(c.Resources.SystemReserved), "kubeReserved": quantityTexts(c.Resources.KubeReserved),
		"reservedSystemCPUs": c.Resources.ReservedSystemCPUs,
		"crashLoopBackOff":   map[string]any{"maxContainerRestartPeriod": cmp.Or(c.MaxRestartPause, lastPause).String()},
		"podPidsLimit":       cmp.Or(c.Resources.PodPidsLimit, -1),
		"evictionHard":       hard, "evictionSoft": soft, "evictionSoftGracePeriod": grace, "evictionMinimumReclaim": reclaim,
		"evictionMaxPodGracePeriod":        c.EvictionMaxGrace,
		"evictionPressureTransitionPeriod": cmp.Or(c.EvictionTransition, pressure.Transition).String(),
		"imageGCHighThresholdPercent":      c.ImageGCHigh, "imageGCLowThresholdPercent": c.ImageGCLow,
		"nodeStatusUpdateFrequency": c.Beat.String(), "nodeStatusReportFrequency": statusEvery.String(), "nodeLeaseDurationSeconds": leaseFor,
		"allowedUnsafeSysctls": c.AllowedSysctls, "serializeImagePulls": false, "maxParallelImagePulls": cmp.Or(c.ParallelPulls, pullsAtOnce),
		"imageMinimumGCAge": cmp.Or(c.ImageAge, pressure.ImageAge).String(), "imageMaximumGCAge": c.ImageMaxAge.String(),
		"imagePullCredentialsVerificationPolicy": c.Verification.Name, "preloadedImagesVerificationAllowlist": c.Verification.Allowed,
		"containerLogMaxSize": strconv.FormatInt(cmp.Or(c.LogMax, logs.MaxBytes), 10), "containerLogMaxFiles": cmp.Or(c.LogFiles, logs.MaxFiles),
	}
	maps.Copy(m, c.fixed())
	var dns []string
	for _, d := range c.DNS {
		dns = append(dns, d.String())
	}
	m["clusterDNS"] = dns
	var byPriority []map[string]any
	for _, g := range c.Shutdown {
		byPriority = append(byPriority, map[string]any{"priority": g.Priority, "shutdownGracePeriodSeconds": int64(g.Grace / time.Second)})
	}
	m["shutdownGracePeriodByPodPriority"] = byPriority
	return m
}

// fixed tells what all agents do, and how this one places containers.
func (c Config) fixed() map[string]any {
	t := c.Topology
	return map[string]any{"authentication": map[string]any{"anonymous": map[string]bool{"enabled": false},
		"webhook": map[string]bool{"enabled": true}}, "authorization": map[string]string{"mode": "Webhook"}, "serverTLSBootstrap": true,
		"registerNode": true, "enableServer": true, "enableDebuggingHandlers": true, "enableControllerAttachDetach": true,
		"enableSystemLogHandler": true, "localStorageCapacityIsolation": true, "seccompDefault": false, "cpuCFSQuota": true,
		"configMapAndSecretChangeDetectionStrategy": "Watch", "nodeStatusMaxImages": maxImages,
		"cpuManagerPolicy":    either(t.StaticCPUs, "static", "none"),
		"memoryManagerPolicy": either(t.StaticMemory, "Static", "None"), "topologyManagerPolicy": cmp.Or(string(t.Policy), "none"),
		"topologyManagerScope": either(t.PodScope, "pod", "container")}
}

func either(second bool, yes, no string) string {
	if second {
		return yes
	}
	return no
}

func quantityTexts(list corev1.ResourceList) map[string]string {
	m := map[string]string{}
	for name, q := range list {
		m[string(name)] = q.String()
	}
	return m
}

// thresholdTexts sorts eviction thresholds into the maps of the kubelet's configuration, by signal.
func thresholdTexts(list []pressure.Threshold) (hard, soft, grace, reclaim map[string]string) {
	text := func(percent float64, n int64) string {
		if percent > 0 {
			return strconv.FormatFloat(percent, 'g', -1, 64) + "%"
		}
		return fmt.Sprint(n)
	}
	hard, soft, grace, reclaim = map[string]string{}, map[string]string{}, map[string]string{}, map[string]string{}
	for _, t := range list {
		name := string(t.Signal)
		if t.Grace > 0 {
			soft[name], grace[name] = text(t.Percent, t.Amount), t.Grace.String()
		} else {
			hard[name] = text(t.Percent, t.Amount)
		}
		if t.Reclaim > 0 || t.ReclaimPercent > 0 {
			reclaim[name] = text(t.ReclaimPercent, t.Reclaim)
		}
	}
	return hard, soft, grace, reclaim
}
