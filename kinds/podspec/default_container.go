package podspec

import (
	"regexp"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kloop-dev/kloop/kinds/rule"
)

func defaultContainer(c *corev1.Container) {
	rule.FillZero(&c.ImagePullPolicy, pullPolicy(c.Image))
	rule.FillZero(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	rule.FillZero(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	for i := range c.Ports {
		rule.FillZero(&c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	for i := range c.Env {
		defaultEnv(c.Env[i].ValueFrom)
	}
	RoundResources(c.Resources.Limits)
	RoundResources(c.Resources.Requests)
	defaultProbe(c.LivenessProbe)
	defaultProbe(c.ReadinessProbe)
	defaultProbe(c.StartupProbe)
	if c.Lifecycle != nil {
		defaultHook(c.Lifecycle.PostStart)
		defaultHook(c.Lifecycle.PreStop)
	}
}

func defaultEnv(from *corev1.EnvVarSource) {
	switch {
	case from == nil:
	case from.FieldRef != nil:
		rule.FillZero(&from.FieldRef.APIVersion, "v1")
	case from.FileKeyRef != nil:
		rule.Fill(&from.FileKeyRef.Optional, false)
	}
}

func defaultProbe(p *corev1.Probe) {
	if p == nil {
		return
	}
	rule.FillZero(&p.TimeoutSeconds, 1)
	rule.FillZero(&p.PeriodSeconds, 10)
	rule.FillZero(&p.SuccessThreshold, 1)
	rule.FillZero(&p.FailureThreshold, 3)
	defaultHTTP(p.HTTPGet)
	if p.GRPC != nil {
		rule.Fill(&p.GRPC.Service, "")
	}
}

func defaultHook(h *corev1.LifecycleHandler) {
	if h != nil {
		defaultHTTP(h.HTTPGet)
	}
}

func defaultHTTP(g *corev1.HTTPGetAction) {
	if g != nil {
		rule.FillZero(&g.Path, "/")
		rule.FillZero(&g.Scheme, corev1.URISchemeHTTP)
	}
}

// imageName takes an image reference apart as container runtimes do: [domain/]path[:tag][@digest]. Compiled it weighs 135 KB.
var imageName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(
		`^(?:(?:localhost|(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*|` +
			`\[[a-fA-F0-9:]+\])(?::[0-9]+)?/)?` +
			`[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*` +
			`(?::([\w][\w.-]{0,127}))?(@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?$`)
})

// pullPolicy returns the policy of a container that names none: an image whose tag moves is always pulled.
func pullPolicy(image string) corev1.PullPolicy {
	switch m := imageName().FindStringSubmatch(image); {
	case m == nil, m[1] == "" && m[2] != "", longName(image), len(image) == 64 && strings.Trim(image, "0123456789abcdef") == "":
		return corev1.PullIfNotPresent
	case m[1] == "" || m[1] == "latest":
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

// longName reports whether the path of a name, with the "library/" that one of a single word stands for, is too long to be one.
func longName(image string) bool {
	name, _, _ := strings.Cut(image, "@")
	if i := strings.LastIndexAny(name, ":/"); i >= 0 && name[i] == ':' {
		name = name[:i]
	}
	domain, path, found := strings.Cut(name, "/")
	switch {
	case !found:
		path = "library/" + name
	case domain != "localhost" && !strings.ContainsAny(domain, ".:") && strings.ToLower(domain) == domain:
		path = name
	}
	return len(path) > 255
}

// RoundResources rounds amounts up to thousandths, the finest that is accounted for.
func RoundResources(list corev1.ResourceList) {
	for name, q := range list {
		q.RoundUp(resource.Milli)
		list[name] = q
	}
}

func isHugePages(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// addTo sets an amount that list does not have yet.
func addTo(list *corev1.ResourceList, name corev1.ResourceName, q resource.Quantity) {
	if _, set := (*list)[name]; set {
		return
	}
	if *list == nil {
		*list = corev1.ResourceList{}
	}
	(*list)[name] = q.DeepCopy()
}
