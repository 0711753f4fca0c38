package causes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/resource"
)

// images are the ways in which a container's image is not there.
func images() []converge.Situation {
	of := []resource.Kind{kinds.Pods}
	return []converge.Situation{
		{Name: "ImageNameInvalid", Of: of, See: container(imageNameInvalid)},
		{Name: "ImageNotPresent", Of: of, See: container(imageNotPresent)},
		{Name: "PullSecretMissing", Of: of, See: container(pullSecretMissing)},
		{Name: "ImagePull", Of: of, See: container(imagePull)},
	}
}

// container asks a rule about every container of a pod that has a node and is not being deleted; of those for debugging
// about such that do not start.
func container(see func(l *converge.Look, p *corev1.Pod, c *corev1.ContainerStatus) *converge.Finding) func(
	l *converge.Look) *converge.Finding {
	return func(l *converge.Look) *converge.Finding {
		p := l.Obj.(*corev1.Pod)
		if p.Spec.NodeName == "" || p.DeletionTimestamp != nil {
			return nil
		}
		for _, statuses := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
			for i := range statuses {
				if f := see(l, p, &statuses[i]); f != nil {
					if f.Owner == "" {
						f.Owner = converge.AgentOf(p)
					}
					besides(l, f, p, &statuses[i], statuses)
					return f
				}
			}
		}
		for i := range p.Status.EphemeralContainerStatuses {
			c := &p.Status.EphemeralContainerStatuses[i]
			if c.State.Waiting == nil {
				continue
			}
			if f := see(l, p, c); f != nil {
				f.Owner = cmp.Or(f.Owner, converge.AgentOf(p))
				return f
			}
		}
		return nil
	}
}

// besides adds what keeps another container of a pod from starting, if that is something else.
func besides(l *converge.Look, f *converge.Finding, p *corev1.Pod, told *corev1.ContainerStatus, all []corev1.ContainerStatus) {
	first, _ := general.WaitsFor(told)
	for i := range all {
		reason, _ := general.WaitsFor(&all[i])
		if reason == first || !strings.HasPrefix(reason, "Create") && !pulling(reason) || pulling(reason) == pulling(first) {
			continue
		}
		for _, see := range []func(*converge.Look, *corev1.Pod, *corev1.ContainerStatus) *converge.Finding{runsAsRoot, configMissing,
			containerRefused, pullSecretMissing, imagePull} {
			g := see(l, p, &all[i])
			if g == nil {
				continue
			}
			if near := l.NearTo(g.Waits); near != "" {
				g.Advice = append([]string{near}, g.Advice...)
			}
			if l.Complete(g); len(g.Advice) > 0 {
				f.Also = append(f.Also, g.Advice[0])
			}
			f.Says += "; besides, it " + g.Says
			return
		}
	}
}

// imageNameInvalid is judged by the agent alone: the API takes any text for an image.
func imageNameInvalid(l *converge.Look, p *corev1.Pod, c *corev1.ContainerStatus) *converge.Finding {
	reason, text := general.WaitsFor(c)
	if reason != "InvalidImageName" {
		return nil
	}
	_, why, _ := strings.Cut(text, "couldn't parse image name: ")
	image, advice := c.Image, edited(l, "correct the image in the pod's template")
	if of := podspec.ContainerNamed(&p.Spec, c.Name); of != nil {
		image = of.Image
	}
	if low := lowerCase(image); low != image {
		if top, ok := changeable(l.World, l.Kind, l.Obj); ok && top.Kind != kinds.CronJobs {
			advice = inLower + top.Kind.Info().Singular + "/" + top.Name + " " + c.Name + "=" + low + " -n " + top.NS
		} else if metav1.GetControllerOfNoCopy(p) == nil {
			advice = inLower + "pod/" + p.Name + " " + c.Name + "=" + low + " -n " + p.Namespace
		}
	}
	return &converge.Finding{Says: strings.TrimSuffix(fmt.Sprintf("names an image that no image can have: %q: %s", image, why), ": "),
		State: converge.Blocked,
		Waits: l.Field(imageField(p, c)),
		Error: general.TextOnly(text), Next: converge.PersonDoes("corrects the image's name"),
		Advice: []string{advice}}
}

// inLower begins the step for an image that has capitals.
const inLower = "write it in lower case: kubectl set image "

