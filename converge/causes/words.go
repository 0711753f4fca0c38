package causes

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/converge/health"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/resource"
)

// advise adds to what is advised for a container that crashes what its last words are known to need.
func advise(l *converge.Look, f *converge.Finding, p *corev1.Pod, container string,
	t *corev1.ContainerStateTerminated) *converge.Finding {
	defer func() {
		if by := general.SpokenOfMaker(l, t.Message); by != "" && len(f.Below) == 0 {
			f.Advice = append([]string{by}, f.Advice...)
		}
	}()
	if unreached(l, f, p, container, general.LastLine(t.Message)); t.Message == "" {
		needing(l, f, p, container)
	}
	for _, step := range []func(*converge.Look, *corev1.Pod, string, string) string{otherProgram, wanting, writable, misconfigured} {
		if does := step(l, p, container, t.Message); does != "" {
			f.Advice = append([]string{does}, f.Advice...)
			return f
		}
	}
	if m := unmatched.FindStringSubmatch(t.Message); m != nil {
		if k := general.KindNamed(l.World, m[2], m[1]); k != nil && k.Info().GVK.Version != m[3] {
			f.Advice = append([]string{"take a version of the image that goes with this cluster, which has that kind as " +
				k.Info().GVK.GroupVersion().String() + ": kubectl api-versions"}, f.Advice...)
			return f
		}
	}
	s, ok := words.Meaning(words.LastWords, strings.ToLower(general.LastLine(t.Message)))
	if !ok {
		s, ok = words.Meaning(words.LastWords,
			strings.ToLower(t.Message)) // the cause may stand before what it led to, or after its heading
	}
	if !ok {
		return f
	}
	who := "system:serviceaccount:" + words.Between(t.Message, `"system:serviceaccount:`, `"`) + " -n " + p.Namespace
	if s.Advice() != words.DNSUnknown || !strings.HasPrefix(f.Advice[0], headless) {
		f.Advice = append([]string{withKeys(l, p, container, strings.ReplaceAll(s.Advice(), "{}", who), t.Message)}, f.Advice...)
	}
	if s.Mark() == "exec format error" {
		f.Advice = append(onPlatform(l, p), f.Advice...)
	}
	enlarge(l, f, p)
	if r, lacks := converge.LackedRight(t.Message); lacks {
		heldByAnother(l, f, &r)
	}
	if strings.Contains(t.Message, "i/o timeout") || s.Advice() == words.DNSUnknown || s.Advice() == words.DNSSilent {
		if dns := resource.Get(l.Read, kinds.Services, metav1.NamespaceSystem, "kube-dns"); dns != nil && s.Advice() == words.DNSSilent &&
			len(f.Below) == 0 && !l.Health(kinds.Services, dns).Converged() {
			f.Below = []converge.Ref{converge.RefTo(kinds.Services, dns)}
		} else if says, advice := keptFromDNS(l.World, p); says != "" && s.Advice() == words.DNSSilent {
			f.Says, f.Advice = f.Says+"; "+says, append([]string{advice}, f.Advice[1:]...)
		} else if names := fences(l.World, p); len(names) > 0 {
			f.Aside = "what it may connect to is limited by " + words.List(names, 3)
		}
	}
	return f
}

// misread finds the file, and the line in it, that a program could not read as its configuration.
var misread = pattern.New(`(/[\w./-]+\w)(?::(\d+))?(?::\d+)?\W.*(?i:pars|syntax|unknown|unexpected|invalid|unrecognized|bad )|` +
	`(?i:pars|syntax|unknown|unexpected|invalid|unrecognized).*?(/[\w./-]+\w)(?::(\d+))?`)

// misconfigured advises to correct the file that a program can't read, where a ConfigMap has it.
func misconfigured(l *converge.Look, p *corev1.Pod, container, said string) string {
	c := podspec.ContainerNamed(&p.Spec, container)
	for _, m := range misread.FindAllStringSubmatch(said, 5) {
		file, line := m[1]+m[3], m[2]+m[4]
		for i := range p.Spec.Volumes {
			v := &p.Spec.Volumes[i]
			if c == nil || v.ConfigMap == nil || !slices.ContainsFunc(c.VolumeMounts, func(at corev1.VolumeMount) bool {
				return at.Name == v.Name && (file == at.MountPath || strings.HasPrefix(file, strings.TrimSuffix(at.MountPath, "/")+"/"))
			}) || resource.Get(l.Read, kinds.ConfigMaps, p.Namespace, v.ConfigMap.Name) == nil {
				continue
			}
			if line != "" {
				line = ", line " + line
			}
			return "correct " + file[strings.LastIndexByte(file, '/')+1:] + line + ", in configmap/" + v.ConfigMap.Name +
				": kubectl edit configmap " + v.ConfigMap.Name + " -n " + p.Namespace
		}
	}
	return ""
}

