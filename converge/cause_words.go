package converge

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// A saying pairs words of a runtime, a node agent or a program with what they mean, and what helps. Both parts of a mark with a * count,
// in their order.
type saying struct{ mark, words, advice string }

// meaning is the first of a table that a text fits.
func meaning(table []saying, text string) (s saying, ok bool) {
	i := slices.IndexFunc(table, func(s saying) bool {
		head, tail, _ := strings.Cut(s.mark, "*")
		_, rest, is := strings.Cut(text, head)
		return is && strings.Contains(rest, tail)
	})
	if i < 0 {
		return s, false
	}
	return table[i], true
}

// lastWords are those of programs that have to do with their cluster, in lower case, and what helps.
var lastWords = []saying{
	{"exec format error", "",
		"build the image for the node's platform, or have the pod on other nodes: nodeSelector: {kubernetes.io/arch: …}"},
	{"plugin/loop", "", "let the DNS forward to a server outside: the node's resolv.conf names one that asks the cluster's DNS again " +
		"(kubelet --resolv-conf, or forward in the Corefile)"},
	{"vm.max_map_count", "", "on the node: sysctl -w vm.max_map_count=262144, and a file in /etc/sysctl.d for the next start"},
	{"read-only file system", "", "mount an emptyDir where it writes, or leave securityContext.readOnlyRootFilesystem out"},
	{"serviceaccount/token*no such file", "", "let the pod have a token of its service account: automountServiceAccountToken: true"},
	{"address already in use", "", "give it another port: of the node with hostNetwork, else one that no other container of the pod has"},
	{"is forbidden: user \"system:serviceaccount:", "", "give its service account that right; what it has: kubectl auth can-i --list --as={}"},
	{"lookup *i/o timeout", "", dnsSilent}, {"temporary failure in name resolution", "", dnsSilent},
	{"eai_again", "", dnsSilent},
	{"lookup *try again", "", dnsSilent}, {"server misbehaving", "", dnsSilent}, {"resolv*timed out", "", dnsSilent},
	{"lookup *no such host", "", dnsUnknown}, {"getaddrinfo enotfound", "", dnsUnknown}, {"name or service not known", "", dnsUnknown},
	{"could not resolve host", "", dnsUnknown}, {"unknownhostexception", "", dnsUnknown}, {"name does not resolve", "", dnsUnknown},
	{"could not translate host name", "", dnsUnknown},
	{"outofmemoryerror", "", "raise the program's own limit of memory, and the container's with it (Java: -XX:MaxRAMPercentage)"},
	{"heap out of memory", "", "raise the program's own limit of memory, and the container's with it (Node: --max-old-space-size)"},
	{"password authentication failed", "", wrongPassword}, {"access denied for user", "", wrongPassword},
	{"certificate has expired", "", "have that certificate renewed, and the server take it up: kubectl get certificates -A"},
	{"certificate signed by unknown authority", "", untrusted}, {"self-signed certificate", "", untrusted},
	{"self signed certificate", "", untrusted}, {"keyerror: '", "", "give the container what it asks for, in its env"},
	{"cannot find module", "", incomplete}, {"no module named", "", incomplete}, {"classnotfoundexception", "", incomplete},
	{"error while loading shared libraries", "", incomplete},
	{"no space left on device", "", "enlarge the volume that it writes to, or make room on it"},
	{"connection refused", "", "look whether what it connects to runs: kubectl get endpointslices -A"},
	{"/proc/sys/*permission denied", "", "set that on the node itself (sysctl), and have the program leave it alone"},
	{"too many open files", "", "raise the limits of the node: sysctl -w fs.inotify.max_user_instances=1024, and ulimits of its runtime"},
	{"unknown flag", "", wrongArgs}, {"unknown command", "", wrongArgs}, {"flag provided but not defined", "", wrongArgs},
	{"unrecognized arguments", "", wrongArgs}, {"invalid option", "", wrongArgs}, {"(403)", "", noRight}, {"accessdenied", "", noRight},
	{"permission denied (publickey", "", "give it the SSH key that the server knows, from a Secret"},
	{"must be root", "", "let it run as root (runAsUser: 0), with the capabilities NET_ADMIN and NET_RAW, or have the mesh's CNI " +
		"plugin do it"},
	{"safe_to_bootstrap", "", "on the member that went last, set safe_to_bootstrap: 1 in grastate.dat, or let its operator recover " +
		"the cluster"},
	{"common ancestor", "", "its data went another way than the primary's: delete the pod and its claims, so that they are copied anew"},
	{"permission denied", "", "have what it opens belong to its user: securityContext.fsGroup for volumes, runAsUser for files of the image"},
}

