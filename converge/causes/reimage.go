package causes

import (
	"strings"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/internal/pattern"
)

// imagesFrom finds where images have to come from, in words of a policy: registry.example.com/team/.
var imagesFrom = pattern.New(`(?i)\bimages?\b.*?(?:from|start with|begin with|registry|registries|prefix)\W{1,4}` +
	`((?:[a-z0-9-]+\.)+[a-z]{2,}(?::\d+)?(?:/[a-z0-9._/-]*)?)`)

// Reimage advises to take the images of a template from where a policy wants them to be.
func (workloads) Reimage(l *converge.Look, f *converge.Finding, why string) {
	m := imagesFrom.FindStringSubmatch(why)
	k, top := l.Template()
	if m == nil || top == nil || l.Workloads().Template(top) == nil {
		return
	}
	set, from := "", strings.TrimRight(m[1], "/.")+"/"
	for _, c := range l.Workloads().Template(top).Spec.Containers {
		if !strings.HasPrefix(c.Image, from) {
			image := c.Image
			if host, rest, is := strings.Cut(image, "/"); is && strings.ContainsAny(host, ".:") {
				image = rest
			}
			set += " " + c.Name + "=" + from + image
		}
	}
	if set != "" {
		f.Advice = append([]string{"take its images from there, if they are there: kubectl set image " + k.Info().Singular + "/" +
			top.GetName() + set + converge.In(top.GetNamespace())}, f.Advice...)
	}
}