// plainImage finds what can be an image, in lower case, and its tag.
var plainImage = pattern.New(`^([a-z0-9./_-]+(?::\d+/[a-z0-9./_-]+)?)(:[\w.-]+)?$`)

// lowerCase is an image whose repository is in lower case, as it has to be, where nothing else is wrong with it.
func lowerCase(image string) string {
	name, tag := image, ""
	if at := strings.LastIndexByte(image, ':'); at > strings.LastIndexByte(image, '/') {
		name, tag = image[:at], image[at:]
	}
	if low := strings.ToLower(name) + tag; plainImage.MatchString(low) {
		return low
	}
	return image
}

// imageNotPresent is imagePullPolicy Never on a node without the image.
func imageNotPresent(l *converge.Look, p *corev1.Pod, c *corev1.ContainerStatus) *converge.Finding {
	reason, text := general.WaitsFor(c)
	if reason != "ErrImageNeverPull" {
		return nil
	}
	return &converge.Finding{Says: fmt.Sprintf("needs the image %q, which node %s does not have, and must not pull it", c.Image,
		p.Spec.NodeName), State: converge.Blocked,
		Waits: l.Field(imageField(p, c)), Error: general.TextOnly(text),
		Next: converge.Does(converge.AgentOf(p),
			"starts the container when the image is there"),
		Advice: []string{"load the image into the node's runtime: kloop image load FILE",
			retemplate(l, "or let it be pulled: imagePullPolicy: IfNotPresent", ofContainer(&p.Spec, c.Name, `"imagePullPolicy":"IfNotPresent"`))}}
}

// pulling says that a container waits because its image could not be pulled.
func pulling(reason string) bool {
	return reason == "ErrImagePull" || reason == "ImagePullBackOff" || reason == "ImageInspectError" || reason == "RegistryUnavailable" ||
		reason == "SignatureValidationFailed"
}

// pullSecretMissing: the secret with the registry's credentials does not exist; the agent pulls without it, in vain.
func pullSecretMissing(l *converge.Look, p *corev1.Pod, c *corev1.ContainerStatus) *converge.Finding {
	reason, text := general.WaitsFor(c)
	if !pulling(reason) || !l.Sees(kinds.Secrets, p.Namespace) {
		return nil
	}
	for _, s := range p.Spec.ImagePullSecrets {
		if resource.Get(l.Read, kinds.Secrets, p.Namespace, s.Name) != nil {
			continue
		}
		image, _ := pulled(p, c, text)
		return &converge.Finding{
			Says: fmt.Sprintf("can't pull the image %q, and the secret %s, which is to have the credentials for it, does not exist",
				image, s.Name), State: converge.Blocked,
			Waits: converge.On("Object", general.Namespaced(l, kinds.Secrets, s.Name), ""), Error: general.TextOnly(text),
			Next: converge.Does(converge.AgentOf(p),
				"pulls with the credentials when the secret exists"),
			Advice: []string{"kubectl create secret docker-registry " + s.Name + " -n " + p.Namespace +
				" --docker-server=" + registryOf(image) +
				" --docker-username=USER --docker-password=PASSWORD",
				"or name another one in imagePullSecrets, of the pod or of its service account"}}
	}
	return nil
}

