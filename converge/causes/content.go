package causes

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// content gathers what a pod wants of a Secret or ConfigMap: arguments of the command that makes it.
type content struct {
	name string
	args []string
}

func (c *content) want(of, arg string) {
	if of == c.name && !slices.Contains(c.args, arg) {
		c.args = append(c.args, arg)
	}
}

// files are the keys that a volume has as files: those that it names, or all there are.
func (c *content) files(of string, items []corev1.KeyToPath) {
	for _, i := range items {
		c.want(of, " --from-file="+i.Key+"=FILE")
	}
	if len(items) == 0 {
		c.want(of, " --from-file=FILE")
	}
}

// variables are the keys that a container has as variables: those that it names, or all there are.
func (c *content) variables(word string, of *corev1.Container) {
	for _, e := range of.Env {
		switch {
		case e.ValueFrom == nil:
		case word == "secret" && e.ValueFrom.SecretKeyRef != nil:
			c.want(e.ValueFrom.SecretKeyRef.Name, " --from-literal="+e.ValueFrom.SecretKeyRef.Key+"=VALUE")
		case word == "configmap" && e.ValueFrom.ConfigMapKeyRef != nil:
			c.want(e.ValueFrom.ConfigMapKeyRef.Name, " --from-literal="+e.ValueFrom.ConfigMapKeyRef.Key+"=VALUE")
		}
	}
	for _, e := range of.EnvFrom {
		if word == "secret" && e.SecretRef != nil && len(c.args) == 0 {
			c.want(e.SecretRef.Name, " --from-env-file=FILE")
		} else if word == "configmap" && e.ConfigMapRef != nil && len(c.args) == 0 {
			c.want(e.ConfigMapRef.Name, " --from-env-file=FILE")
		}
	}
}

// makeData is the end of advice with the command that makes a Secret or ConfigMap with what a pod wants of it; "": that is not known.
func makeData(p *corev1.Pod, word, name string) string {
	c := &content{name: name}
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			c.variables(word, &list[i])
		}
	}
	for _, v := range p.Spec.Volumes {
		if word == "secret" && v.Secret != nil {
			c.files(v.Secret.SecretName, v.Secret.Items)
		} else if word == "configmap" && v.ConfigMap != nil {
			c.files(v.ConfigMap.Name, v.ConfigMap.Items)
		}
	}
	if len(c.args) > 1 { // kubectl takes that alone
		c.args = slices.DeleteFunc(c.args, func(a string) bool { return a == " --from-env-file=FILE" })
	}
	if len(c.args) == 0 {
		return ""
	}
	if word == "secret" {
		word = "secret generic"
	}
	return ": kubectl create " + word + " " + name + " -n " + p.Namespace + strings.Join(c.args, "")
}