const (
	dnsUnknown    = "correct the name that it looks up, or create the service: kubectl get services -A"
	wrongPassword = "compare the credentials that it has from a Secret with those that the server has"
	untrusted     = "give the container the certificate of the server's authority, or the server one of an authority that it trusts"
	wrongArgs     = "correct the container's args: this version of the program does not know that one"
	incomplete    = "the image lacks a part of the program: build it anew, or correct the command; a volume may lie over it, too"
)

const dnsSilent = "look whether the cluster's DNS runs, and whether network policies let the pod reach it: kubectl get networkpolicies -A"

// advise adds to what is advised for a container that crashes what its last words are known to need.
func advise(l *look, f *Finding, p *corev1.Pod, t *corev1.ContainerStateTerminated) *Finding {
	s, ok := meaning(lastWords, strings.ToLower(lastLine(t.Message)))
	if !ok {
		return f
	}
	who := "system:serviceaccount:" + between(t.Message, `"system:serviceaccount:`, `"`) + " -n " + p.Namespace
	f.Advice = append(f.Advice, strings.ReplaceAll(s.advice, "{}", who))
	if strings.Contains(t.Message, "i/o timeout") || s.advice == dnsUnknown || s.advice == dnsSilent {
		if names := fences(l.World, p); len(names) > 0 {
			f.Aside = "what it may connect to is limited by " + list(names, 3)
		}
	}
	return f
}

// fences are the network policies that limit what a pod may connect to.
func fences(w *World, p *corev1.Pod) (names []string) {
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
var gone = []saying{
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
func lost(l *look) (last *corev1.Pod, n int) {
	for _, p := range resource.Owned(l.Read, kinds.Pods, l.obj) {
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
func podsRejected(l *look) *Finding {
	last, n := lost(l)
	if last == nil || n < 2 && len(last.Status.ContainerStatuses) > 0 || slices.ContainsFunc(l.unwell(), func(p *corev1.Pod) bool {
		return l.Now.Sub(l.Health(kinds.Pods, p).Since) > slowStart
	}) {
		return nil
	}
	why, refused := strings.CutPrefix(strings.TrimSpace(last.Status.Message), "Pod was rejected: ")
	what := "ends"
	if refused || len(last.Status.ContainerStatuses) == 0 && last.Status.Reason != "Evicted" {
		what = "refuses"
	}
	f := &Finding{Says: fmt.Sprintf("makes pod after pod, and node %s %s each (%d so far): %s: %s", last.Spec.NodeName, what, n,
		last.Status.Reason, why), Owner: person, State: Blocked, Error: textOnly(last.Status.Message),
		Waits: on("Field", refTo(l.kind, l.obj), "spec.template"), Next: does(person, "corrects the pod template")}
	if s, ok := meaning(gone, last.Status.Message); ok {
		f.Advice = []string{strings.ReplaceAll(s.advice, "{}", last.Spec.NodeName)}
	}
	if t := templateOf(l.obj); t != nil && t.Spec.NodeName != "" {
		f.Waits = on("Field", refTo(l.kind, l.obj), "spec.template.spec.nodeName")
		f.Advice = append([]string{"leave nodeName out of the pod template: then the scheduler chooses a node that the pod fits"}, f.Advice...)
	}
	return f
}