// imagePull takes the runtime's error from the event where there is one: the state of a container that backs off may not repeat it.
func imagePull(l *converge.Look, p *corev1.Pod, c *corev1.ContainerStatus) *converge.Finding {
	reason, text := general.WaitsFor(c)
	if !pulling(reason) {
		return nil
	}
	image, field := pulled(p, c, text)
	f := &converge.Finding{Says: fmt.Sprintf("can't pull the image %q", image), State: converge.BackingOff,
		Waits: l.Field(field),
		Next:  converge.Does(converge.AgentOf(p), "tries to pull it again, at pauses of up to 5 minutes"), Error: general.TextOnly(text)}
	if e := l.Warning(p.UID, "Failed"); e != nil && strings.Contains(e.Message, "Failed to pull image") {
		f.Error = general.EventFailure(e)
	}
	why, advice := whyNoPull(image, text+"\n"+words.ErrorText(f.Error))
	if f.Advice = advice; why != "" {
		f.Says += ": " + why
	}
	if top, ok := changeable(l.World, l.Kind, l.Obj); ok && len(advice) > 0 && strings.HasPrefix(advice[0], "check the name and tag") &&
		strings.HasPrefix(field, "spec.containers[") && top.Kind != kinds.CronJobs {
		f.Advice = slices.Insert(f.Advice, 1, "and set the one that is meant: kubectl set image "+top.Kind.Info().Singular+"/"+top.Name+
			" "+c.Name+"=NAME -n "+top.NS)
	} else if len(advice) > 0 && strings.HasPrefix(advice[0], "check the name and tag") && len(p.OwnerReferences) == 0 &&
		strings.HasPrefix(field, "spec.containers[") {
		f.Advice = slices.Insert(f.Advice, 1, "and set the one that is meant: kubectl set image pod/"+p.Name+" "+c.Name+"=NAME -n "+p.Namespace)
	}
	if known := tagged(l.World, image); known != "" && len(advice) > 0 && strings.HasPrefix(advice[0], "check the name and tag") &&
		strings.HasPrefix(field, "spec.containers[") {
		takeTag(l, f, c.Name, known)
	}
	if by := general.Maker(l); by != nil && len(advice) > 0 && strings.HasPrefix(advice[0], "check the name and tag") {
		if tree, _ := words.Tree(by.Obj); strings.Contains(fmt.Sprint(tree["spec"]), image) {
			f.Advice = append([]string{atMaker(l, f.Advice[0])}, f.Advice[1:]...)
		}
	}
	if strings.HasPrefix(why, "there is none for the node's platform") {
		otherArch(l, f, p)
	}
	if len(p.Spec.ImagePullSecrets) == 0 && len(advice) > 0 && advice[0] == strings.ReplaceAll(credentials[0], "{}", words.Word(image)) {
		f.Advice = slices.Replace(f.Advice, 0, 1, withCredentials(l, p, image)...)
	}
	if len(p.Spec.ImagePullSecrets) == 0 && why == "the registry limits pulls" {
		f.Advice = append([]string{"wait, or pull with credentials, which raises the limit"}, append(withCredentials(l, p, image),
			f.Advice[1:]...)...)
	}
	if len(p.Spec.ImagePullSecrets) > 0 && strings.HasPrefix(strings.Join(advice, ""), "give the pod an imagePullSecret") {
		unaccepted(l.World, f, p, image)
	}
	return f
}

// tags are images that run, by their repositories; "": several of a repository do.
type tags map[string]string

// tagged is the image of the same repository as another one, of another tag, that pods run; "": none do, or several.
func tagged(w *converge.World, image string) string {
	known := converge.Kept[tags](w)
	if *known == nil {
		*known = tags{}
		for obj := range w.Read.Each(kinds.Pods, "") {
			p := resource.As[*corev1.Pod](obj)
			for i := range p.Status.ContainerStatuses {
				c := podspec.ContainerNamed(&p.Spec, p.Status.ContainerStatuses[i].Name)
				if c == nil || !p.Status.ContainerStatuses[i].Ready {
					continue
				}
				repository := repositoryOf(c.Image)
				if was, is := (*known)[repository]; !is {
					(*known)[repository] = c.Image
				} else if was != c.Image {
					(*known)[repository] = ""
				}
			}
		}
	}
	if other := (*known)[repositoryOf(image)]; other != image && !strings.Contains(other, "@") {
		return other
	}
	return ""
}

// repositoryOf is an image without its tag and digest.
func repositoryOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if at := strings.LastIndexByte(image, ':'); at > strings.LastIndexByte(image, '/') {
		image = image[:at]
	}
	return image
}

// takeTag advises to take the image of a repository that other pods run.
func takeTag(l *converge.Look, f *converge.Finding, container, image string) {
	top, ok := changeable(l.World, l.Kind, l.Obj)
	if !ok {
		return
	}
	f.Says += "; other pods run " + image
	f.Advice = []string{"take that one, if it is meant: kubectl set image " + top.Kind.Info().Singular + "/" + top.Name + " " + container +
		"=" + image + " -n " + top.NS}
	if job := metav1.GetControllerOfNoCopy(l.Obj); top.Kind == kinds.CronJobs && job != nil {
		f.Advice = append(f.Advice, "and delete the job that hangs: kubectl delete job "+job.Name+" -n "+top.NS)
	}
}

