package plan

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// A city is a cluster of all that people run side by side: what newTown has, and priorities, quotas, volumes, daemons, jobs, what is
// broken already, and manifests as changes.
func newCity(seed uint64) *town {
	c := &city{Rand: rand.New(rand.NewPCG(seed, 11)), town: &town{}}
	c.nodes = 3 + c.IntN(5)
	for _, part := range []func(){c.shop, c.shop, c.store, c.daemon, c.batch, c.broken, c.quota} {
		if c.IntN(5) > 0 {
			part()
		}
	}
	if len(c.targets) == 0 {
		c.shop()
	}
	c.change = c.decide()
	return c.town
}

type city struct {
	*rand.Rand
	*town
	shops   []string
	targets []Target
}

func (c *city) pick(list ...string) string { return list[c.IntN(len(list))] }

func (c *city) add(format string, args ...any) {
	fmt.Fprintf(&c.manifest, "\n---\n"+format+"\n", args...)
}

const classes = `
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: %s}
value: %d
preemptionPolicy: %s`

// shopOf is a Deployment with a Service, of a priority, perhaps with an autoscaler.
func shopOf(name string, replicas int, image, cpu, class, more string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: %[2]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}, annotations: {sim.kloop.dev/ready: 7s, sim.kloop.dev/stop: 3s%[6]s}}
    spec:
      %[5]s
      containers: [{name: c, image: %[3]q, resources: {requests: {cpu: %[4]q}}}]
---
apiVersion: v1
kind: Service
metadata: {name: %[1]s}
spec: {selector: {app: %[1]s}, ports: [{port: 80}]}`, name, replicas, image, cpu, class, more)
}

func (c *city) shop() {
	name := fmt.Sprint("shop-", len(c.shops))
	class := ""
	if c.IntN(2) == 0 {
		class = "priorityClassName: rank-" + name
		c.add(classes, "rank-"+name, 100+c.IntN(1000), c.pick("PreemptLowerPriority", "PreemptLowerPriority", "Never"))
	}
	c.add("%s", shopOf(name, 1+c.IntN(8), "i:1", c.pick("500m", "1", "3", "4"), class, ""))
	if c.IntN(3) == 0 {
		c.add("apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: %[1]s}\n"+
			"spec: {%[2]s, selector: {matchLabels: {app: %[1]s}}}",
			name, c.pick("maxUnavailable: 1", "minAvailable: 1", "minAvailable: 80%",
				"maxUnavailable: 25%, unhealthyPodEvictionPolicy: AlwaysAllow"))
	}
	if c.IntN(3) == 0 {
		c.add("apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: %[1]s}\n"+
			"spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: %[1]s}, maxReplicas: 9}", name)
	}
	c.shops = append(c.shops, name)
	c.targets = append(c.targets, Target{"deployment", "default", name})
}

// store is a StatefulSet with a volume each.
func (c *city) store() {
	text := strings.Replace(db[:strings.Index(db, "---\napiVersion: apps/v1\nkind: DaemonSet")], "replicas: 3", fmt.Sprintf(
		"replicas: %d\n  podManagementPolicy: %s\n  updateStrategy: %s\n"+
			"  persistentVolumeClaimRetentionPolicy: {whenScaled: %s, whenDeleted: %s}",
		1+c.IntN(5), c.pick("OrderedReady", "Parallel"), c.pick("{}", "{rollingUpdate: {partition: 1}}", "{type: OnDelete}"),
		c.pick("Retain", "Delete"), c.pick("Retain", "Delete")), 1)
	c.add("%s", strings.Replace(text, "WaitForFirstConsumer", c.pick("WaitForFirstConsumer", "Immediate"), 1))
	c.targets = append(c.targets, Target{"statefulset", "default", "db"})
}

func (c *city) daemon() {
	c.add(`apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  updateStrategy: %s
  template:
    metadata: {labels: {app: agent}, annotations: {sim.kloop.dev/ready: 4s}}
    spec:
      %s
      containers: [{name: c, image: "i:1", resources: {requests: {cpu: 250m}}}]`,
		c.pick("{}", "{type: OnDelete}", "{rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}", "{rollingUpdate: {maxUnavailable: 2}}"),
		c.pick("", "tolerations: [{operator: Exists}]", "nodeSelector: {topology.kubernetes.io/zone: z1}"))
	c.targets = append(c.targets, Target{"daemonset", "default", "agent"})
}

func (c *city) batch() {
	c.add(`apiVersion: batch/v1
