package plan

import (
	"fmt"
	"strings"
)

// sorts are the sorts of changes that people make, by name. Each draws one of its sort.
func (c *county) sorts() map[string]func() Change {
	list := map[string]func() Change{}
	for _, more := range []map[string]func() Change{c.commands(), c.limits(), c.dependencies(), c.specs(), c.schedules(),
		c.surroundings()} {
		for name, f := range more {
			list[name] = f
		}
	}
	return list
}

// commands are those that have a word of their own.
func (c *county) commands() map[string]func() Change {
	return map[string]func() Change{
		"drain":     func() Change { return Drain(c.node()) },
		"lose node": func() Change { return LoseNode(c.node()) },
		"lose zone": func() Change { return LoseZone(fmt.Sprint("z", c.IntN(3))) },
		"scale": func() Change {
			to := c.target()
			if to.Kind == "daemonset" {
				to = Target{"deployment", "default", "web"}
			}
			return Scale(to, int32(c.IntN(30)))
		},
		"set image":       func() Change { return SetImages(c.target(), map[string]string{"c": "i:2"}) },
		"delete workload": func() Change { return Delete(c.target()) },
		"delete node":     func() Change { return Delete(Target{"node", "", c.node()}) },
		"delete object": func() Change {
			return Delete([]Target{{"service", "default", "web"}, {"configmap", "default", "settings"}, {"secret", "default", "token"},
				{"pvc", "default", "disk"}, {"storageclass", "", "grow"}, {"priorityclass", "", "rank"}, {"pdb", "default", "web"},
				{"serviceaccount", "default", "robot"}, {"hpa", "default", "web"}, {"cronjob", "default", "tick"}}[c.IntN(10)])
		},
		"delete namespace": func() Change { return Delete(Target{"namespace", "", "place"}) },
		"delete rollout": func() Change { // and what depends on it goes as well
			return c.of(Delete(Target{"deployment", "place", "barn"}), Delete(Target{"namespace", "", "place"}))
		},
		"upgrade crd": func() Change {
			change, err := UpgradeDefinitions(documents(strings.Replace(crontabs, "maximum: 100", fmt.Sprint("maximum: ", c.IntN(90)), 1)))
			if err != nil {
				panic(err) // the text above
			}
			return change
		},
	}
}

// limits are of what is allowed.
func (c *county) limits() map[string]func() Change {
	return map[string]func() Change{
		"quota": func() Change {
			return c.applied("apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: few}\nspec: {hard: {%s}}\n---\n%s",
				c.pick(`pods: "3"`, `requests.cpu: "2"`, `count/deployments.apps: "1"`, `persistentvolumeclaims: "0"`, `limits.cpu: "1"`),
				c.again(c.workload()))
		},
		"limit range": func() Change {
			return c.applied("apiVersion: v1\nkind: LimitRange\nmetadata: {name: most}\nspec: {limits: [{type: Container, %s}]}\n---\n%s",
				c.pick(`max: {cpu: 200m}`, `default: {cpu: "1"}`, `min: {cpu: "2"}`, `defaultRequest: {memory: 1Gi}`), c.again("web"))
		},
		"priority": func() Change {
			return c.of(c.altered("rank", "value: 500", "value: 700"), c.altered("rank", "value: 500", "globalDefault: true\nvalue: 500"),
				c.applied("%s\n---\n%s", fmt.Sprintf(classes, "top", 9000, c.pick("Never", "PreemptLowerPriority")),
					shopOf("top", 3+c.IntN(12), "i:1", "3", "priorityClassName: top", "")),
				c.applied("%s", shopOf("top", 2, "i:1", "1", "priorityClassName: nowhere", "")))
		},
		"budget": func() Change {
			return c.altered("budget", "maxUnavailable: 1", c.pick("maxUnavailable: 0", "minAvailable: 100%", "minAvailable: 1",
				"maxUnavailable: 50%"))
		},
		"policy": func() Change {
			return c.applied("apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: nay}\nspec:\n"+
				"  matchConstraints: {resourceRules: [{apiGroups: [%s], apiVersions: [v1], "+
				"operations: [CREATE, UPDATE], resources: [%s]}]}\n"+
				"  validations: [{expression: '%s'}]\n---\napiVersion: admissionregistration.k8s.io/v1\n"+
				"kind: ValidatingAdmissionPolicyBinding\nmetadata: {name: nay}\nspec: {policyName: nay, validationActions: [%s]}\n---\n%s",
				c.pick(`"", apps`, "apps"), c.pick("pods, deployments", "deployments"),
				c.pick("false", "object.metadata.name.startsWith(\"w\")"), c.pick("Deny", "Warn"), c.again(c.workload()))
		},
		"pod security": func() Change {
			return c.applied("apiVersion: v1\nkind: Namespace\nmetadata: {name: place, "+
				"labels: {pod-security.kubernetes.io/enforce: %s}}\n---\n%s",
				c.pick("restricted", "baseline"), c.again("barn"))
		},
	}
}