// otherArch names the platform that an image lacks, and keeps its pods on nodes of another one.
func otherArch(l *converge.Look, f *converge.Finding, p *corev1.Pod) {
	n := resource.Get(l.Read, kinds.Nodes, "", p.Spec.NodeName)
	if n == nil || n.Labels[corev1.LabelArchStable] == "" {
		return
	}
	own := n.Labels[corev1.LabelArchStable]
	f.Says += ", which is " + own
	f.Advice[0] = strings.Replace(f.Advice[0], "--platform …", "--platform linux/"+own, 1)
	for _, arch := range nodeLabels(l.World, corev1.LabelArchStable) {
		if arch != own {
			f.Advice[1] = retemplate(l, "or have its pods on nodes of "+arch+" alone, for which there is one, it seems",
				`{"nodeSelector":{"`+corev1.LabelArchStable+`":"`+arch+`"}}`)
			return
		}
	}
}

// withCredentials advises to give pods a secret for a registry: one that is there, or a new one.
func withCredentials(l *converge.Look, p *corev1.Pod, image string) []string {
	account := cmp.Or(p.Spec.ServiceAccountName, "default")
	name, list := "", []string(nil)
	for _, s := range resource.List(l.Read, kinds.Secrets, p.Namespace) {
		if s.Type == corev1.SecretTypeDockerConfigJson {
			list = append(list, s.Name)
		}
	}
	if slices.Sort(list); len(list) > 0 {
		name = list[0]
	}
	has := "give its pods an imagePullSecret for the registry of " + words.Word(image)
	give := func(advice, name string) string {
		body := `{"imagePullSecrets":[{"name":"` + name + `"}]}`
		if at := retemplate(l, advice, body); strings.Contains(at, ": kubectl ") {
			return at
		}
		return advice + ", by the pod's service account, and delete the pod: kubectl patch serviceaccount " + account + " -n " +
			p.Namespace + " -p '" + body + "'"
	}
	if name != "" {
		return []string{give(has+", if secret/"+name+" is for it", name)}
	}
	return []string{has + ": " + registrySecret("pull", p.Namespace, image), give("then have its pods bring it", "pull")}
}

// registrySecret is the command that makes a secret with credentials for the registry of an image.
func registrySecret(name, ns, image string) string {
	return "kubectl create secret docker-registry " + name + " -n " + ns + " --docker-server=" + registryOf(image) +
		" --docker-username=USER --docker-password=PASSWORD"
}

// registryOf is the server from which an image comes, as a secret for it names it.
func registryOf(image string) string {
	registry, _, is := strings.Cut(image, "/")
	if !is || !strings.ContainsAny(registry, ".:") || registry == "docker.io" {
		return "https://index.docker.io/v1/"
	}
	if strings.Trim(registry, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:-") != "" {
		return "REGISTRY"
	}
	return registry
}

// A refusalToPull pairs a runtime's words when an image does not come with a short cause and what helps.
type refusalToPull struct {
	words  string
	marks  []string // any of these in lower case
	advice []string // {} is the image
}

// refusalsToPull is the table; the first that fits counts.
var refusalsToPull = []refusalToPull{
	{"there is none for the node's platform", []string{"no match for platform", "no matching manifest for"},
		[]string{"build the image for the node's platform too (docker buildx build --platform …)",
			"or have the pod on other nodes: nodeSelector: {kubernetes.io/arch: …}"}},
	{"its name names no registry, and the node's runtime has none to look in", []string{"short-name"},
		[]string{"name the registry: docker.io/library/{}, say"}},
	{"the proxy that the node pulls through does not answer", []string{"proxyconnect"},
		[]string{"look at the proxy, or at HTTPS_PROXY and NO_PROXY of the node's container runtime"}},
	{"the registry does not have it, or wants credentials", []string{"may require authorization"}, credentials},
	{"the registry does not have it", []string{"not found", "manifest unknown", "repository does not exist"}, nil},
	{"the registry wants credentials", []string{"unauthorized", "authorization failed", "denied", "403 forbidden",
		"no basic auth credentials"}, credentials},
	{"the registry's name is not known", []string{"no such host"}, unreachable},
	{"the registry does not answer", []string{"connection refused", "i/o timeout", "deadline exceeded"}, unreachable},
	{"the registry's certificate is not trusted", []string{"x509"},
		[]string{"have the node's container runtime trust the registry's authority (containerd: certs.d/…/hosts.toml, ca)"}},
	{"the registry speaks plain HTTP", []string{"http response to https client"},
		[]string{
			"allow it in the node's container runtime (containerd: certs.d/…/hosts.toml, http://), or give the registry a certificate"}},
	{"the registry limits pulls", []string{"toomanyrequests", "too many requests"},
		[]string{"wait, or pull with credentials, which raises the limit: an imagePullSecret",
			"or load the image by hand: kloop image load FILE"}},
	{"the connection broke off", []string{"unexpected eof", "connection reset by peer"}, unreachable},
	{"it is not signed as the node wants it", []string{"signature"},
		[]string{"sign the image {}, or change the policy of the node's runtime"}},
	{"the node's disk is full", []string{"no space left"}, []string{"free disk space on the node: images and logs that nobody needs"}},
}

