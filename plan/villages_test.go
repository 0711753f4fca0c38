package plan

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// A village is a cluster of what people define themselves and of what is spread: objects of a kind of their own, workloads over zones
// and in a namespace of their own, budgets that overlap. Its changes are definitions, manifests of many objects, and what goes as a whole.
func newVillage(seed uint64) *town {
	v := &city{Rand: rand.New(rand.NewPCG(seed, 13)), town: &town{}}
	v.nodes = 3 + v.IntN(6)
	v.add("%s", crontabs)
	for i := range 1 + v.IntN(4) {
		v.add("apiVersion: example.com/v1\nkind: CronTab\nmetadata: {name: tab-%d%s}\nspec: {size: %d}", i,
			v.pick("", "", ", finalizers: [example.com/hold]"), 20*(1+v.IntN(5)))
	}
	v.add("apiVersion: v1\nkind: Namespace\nmetadata: {name: hamlet}")
	v.add("%s", moved("hamlet", "barn", shopOf("barn", 1+v.IntN(5), "i:1", "500m", "", "")))
	if v.IntN(3) == 0 {
		v.add("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept, namespace: hamlet, finalizers: [example.com/hold]}")
	}
	v.spread()
	v.spread()
	if v.IntN(2) == 0 {
		v.store()
	}
	v.change = v.reform()
	return v.town
}

// spread is a shop over the zones, with one or two budgets.
func (c *city) spread() {
	name := fmt.Sprint("shop-", len(c.shops))
	over := fmt.Sprintf("topologySpreadConstraints: [{maxSkew: 1, whenUnsatisfiable: %s, topologyKey: %s, "+
		"labelSelector: {matchLabels: {app: %s}}}]",
		c.pick("DoNotSchedule", "ScheduleAnyway"), c.pick("topology.kubernetes.io/zone", "kubernetes.io/hostname"), name)
	c.add("%s", shopOf(name, 2+c.IntN(7), "i:1", c.pick("500m", "2", "3"), over, c.pick("", "", `, sim.kloop.dev/unready: "yes"`)))
	for i := range c.IntN(3) {
		c.add("apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: %[1]s-%[2]d}\n"+
			"spec: {%[3]s, selector: {matchLabels: {app: %[1]s}}}", name, i,
			c.pick("maxUnavailable: 1", "maxUnavailable: 50%", "minAvailable: 100%", "minAvailable: 2, unhealthyPodEvictionPolicy: AlwaysAllow"))
	}
	c.shops = append(c.shops, name)
	c.targets = append(c.targets, Target{"deployment", "default", name})
}

// reform chooses the change.
func (c *city) reform() Change {
	to := c.targets[c.IntN(len(c.targets))]
	node := fmt.Sprint("sim-", c.IntN(c.nodes))
	switch c.IntN(10) {
	case 0, 1, 2:
		change, err := UpgradeDefinitions(documents(c.pick(
			strings.Replace(crontabs, "maximum: 100", fmt.Sprint("maximum: ", 10+c.IntN(80)), 1),
			strings.Replace(crontabs, "{type: object, properties: {size:",
				"{type: object, required: [owner], properties: {owner: {type: string}, size:", 1),
			strings.Replace(crontabs, "scope: Namespaced", "scope: Cluster", 1),
			strings.Replace(crontabs, "served: true", "served: false", 1),
			strings.ReplaceAll(crontabs, "name: v1", "name: v2"))))
		if err != nil {
			panic(err) // the texts above
		}
		return change
	case 3, 4, 5:
		return Apply(documents(c.files()), "default")
	case 6:
		return LoseZone("z" + fmt.Sprint(c.IntN(3)))
	case 7:
		return Drain(node)
	case 8:
		return []Change{Delete(Target{"namespace", "", "hamlet"}), Delete(Target{"crd", "", "crontabs.example.com"}), Delete(to)}[c.IntN(3)]
	}
	return []Change{Scale(to, int32(c.IntN(40))), SetImages(to, map[string]string{"c": "i:2"})}[c.IntN(2)]
}

// files are many objects, in an order that at times is not that in which they are needed.
func (c *city) files() string {
	shop := func(name, cpu, class, more string) string {
		return moved("new", name, shopOf(name, 1+c.IntN(8), "i:2", cpu, class, more))
	}
	list := []string{
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: new}",
		fmt.Sprintf(classes, "urgent", 1000000, c.pick("PreemptLowerPriority", "Never")),
		"apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: few, namespace: new}\n" +
			"spec: {hard: {" + c.pick(`pods: "3"`, `requests.cpu: "9"`) + "}}",
		"apiVersion: v1\nkind: LimitRange\nmetadata: {name: most, namespace: new}\n" +
			"spec: {limits: [{type: Container, default: {cpu: \"1\"}, max: {cpu: \"2\"}}]}",
		shop("first", c.pick("1", "2"), "", ""),
		shop("second", c.pick("1", "4"), "priorityClassName: urgent", c.pick("", `, sim.kloop.dev/crash: "1"`)),
		"apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: first, namespace: new}\n" +
			"spec: {maxUnavailable: 1, selector: {matchLabels: {app: first}}}",
		"apiVersion: example.com/v1\nkind: CronTab\nmetadata: {name: new}\nspec: {size: " + c.pick("5", "500") + "}",
		shopOf(c.shops[0], 1+c.IntN(9), "i:2", c.pick("1", "3"), "priorityClassName: urgent", ""),
	}
	if c.IntN(3) == 0 {
		c.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	return strings.Join(list[:3+c.IntN(len(list)-2)], "\n---\n")
}

// moved puts a Deployment and its Service into a namespace.
func moved(ns, name, text string) string {
	return strings.ReplaceAll(text, "metadata: {name: "+name+"}", "metadata: {name: "+name+", namespace: "+ns+"}")
}

func documents(text string) []Document {
	docs, err := ReadManifest(strings.NewReader(text))
	if err != nil {
		panic(err) // the texts of this file
	}
	return docs
}