kind: Job
metadata: {name: load}
spec:
  completions: %d
  parallelism: %d
  completionMode: %s
  backoffLimit: 2
  template:
    metadata: {annotations: {sim.kloop.dev/run: %s%s}}
    spec: {restartPolicy: Never, containers: [{name: c, image: "i:1", resources: {requests: {cpu: "1"}}}]}`,
		1+c.IntN(6), 1+c.IntN(3), c.pick("NonIndexed", "Indexed"), c.pick("20s", "5m"), c.pick("", "", `, sim.kloop.dev/exit: "3"`))
	if c.IntN(2) == 0 {
		c.add("apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: nightly}\n"+
			"spec:\n  schedule: '%s'\n  suspend: %s\n"+
			"  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: \"i:1\"}]}}}}",
			c.pick("30 3 * * *", "0 0 30 2 *"), c.pick("true", "false"))
	}
}

func (c *city) quota() {
	c.add("apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: few}\nspec: {hard: {%s}}",
		c.pick(`pods: "14"`, `requests.cpu: "20"`, `count/deployments.apps: "3"`, `pods: "40"`))
}

// broken is what does not run today and is no part of the change.
func (c *city) broken() {
	c.add("%s", shopOf("broken", 2, "i:1", "100m", "",
		c.pick(`, sim.kloop.dev/crash: "2"`, `, sim.kloop.dev/pull-error: "*"`, `, sim.kloop.dev/unready: "yes"`)))
}

// decide chooses the change: what a command does, or a manifest.
func (c *city) decide() Change {
	to := c.targets[c.IntN(len(c.targets))]
	node := fmt.Sprint("sim-", c.IntN(c.nodes))
	if to.Kind == "daemonset" {
		return []Change{SetImages(to, map[string]string{"c": "i:2"}), Delete(to), Drain(node), LoseNode(node)}[c.IntN(4)]
	}
	manifests := []string{
		shopOf("shop-0", 1+c.IntN(9), "i:2", c.pick("1", "2", "9"), "", ""),
		fmt.Sprintf(classes, "urgent", 1000000, "PreemptLowerPriority") + "\n---\n" +
			shopOf("urgent", 2+c.IntN(9), "i:1", "3", "priorityClassName: urgent", ""),
		shopOf("new", 1+c.IntN(30), "i:1", "1", "", c.pick("", `, sim.kloop.dev/crash: "1"`, `, sim.kloop.dev/pull-error: "*"`)),
		"apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: late}\nspec: {hard: {pods: \"5\"}}\n---\n" +
			shopOf("late", 6, "i:1", "100m", "", ""),
		"apiVersion: v1\nkind: LimitRange\nmetadata: {name: least}\nspec: {limits: [{type: Container, max: {cpu: \"2\"}}]}\n---\n" +
			shopOf("shop-0", 2, "i:3", c.pick("1", "3"), "", ""),
		"apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: late}\n" +
			"spec: {minAvailable: 9, selector: {matchLabels: {app: shop-0}}}",
	}
	switch c.IntN(12) {
	case 0, 1:
		return Drain(node)
	case 2:
		return LoseNode(node)
	case 3:
		return LoseZone("z" + fmt.Sprint(c.IntN(3)))
	case 4:
		return Scale(to, int32(c.IntN(24)))
	case 5:
		return SetImages(to, map[string]string{"c": "i:2"})
	case 6:
		return Delete(to)
	case 7:
		return Delete(Target{"node", "", node})
	}
	docs, err := ReadManifest(strings.NewReader(manifests[c.IntN(len(manifests))]))
	if err != nil {
		panic(err) // the texts above
	}
	return Apply(docs, "default")
}