// again is a workload's text with another image: its pods are made anew.
func (c *county) again(part string) string { return strings.Replace(c.own[part], `"i:1"`, `"i:3"`, 1) }

// dependencies are of what pods need.
func (c *county) dependencies() map[string]func() Change {
	return map[string]func() Change{
		"config": func() Change {
			return c.of(c.altered("settings", "a: b", "a: c"), c.altered("settings", "immutable: true", "immutable: false"),
				c.altered("settings", "name: settings", "name: others"),
				c.applied("%s", strings.Replace(c.again("web"), "name: settings", "name: missing", 1)))
		},
		"secret": func() Change {
			return c.of(c.altered("token", "a: b", "a: c"), c.altered("token", "stringData:", "type: example.com/other\nstringData:"),
				c.applied("%s", strings.Replace(c.again("web"), "name: token", "name: missing", 1)))
		},
		"account": func() Change {
			return c.applied("%s", shopOf("as", 2, "i:1", "100m", "serviceAccountName: "+c.pick("robot", "nobody"), ""))
		},
		"claim": func() Change {
			return c.of(c.altered("claim", "2Gi", "5Gi"), c.altered("claim", "2Gi", "1Gi"), c.altered("claim", "grow", "other"),
				c.applied("%s", strings.NewReplacer("name: disk", "name: more", "grow", c.pick("grow", "missing")).Replace(c.own["claim"])+
					"\n---\n"+strings.NewReplacer("name: disk", "name: more", "claimName: disk", "claimName: more", "app: disk", "app: more").
					Replace(c.own["disk"])))
		},
		"class": func() Change {
			return c.of(c.altered("grow", "provisioner: disks", "provisioner: other"),
				c.altered("grow", "allowVolumeExpansion: false", "allowVolumeExpansion: true"),
				c.altered("grow", "name: grow}", "name: grow, annotations: {storageclass.kubernetes.io/is-default-class: 'true'}}"))
		},
		"autoscaler": func() Change {
			return c.altered("scaler", "minReplicas: 2, maxReplicas: 6", c.pick("minReplicas: 5, maxReplicas: 6",
				"minReplicas: 1, maxReplicas: 1",
				"minReplicas: 20, maxReplicas: 30", "minReplicas: 9, maxReplicas: 3"))
		},
		"service": func() Change {
			return c.altered("web", "spec: {selector: {app: web}", c.pick("spec: {selector: {app: wbe}",
				"spec: {type: NodePort, selector: {app: web}", "spec: {clusterIP: 9.9.9.9, selector: {app: web}",
				"spec: {publishNotReadyAddresses: true, selector: {app: web}"))
		},
		"namespace": func() Change {
			return c.applied("apiVersion: v1\nkind: Namespace\nmetadata: {name: new}\n---\n%s",
				moved("new", "first", shopOf("first", 1+c.IntN(9), "i:1", c.pick("1", "3"), "", "")))
		},
	}
}
