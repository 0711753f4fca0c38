package plan

import (
	"fmt"
	"strings"
)

// specs are of workloads themselves.
func (c *county) specs() map[string]func() Change {
	in := func(part, text string) Change { // in the spec of pods
		return c.altered(part, "      containers: [{", "      "+text+"\n      containers: [{", `"i:1"`, `"i:2"`)
	}
	of := func(part, text string) Change { // in the spec of the workload
		return c.altered(part, "spec:\n  replicas:", "spec:\n  "+text+"\n  replicas:", `"i:1"`, c.pick(`"i:1"`, `"i:2"`))
	}
	return map[string]func() Change{
		"affinity": func() Change {
			return in(c.pick("web", "barn"), "affinity: "+c.pick(
				"{nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "+
					"[{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [z1, z7]}]}]}}}",
				"{podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "+
					"[{topologyKey: kubernetes.io/hostname, labelSelector: "+
					"{matchExpressions: [{key: app, operator: In, values: [web, barn]}]}}]}}",
				"{podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "+
					"[{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: placed}}}]}}"))
		},
		"node selector": func() Change {
			return in(c.pick("web", "barn", "disk"), "nodeSelector: {"+c.pick("disk: ssd", "topology.kubernetes.io/zone: z2",
				"kubernetes.io/hostname: "+c.node())+"}")
		},
		"spread": func() Change {
			return in("barn", "topologySpreadConstraints: [{maxSkew: 1, whenUnsatisfiable: "+c.pick("DoNotSchedule", "ScheduleAnyway")+
				", topologyKey: "+c.pick("topology.kubernetes.io/zone", "none", "kubernetes.io/hostname")+
				", labelSelector: {matchLabels: {app: barn}}}]")
		},
		"requests": func() Change {
			return c.altered(c.workload(), `"100m"`, `"6"`, `"1"`, `"99"`, `"500m"`, c.pick(`"7"`, `"200m"`), `"200m"`, `"4"`)
		},
		"gates": func() Change { return in(c.workload(), "schedulingGates: [{name: example.com/hold}]") },
		"init": func() Change {
			return in(c.workload(), `initContainers: [{name: i, image: "i:1"`+c.pick("", ", restartPolicy: Always")+"}]")
		},
		"crash": func() Change { return c.altered(c.workload(), "sim.kloop.dev/stop: 3s", `sim.kloop.dev/crash: "1"`) },
		"pull": func() Change {
			return c.altered(c.workload(), "sim.kloop.dev/stop: 3s", `sim.kloop.dev/pull-error: "*"`)
		},
		"unready": func() Change {
			return c.altered(c.workload(), "sim.kloop.dev/stop: 3s", `sim.kloop.dev/unready: "yes"`)
		},
		"rollout": func() Change {
			return of(c.pick("web", "barn", "placed"), c.pick("paused: true", "minReadySeconds: 40", "progressDeadlineSeconds: 20",
				"revisionHistoryLimit: 0", "strategy: {type: Recreate}", "strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 100%}}",
				"strategy: {rollingUpdate: {maxSurge: 3, maxUnavailable: 0}}"))
		},
		"immutable": func() Change {
			return c.of(c.altered("web", "selector: {matchLabels: {app: web}}", "selector: {matchLabels: {app: other}}"),
				c.altered("barn", "      containers", "      restartPolicy: Never\n      containers"))
		},
		"stateful": func() Change {
			text := strings.Replace(db[:strings.Index(db, "---\napiVersion: apps/v1\nkind: DaemonSet")], "replicas: 3",
				"replicas: "+fmt.Sprint(1+c.IntN(5))+c.pick("", "\n  minReadySeconds: 30", "\n  ordinals: {start: 3}",
					"\n  podManagementPolicy: Parallel"), 1)
			return c.applied("%s", strings.NewReplacer("1Gi", c.pick("1Gi", "2Gi"), `"a:1"`, c.pick(`"a:1"`, `"a:2"`)).Replace(text))
		},
		"daemon": func() Change {
			return c.applied("apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: agent}\nspec:\n"+
				"  selector: {matchLabels: {app: agent}}\n  updateStrategy: {rollingUpdate: {%s}}\n  template:\n"+
				"    metadata: {labels: {app: agent}}\n    spec: {%s containers: [{name: c, image: %q, resources: {requests: {cpu: %q}}}]}",
				c.pick("maxUnavailable: 1", "maxSurge: 1, maxUnavailable: 0", "maxUnavailable: 100%"),
				c.pick("", "nodeSelector: {topology.kubernetes.io/zone: z2},", "hostNetwork: true,", "priorityClassName: rank,"),
				c.pick("i:1", "i:2"), c.pick("100m", "7"))
		},
		"pod": func() Change {
			return c.applied("apiVersion: v1\nkind: Pod\nmetadata: {name: bare}\n"+
				"spec: {%s containers: [{name: c, image: i, resources: {requests: {cpu: %q}}}]}",
				c.pick("", "nodeName: sim-0,", "nodeName: nowhere,", "activeDeadlineSeconds: 90,", "restartPolicy: Never,",
					"priorityClassName: rank,"), c.pick("1", "8", "90"))
		},
	}
}