// withKeys is advice on credentials that a container has, with the keys of Secrets that have them.
func withKeys(l *converge.Look, p *corev1.Pod, container, advice, said string) string {
	if advice == words.WrongArgs {
		if out := withoutFlag(l, p, container, said); out != "" {
			return out
		}
	}
	keys, secret := secretsOf(p, container)
	if advice != words.WrongPassword || keys == "" {
		if advice == words.LowPort {
			return retemplate(l, advice+"; or have the node let anybody, in this pod alone", unprivileged)
		}
		if strings.Contains(advice, ": kubectl ") || !ofTemplate.MatchString(advice) {
			return advice
		}
		return edited(l, advice)
	}
	return "compare what it has from " + keys + ", with what the server has, and correct it: kubectl edit secret " + secret + " -n " +
		p.Namespace
}

// unprivileged lets any user listen at any port of the pod.
const unprivileged = `{"securityContext":{"sysctls":[{"name":"net.ipv4.ip_unprivileged_port_start","value":"0"}]}}`

// ofTemplate finds advice that is followed in the template of pods.
var ofTemplate = pattern.New(`container's (?:args|env)|automountServiceAccountToken|readOnlyRootFilesystem|` +
	`securityContext|in its env|its projected token|give it another port|runAsUser|correct the address of what it fetches`)

// heldByAnother advises to run a program as the account that has the right which its own lacks, if there is one.
func heldByAnother(l *converge.Look, f *converge.Finding, r *converge.Right) {
	account, by := r.Holder(l.World)
	if top, ok := changeable(l.World, l.Kind, l.Obj); ok && account != "" && top.Kind != kinds.CronJobs {
		f.Says += "; serviceaccount/" + account + " has that right, by rolebinding/" + by
		f.Advice = append([]string{"if it is meant to run as that one: kubectl set serviceaccount " + top.Kind.Info().Singular + " " +
			top.Name + " " + account + " -n " + top.NS}, f.Advice...)
	}
}

var (
	// unmatched finds a kind that a program asks for in a version which the server does not have.
	unmatched = pattern.New(`no matches for kind \\*"(\w+)\\*" in version \\*"([\w.-]+)/(v\w+)\\*"`)
	// unopened finds a file that a program wants and that is not there.
	unopened = pattern.New(`(?i)(/[\w./-]+)['"]?:? (?:\(os error 2|no such file)|no such file or directory[^/\n]{0,20}(/[\w./-]+)`)
)

// wanting advises to give a container what its program says it lacks: a variable that its environment does not have, or a file.
func wanting(l *converge.Look, p *corev1.Pod, container, said string) string {
	c := podspec.ContainerNamed(&p.Spec, container)
	if c == nil {
		return ""
	}
	if m := words.Unset.FindStringSubmatch(said); m != nil && !hasEnv(c, m[1]+m[2]) {
		name := m[1] + m[2]
		if d := deploymentOf(l.World, p); d != nil {
			return fmt.Sprintf("give it that variable, which its env does not have: kubectl set env deployment/%s -c %s %s=VALUE -n %s",
				d.Name, container, name, d.Namespace)
		}
		return "give container " + container + " the variable " + name + ", which its env does not have"
	}
	m := unopened.FindStringSubmatch(said)
	if m == nil || strings.Contains(said, "serviceaccount/") {
		return ""
	}
	path, best := m[1]+m[2], &corev1.VolumeMount{}
	for i := range c.VolumeMounts {
		if v := &c.VolumeMounts[i]; strings.HasPrefix(path, strings.TrimSuffix(v.MountPath, "/")+"/") && len(v.MountPath) >
			len(best.MountPath) {
			best = v
		}
	}
	if best.Name == "" {
		return "mount what has " + path + ", for no volume is mounted there, or correct the path that it is given"
	}
	if is := keyAs(l, p, best, path); is != "" {
		return is
	}
	return "see what the volume " + best.Name + " has, which is mounted at " + best.MountPath
}

