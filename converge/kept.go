package converge

import (
	"strings"

	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/resource"
)

// changing finds the workload that a command would change.
var changing = pattern.New(`kubectl (?:patch|edit|scale|set [a-z]+) (deployment|statefulset|daemonset|cronjob)[ /]([a-z0-9.-]+)`)

// appliedBy are labels and annotations by which those who apply what is kept elsewhere mark it, with who they are. Of the second field the
// value is the name.
var appliedBy = [][2]string{{"kustomize.toolkit.fluxcd.io/name", "kustomization"}, {"helm.toolkit.fluxcd.io/name", "helmrelease"},
	{"argocd.argoproj.io/tracking-id", "application"}, {"meta.helm.sh/release-name", "release"}}

// keptElsewhere adds to advice that changes a workload by hand who would change it back.
func (l *Look) keptElsewhere(f *Finding) {
	for _, a := range f.Advice {
		m := changing.FindStringSubmatch(a)
		if m == nil {
			continue
		}
		for _, k := range l.Kinds.All() {
			if i := k.Info(); i.Singular != m[1] || i.Custom {
				continue
			}
			if by := l.applier(k, l.Read.Lookup(k, l.Obj.GetNamespace(), m[2])); by != "" {
				f.Advice = append(f.Advice[:len(f.Advice):len(f.Advice)], m[1]+"/"+m[2]+" is applied by "+by+
					": change it in what that goes by too, or it is changed back")
			}
			return
		}
	}
}

// applier names who applies an object, by its marks, or by the status of an Application; "": nobody is known to.
func (l *Look) applier(k resource.Kind, obj resource.Object) string {
	if obj == nil {
		return ""
	}
	for _, mark := range appliedBy {
		name := obj.GetLabels()[mark[0]] + obj.GetAnnotations()[mark[0]]
		if name, _, _ = strings.Cut(name, ":"); name == "" {
			continue
		}
		if mark[1] == "release" {
			return "the Helm release " + name
		}
		return mark[1] + "/" + name
	}
	for _, by := range l.made(obj.GetNamespace())[[3]string{k.Info().GVK.Kind, obj.GetNamespace(), obj.GetName()}] {
		if by.Kind.Info().GVK.Kind == "Application" {
			return "application/" + by.Name
		}
	}
	return ""
}