// schedules are of jobs.
func (c *county) schedules() map[string]func() Change {
	job := func(spec, notes, pod string) Change {
		return c.applied("apiVersion: batch/v1\nkind: Job\nmetadata: {name: once}\nspec:\n  %s\n  template:\n"+
			"    metadata: {annotations: {%s}}\n"+
			"    spec: {%s containers: [{name: c, image: i, resources: {requests: {cpu: \"1\"}}}]}", spec, notes, pod)
	}
	return map[string]func() Change{
		"cron": func() Change {
			return c.altered("tick", c.pick("suspend: false", "no such words"), "suspend: true",
				"schedule: '*/", c.pick("schedule: '*/1", "schedule: '*/"),
				"concurrencyPolicy: Allow", "concurrencyPolicy: Forbid", "20s", c.pick("20s", "9m"))
		},
		"cron broken": func() Change {
			return c.altered("tick", "sim.kloop.dev/run: 20s", `sim.kloop.dev/exit: "3"`, "sim.kloop.dev/run: 11m",
				`sim.kloop.dev/pull-error: "*"`, "'*/", "'*/1", "concurrencyPolicy: Replace", "concurrencyPolicy: Allow")
		},
		"job": func() Change {
			return job(c.pick("ttlSecondsAfterFinished: 300", "activeDeadlineSeconds: 60", "suspend: true",
				"completions: 5\n  parallelism: 2",
				"completions: 4\n  completionMode: Indexed\n  backoffLimitPerIndex: 1", "backoffLimit: 3"),
				c.pick("sim.kloop.dev/run: 20s", "sim.kloop.dev/run: 4m", `sim.kloop.dev/exit: "3"`), c.pick("restartPolicy: Never,",
					"restartPolicy: OnFailure,", "restartPolicy: Never, priorityClassName: rank,"))
		},
		"job policy": func() Change {
			return job(fmt.Sprintf("backoffLimit: 2\n  podFailurePolicy: {rules: [{action: %s, onExitCodes: {operator: In, values: [3]}}]}",
				c.pick("FailJob", "Count", "Ignore")), `sim.kloop.dev/exit: "`+c.pick("3", "4")+`"`, "restartPolicy: Never,")
		},
	}
}

// surroundings are of nodes and networks.
func (c *county) surroundings() map[string]func() Change {
	node := func(more string) Change {
		return c.applied("apiVersion: v1\nkind: Node\nmetadata: {name: %s%s", c.node(), more)
	}
	return map[string]func() Change{
		"taint": func() Change {
			return node(fmt.Sprintf("}\nspec: {taints: [{key: own, value: x, effect: %s}]}",
				c.pick("NoSchedule", "NoExecute", "PreferNoSchedule")))
		},
		"cordon": func() Change { return node("}\nspec: {unschedulable: true}") },
		"node label": func() Change {
			return node(", labels: {" + c.pick("topology.kubernetes.io/zone: z9", "disk: ssd") + "}}")
		},
		"node new": func() Change {
			return c.applied("apiVersion: v1\nkind: Node\nmetadata: {name: fresh}")
		},
		"network": func() Change {
			return c.applied("%s", c.pick(
				"apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: in}\n"+
					"spec: {defaultBackend: {service: {name: nowhere, port: {number: 80}}}}",
				"apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: none}\n"+
					"spec: {podSelector: {}, policyTypes: [Ingress]}",
				"apiVersion: v1\nkind: Service\nmetadata: {name: lb}\n"+
					"spec: {type: LoadBalancer, selector: {app: web}, ports: [{port: 80}]}",
				"apiVersion: v1\nkind: Service\nmetadata: {name: bare}\nspec: {ports: [{port: 80}]}"))
		},
		"rights": func() Change {
			return c.applied("apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: a}\n"+
				"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: %s, name: %s}\n"+
				"subjects: [{kind: ServiceAccount, name: robot, namespace: default}]",
				c.pick("Role", "ClusterRole"), c.pick("view", "nowhere"))
		},
		"definition": func() Change {
			return c.applied("%s\n---\napiVersion: example.com/v1\nkind: CronTab\nmetadata: {name: new}\n"+
				"spec: {size: %d}", crontabs, 50*(1+c.IntN(4)))
		},
	}
}