func hasEnv(c *corev1.Container, name string) bool {
	for i := range c.Env {
		if c.Env[i].Name == name {
			return true
		}
	}
	return false
}

// fences are the network policies that limit what a pod may connect to.
func fences(w *converge.World, p *corev1.Pod) (names []string) {
	for _, n := range resource.List(w.Read, kinds.NetworkPolicies, p.Namespace) {
		sel, err := metav1.LabelSelectorAsSelector(&n.Spec.PodSelector)
		if err == nil && sel.Matches(labels.Set(p.Labels)) && slices.Contains(n.Spec.PolicyTypes, networkingv1.PolicyTypeEgress) {
			names = append(names, "networkpolicy/"+n.Name)
		}
	}
	slices.Sort(names)
	return names
}

// gone words what node agents say of pods that they end or refuse.
var gone = []words.Saying{
	{"EmptyDir volume*exceeds the limit", "", "raise sizeLimit of that emptyDir, or have less written to it"},
	{"local storage usage exceeds", "", lessWritten}, {"exceeded its local ephemeral storage limit", "", lessWritten},
	{"low on resource: ", "", "request what it uses: of pods on a node that runs short, those that use more than they request go first"},
	{"forbidden sysctl", "", "leave it out of securityContext.sysctls, or let nodes allow it: kubelet --allowed-unsafe-sysctls"},
	{"Predicate NodeAffinity", "", "the labels of node {} do not fit the pod (any more): kubectl get node {} --show-labels"},
	{"enough resource", "", "lower what it asks for to what the node has: kubectl describe node {}"},
	{"Preempted in order to admit critical pod", "", "give it a priority class that keeps it, or the node more room for what is critical"},
}

const lessWritten = "raise its limit of ephemeral-storage, or have less written beside its volumes: logs count too"

// lost are the pods of a workload that nodes refused or ended, and how many there are.
func lost(l *converge.Look) (last *corev1.Pod, n int) {
	for _, p := range resource.Owned(l.Read, kinds.Pods, l.Obj) {
		if p.Status.Phase != corev1.PodFailed || p.Status.Reason == "" || p.Spec.NodeName == "" {
			continue
		}
		if n++; last == nil || last.CreationTimestamp.Before(&p.CreationTimestamp) {
			last = p
		}
	}
	return last, n
}

// podsRejected: pod after pod is made, and refused or ended by its node. Of pods that are not ready only such count against that as
// had time to be.
func podsRejected(l *converge.Look) *converge.Finding {
	last, n := lost(l)
	if last == nil || n < 2 && len(last.Status.ContainerStatuses) > 0 || slices.ContainsFunc(unwell(l), func(p *corev1.Pod) bool {
		return l.Now.Sub(l.Health(kinds.Pods, p).Since) > general.SlowStart
	}) {
		return nil
	}
	why, refused := strings.CutPrefix(strings.TrimSpace(last.Status.Message), "Pod was rejected: ")
	what := "ends"
	if refused || len(last.Status.ContainerStatuses) == 0 && last.Status.Reason != "Evicted" {
		what = "refuses"
	}
	f := &converge.Finding{Says: fmt.Sprintf("makes pod after pod, and node %s %s each (%d so far): %s: %s", last.Spec.NodeName, what, n,
		last.Status.Reason, why), Owner: converge.Person, State: converge.Blocked, Error: general.TextOnly(last.Status.Message),
		Waits: l.Field("spec.template"), Next: converge.PersonDoes("corrects the pod template")}
	if s, ok := words.Meaning(gone, last.Status.Message); ok {
		f.Advice = append(moreStorage(l, last), strings.ReplaceAll(s.Advice(), "{}", last.Spec.NodeName))
	}
	if t := health.TemplateOf(l.Obj); t != nil && t.Spec.NodeName != "" {
		f.Waits = l.Field("spec.template.spec.nodeName")
		f.Advice = append([]string{"leave nodeName out of the pod template: then the scheduler chooses a node that the pod fits"},
			f.Advice...)
	}
	return f
}