var (
	credentials = []string{"give the pod an imagePullSecret for the registry of {}",
		"check the image's name: registries answer so for what does not exist, too"}
	unreachable = []string{"look whether the node reaches the registry of {}", "or load the image by hand: kloop image load FILE"}
	unnamed     = []string{"check the name and tag of the image {}", "or load the image into the node's runtime: kloop image load FILE"}
)

// whyNoPull says in a few words why the image did not come, "" when nobody tells, and what helps.
func whyNoPull(image, text string) (why string, advice []string) {
	low, advice := strings.ToLower(text), unnamed
	for _, r := range refusalsToPull {
		if slices.ContainsFunc(r.marks, func(m string) bool { return strings.Contains(low, m) }) {
			if why = r.words; r.advice != nil {
				advice = r.advice
			}
			break
		}
	}
	if _, told, ok := strings.Cut(text, `pull and unpack image "`); ok && why == "" { // the runtime's own words
		_, told, _ = strings.Cut(told, `": `)
		why, _, _ = strings.Cut(told, "\n")
	}
	advice = slices.Clone(advice)
	for i := range advice {
		advice[i] = strings.ReplaceAll(advice[i], "{}", words.Word(image))
	}
	return why, advice
}

// pulled is the image that does not come, and the field that names it: the container's own, or one that is mounted as a volume.
func pulled(p *corev1.Pod, c *corev1.ContainerStatus, text string) (image, field string) {
	for _, v := range p.Spec.Volumes {
		if v.Image != nil && strings.Contains(text, `"`+v.Image.Reference+`"`) {
			return v.Image.Reference, "spec.volumes[" + v.Name + "].image.reference"
		}
	}
	image = c.Image
	if own := podspec.ContainerNamed(&p.Spec, c.Name); image == "" && own != nil { // its agent does not say yet
		image = own.Image
	}
	return image, imageField(p, c)
}

// imageField is the path of the field that names the container's image, to be corrected.
func imageField(p *corev1.Pod, c *corev1.ContainerStatus) string {
	for i := range p.Spec.InitContainers {
		if p.Spec.InitContainers[i].Name == c.Name {
			return "spec.initContainers[" + c.Name + "].image"
		}
	}
	return "spec.containers[" + c.Name + "].image"
}

// unaccepted tells of a pod that has secrets with credentials, none of which the registry took.
func unaccepted(w *converge.World, f *converge.Finding, p *corev1.Pod, image string) {
	var names []string
	for _, r := range p.Spec.ImagePullSecrets {
		names = append(names, r.Name)
		if s := resource.Get(w.Read, kinds.Secrets, p.Namespace, r.Name); s != nil && s.Type == corev1.SecretTypeOpaque {
			f.Says += "; its imagePullSecret " + r.Name + " is of type Opaque, of which nobody takes credentials"
			f.Advice = []string{"make it anew, as one that has them: " + registrySecret(r.Name, p.Namespace, image) +
				" --dry-run=client -o yaml | kubectl replace --force -f -"}
			return
		}
	}
	f.Says += ", and those of its imagePullSecrets (" + words.List(names, 3) + ") do not do"
	f.Advice[0] = "see whether it is for this registry, by its very name, of type kubernetes.io/dockerconfigjson, and still valid: " +
		"kubectl describe secret " + names[0] + " -n " + p.Namespace
}
