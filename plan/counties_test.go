package plan

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// A county is a cluster of what a city has and of all that workloads hang on: settings, accounts, claims, schedules, places, policies.
// Its change is of one of many sorts, each as likely as the others.
func newCounty(seed uint64) *town {
	c := &county{city: &city{Rand: rand.New(rand.NewPCG(seed, 17)), town: &town{}}, own: map[string]string{}}
	c.nodes = 3 + c.IntN(5)
	for _, part := range []func(){c.shop, c.store, c.daemon, c.batch, c.broken} {
		if c.IntN(4) == 0 {
			part()
		}
	}
	for name, text := range c.parts() {
		c.own[name] = text
	}
	for _, name := range []string{"place", "rank"} { // which others are in, or of
		c.add("%s", c.own[name])
	}
	for _, name := range sortedKeys(c.own) { // in one order: a seed describes one cluster
		if name != "place" && name != "rank" {
			c.add("%s", c.own[name])
		}
	}
	c.targets = append(c.targets, Target{"deployment", "default", "web"}, Target{"deployment", "default", "disk"},
		Target{"deployment", "default", "placed"})
	sorts := c.sorts()
	names := sortedKeys(sorts)
	c.sort = names[int(seed/4)%len(names)]
	c.change = sorts[c.sort]()
	return c.town
}

type county struct {
	*city
	own map[string]string // texts of the objects that changes alter
}

// parts are what each county has.
func (c *county) parts() map[string]string {
	web := shopOf("web", 2+c.IntN(4), "i:1", c.pick("100m", "1"), c.pick("", "serviceAccountName: robot"), "")
	web = strings.Replace(web, `image: "i:1"`, `image: "i:1", envFrom: [{configMapRef: {name: settings}}, {secretRef: {name: token`+
		c.pick("", ", optional: true")+`}}]`, 1)
	disk := strings.Replace(shopOf("disk", 1, "i:1", "500m", "volumes: [{name: d, persistentVolumeClaim: {claimName: disk}}]", ""),
		"replicas: 1", "replicas: 1\n  strategy: {type: Recreate}", 1)
	placed := shopOf("placed", 1+c.IntN(4), "i:1", "500m", c.pick(
		"nodeSelector: {topology.kubernetes.io/zone: z1}", "tolerations: [{key: own, operator: Exists, effect: NoSchedule}]",
		"tolerations: [{key: own, operator: Exists, effect: NoExecute, tolerationSeconds: 60}]",
		"affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 10, preference: "+
			"{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [z1]}]}}]}}"), "")
	policy, run := c.pick("Allow", "Forbid", "Replace"), "20s"
	if policy == "Allow" { // else whether a run waits for the last one depends on the minute
		run = c.pick("20s", "11m")
	}
	return map[string]string{
		"settings": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: b}\nimmutable: " + c.pick("true", "false"),
		"token":    "apiVersion: v1\nkind: Secret\nmetadata: {name: token}\nstringData: {a: b}",
		"robot":    "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: robot}",
		"grow": "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: grow}\nprovisioner: disks.example.com\n" +
			"allowVolumeExpansion: " + c.pick("true", "false") + "\nvolumeBindingMode: " + c.pick("WaitForFirstConsumer", "Immediate"),
		"claim": "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: disk}\n" +
			"spec: {storageClassName: grow, accessModes: [ReadWriteOnce], resources: {requests: {storage: 2Gi}}}",
		"budget": "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: web}\n" +
			"spec: {maxUnavailable: 1, selector: {matchLabels: {app: web}}}",
		"scaler": "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web}\n" +
			"spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, minReplicas: 2, maxReplicas: 6}",
		"tick": fmt.Sprintf("apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: tick}\nspec:\n  schedule: '*/%d * * * *'\n"+
			"  suspend: false\n  concurrencyPolicy: %s\n  successfulJobsHistoryLimit: %d\n  jobTemplate:\n    spec:\n      template:\n"+
			"        metadata: {annotations: {sim.kloop.dev/run: %s}}\n"+
			"        spec: {restartPolicy: Never, containers: [{name: c, image: \"i:1\", resources: {requests: {cpu: 100m}}}]}",
			3+c.IntN(9), policy, c.IntN(3), run),
		"rank":  fmt.Sprintf(classes, "rank", 500, "PreemptLowerPriority"),
		"place": "apiVersion: v1\nkind: Namespace\nmetadata: {name: place}",
		"barn":  moved("place", "barn", shopOf("barn", 1+c.IntN(4), "i:1", "200m", "priorityClassName: rank", "")),
		"web":   web, "disk": disk, "placed": placed,
	}
}

// altered applies the texts of parts again, each pair of words in them replaced.
func (c *county) altered(part string, pairs ...string) Change {
	text := c.own[part]
	next := strings.NewReplacer(pairs...).Replace(text)
	if next == text && len(pairs) > 0 && pairs[0] != pairs[1] {
		next = text + "\n" // what is to be replaced is not there: the same again
	}
	return Apply(documents(next), "default")
}

func (c *county) applied(format string, args ...any) Change {
	return Apply(documents(fmt.Sprintf(format, args...)), "default")
}

func (c *county) target() Target { return c.targets[c.IntN(len(c.targets))] }

func (c *county) of(list ...Change) Change { return list[c.IntN(len(list))] }

func (c *county) node() string { return fmt.Sprint("sim-", c.IntN(c.nodes)) }

// workload is a Deployment of the parts.
func (c *county) workload() string { return c.pick("web", "disk", "placed", "barn") }
