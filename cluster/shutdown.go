package cluster

import "time"

// NodeShutdown says for how long the shutdown of a node's machine waits for its pods to end. The names are those of the kubelet's
// configuration; the zero value does not wait.
type NodeShutdown struct {
	GracePeriod             time.Duration // of all pods
	GracePeriodCriticalPods time.Duration // that much of it belongs to critical ones, which end last
	// ByPodPriority takes the place of both: how long pods of a priority and above have, up to the next priority.
	ByPodPriority map[string]string
}
