package causes

import (
	"cmp"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/resource"
)

// What a program says that it lacks may be there under another name: a file as another key of what is mounted, a program of the image, a
// node of the platform that it is made for.

// maxFiles bounds the keys of which a volume's files are listed anew.
const maxFiles = 8

// keyAs advises to have a key of the Secret or ConfigMap that is mounted be the file that a program lacks, where its name is like that;
// "": none is.
func keyAs(l *converge.Look, p *corev1.Pod, mount *corev1.VolumeMount, file string) string {
	name := strings.TrimPrefix(strings.TrimPrefix(file, strings.TrimSuffix(mount.MountPath, "/")), "/")
	k, from, items := keptIn(p, mount.Name)
	field := "configMap"
	if k == kinds.Secrets {
		field = "secret"
	}
	if from == "" || mount.SubPath != "" || name == "" || !l.Sees(k, p.Namespace) {
		return ""
	}
	keys := converge.DataKeys(l.Read.Lookup(k, p.Namespace, from))
	meant := converge.Likest(path.Base(name), keys)
	if slices.Contains(keys, path.Base(name)) {
		meant = path.Base(name) // it lies at another path
	}
	if meant == "" || len(keys) > maxFiles {
		return ""
	}
	if len(items) == 0 {
		for _, key := range keys {
			items = append(items, corev1.KeyToPath{Key: key, Path: key})
		}
	}
	items = slices.DeleteFunc(slices.Clone(items), func(to corev1.KeyToPath) bool { return to.Key == meant })
	items = append(items, corev1.KeyToPath{Key: meant, Path: name})
	return retemplate(l, "there is the key "+meant+" in "+k.Info().Singular+"/"+from+": have it be that file, if it is meant",
		converge.JSON(map[string]any{"volumes": []any{map[string]any{"name": mount.Name, field: map[string]any{"items": items}}}}))
}

// otherSubPath advises to mount the key that a ConfigMap or Secret has in place of one that it has not: then a directory of that name is
// made, which can't lie over a file; "": every key is there.
func otherSubPath(l *converge.Look, p *corev1.Pod, container string) string {
	c := podspec.ContainerNamed(&p.Spec, container)
	for i := range cmp.Or(c, &corev1.Container{}).VolumeMounts {
		mount := &c.VolumeMounts[i]
		k, from, items := keptIn(p, mount.Name)
		if mount.SubPath == "" || from == "" || len(items) > 0 || !l.Sees(k, p.Namespace) {
			continue
		}
		keys := converge.DataKeys(l.Read.Lookup(k, p.Namespace, from))
		meant := converge.Likest(mount.SubPath, slices.Clone(keys))
		if slices.Contains(keys, mount.SubPath) || meant == "" {
			continue
		}
		return retemplate(l, k.Info().Singular+"/"+from+" has no key "+mount.SubPath+"; there is "+meant+": mount that, if it is meant",
			ofContainer(&p.Spec, container, `"volumeMounts":[`+converge.JSON(map[string]string{"name": mount.Name,
				"mountPath": mount.MountPath, "subPath": meant})+"]"))
	}
	return ""
}

// keptIn is the ConfigMap or Secret whose keys are the files of a volume, with those that it lists; "": it is no such volume.
func keptIn(p *corev1.Pod, volume string) (k resource.Kind, from string, items []corev1.KeyToPath) {
	i := slices.IndexFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == volume })
	if i < 0 {
		return nil, "", nil
	}
	if v := &p.Spec.Volumes[i]; v.ConfigMap != nil {
		return kinds.ConfigMaps, v.ConfigMap.Name, v.ConfigMap.Items
	} else if v.Secret != nil {
		return kinds.Secrets, v.Secret.SecretName, v.Secret.Items
	}
	return nil, "", nil
}

// onPlatform advises to have a pod on nodes of another platform than its own node's, of which there are any; nil: there are none.
func onPlatform(l *converge.Look, p *corev1.Pod) (advice []string) {
	at := resource.Get(l.Read, kinds.Nodes, "", p.Spec.NodeName)
	if at == nil {
		return nil
	}
	own := at.Labels[corev1.LabelArchStable]
	for _, arch := range nodeLabels(l.World, corev1.LabelArchStable) {
		if arch != own && own != "" && p.Spec.NodeSelector[corev1.LabelArchStable] == "" {
			advice = append(advice, retemplate(l, "if the image is made for "+arch+", and not for "+own+" as its node is, have it on such nodes",
				`{"nodeSelector":{"`+corev1.LabelArchStable+`":"`+arch+`"}}`))
		}
	}
	return advice
}

var (
	// notInImage finds the program that an image does not have, or does not let anybody execute.
	notInImage = pattern.New(`exec: \\?"([^"\\]+)\\?": (?:executable file not found|stat [^:]+: no such file|(permission denied))`)
	// instead are programs that images mostly have where they lack another one.
	instead = map[string]string{"bash": "sh", "/bin/bash": "/bin/sh", "/usr/bin/bash": "/bin/sh", "python": "python3", "python3": "python",
		"pip": "pip3", "nodejs": "node", "docker-compose": "docker"}
	// programs are those that images often have.
	programs = []string{"sh", "bash", "python", "python3", "node", "npm", "yarn", "java", "nginx", "gunicorn", "uvicorn", "celery", "ruby",
		"bundle", "rails", "php", "perl", "sleep", "echo", "cat", "curl", "wget", "redis-server", "postgres", "mysqld", "mongod", "kubectl",
		"helm", "flask", "dotnet", "envoy", "traefik", "haproxy"}
)

// otherProgram advises to run another program than one that the image does not have: the one of which it is a misspelling, or that images
// have in its place; "": none is known.
func otherProgram(l *converge.Look, p *corev1.Pod, container, said string) string {
	m, c := notInImage.FindStringSubmatch(said), podspec.ContainerNamed(&p.Spec, container)
	if m == nil || c == nil {
		return ""
	}
	meant := instead[m[1]]
	if meant == "" && !slices.Contains(programs, m[1]) {
		dir, name := path.Split(m[1])
		if like := converge.Likest(name, slices.Clone(programs)); like != "" && len(name) > 2 {
			meant = dir + like
		}
	}
	for field, list := range map[string][]string{"command": c.Command, "args": c.Args} {
		if len(list) == 0 || list[0] != m[1] {
			continue
		}
		if m[2] != "" && strings.HasSuffix(m[1], ".sh") {
			return retemplate(l, "have a shell read it", ofContainer(&p.Spec, container,
				`"`+field+`":`+converge.JSON(append([]string{"sh"}, list...))))
		}
		if meant == "" || m[2] != "" {
			continue
		}
		list = slices.Clone(list)
		list[0] = meant
		return retemplate(l, "have it run "+meant+", if the image has that", ofContainer(&p.Spec, container, `"`+field+`":`+
			converge.JSON(list)))
	}
	return ""
}
