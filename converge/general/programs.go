package general

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/resource"
)

// programs name the workloads that run the controllers of groups, or of single kinds of them, where names do not tell: by the end of the
// group or of GROUP/Kind, in lower case and without dashes. The first that fits counts.
var programs = []words.Saying{
	{"argoproj.io/Application", "argocdapplicationcontroller", ""}, {"argoproj.io/ApplicationSet", "argocdapplicationsetcontroller", ""},
	{"argoproj.io/Rollout", "argorollouts", ""}, {"argoproj.io/AnalysisRun", "argorollouts", ""}, {"argoproj.io", "workflowcontroller", ""},
	{"image.toolkit.fluxcd.io/ImageUpdateAutomation", "imageautomationcontroller", ""},
	{"image.toolkit.fluxcd.io", "imagereflectorcontroller", ""}, {"fleet.cattle.io/GitRepo", "gitjob", ""},
	{"kubevirt.io", "virtcontroller", ""}, {"cdi.kubevirt.io", "cdideployment", ""}, {"monitoring.coreos.com", "prometheusoperator", ""},
	{"acme.cert-manager.io", "certmanager", ""}, {"infrastructure.cluster.x-k8s.io/Docker", "capdcontrollermanager", ""},
	{"bootstrap.cluster.x-k8s.io", "capikubeadmbootstrapcontrollermanager", ""},
	{"controlplane.cluster.x-k8s.io", "capikubeadmcontrolplanecontrollermanager", ""}, {"cluster.x-k8s.io", "capicontrollermanager", ""},
	{"ray.io", "kuberayoperator", ""}, {"cnpg.io", "cnpgcontrollermanager", ""}, {"longhorn.io", "longhornmanager", ""},
	{"actions.github.com", "gharscontroller", ""}, {"resources.azure.com", "azureserviceoperatorcontrollermanager", ""},
	{"snapshot.storage.k8s.io", "snapshotcontroller", ""}, {"metal3.io", "baremetaloperator", ""},
	{"mongodb.com", "mongodbkubernetesoperator", ""}, {"tekton.dev", "tektonpipelinescontroller", ""},
	{"k8s.elastic.co", "elasticoperator", ""}, {"operators.coreos.com", "catalogoperator", ""}, {"upbound.io", "provider", ""},
	{"crossplane.io", "crossplane", ""}, {"kueue.x-k8s.io", "kueuecontrollermanager", ""}, {"flagger.app", "flagger", ""},
	{"batch.volcano.sh", "volcanocontrollers", ""}, {"kyverno.io", "kyvernoadmissioncontroller", ""},
	{"gatekeeper.sh", "gatekeepercontrollermanager", ""}, {"bitnami.com", "sealedsecretscontroller", ""},
	{"zalan.do", "postgresoperator", ""}, {"percona.com", "perconaoperator", ""}, {"elbv2.k8s.aws", "awsloadbalancercontroller", ""},
}

// Kinds of workloads that controllers run in.
var (
	Deployments  = schema.GroupResource{Group: "apps", Resource: "deployments"}
	StatefulSets = schema.GroupResource{Group: "apps", Resource: "statefulsets"}
	daemonSetsOf = schema.GroupResource{Group: "apps", Resource: "daemonsets"}
)

var shortened = strings.NewReplacer("-", "", ".", "")

// generic are words that many programs have in their names.
var generic = pattern.New(`^(.{0,3}|cluster|apps|core|operator|operators|config|resources|infrastructure|networking|storage|` +
	`gateway|example|provider|kubernetes|controller)$`)

// LogOf tells how to read what the controller of an object has to say: by its log, where the workload that it seems to run in is seen, and
// of the object itself.
func LogOf(l *converge.Look, who string) string {
	if logs := Program(l, who); logs != "" {
		return "read the log of " + who + ": " + logs
	}
	return "read the log of " + who + "; all that is told of this one: kubectl describe " + l.Kind.Info().GR().String() + " " +
		converge.Called(l)
}

// programsFound are workloads in which controllers seem to run, by kind and manager.
type programsFound map[string]converge.Ref

// programAt is the workload whose name is most like that of a controller: its manager's, or those of its project.
func programAt(w *converge.World, of resource.Kind, who string) (k resource.Kind, found resource.Object) {
	i := of.Info()
	first, _, _ := strings.Cut(i.GVK.Group, ".")
	project, _, _ := strings.Cut(words.Domain(i.GVK.Group), ".")
	own := ""
	for _, p := range programs {
		if group, kind, _ := strings.Cut(p.Mark(), "/"); strings.HasSuffix(i.GVK.Group, group) && strings.HasPrefix(i.GVK.Kind, kind) {
			own = p.Words()
			break
		}
	}
	at := i.GVK.Group + "/" + i.GVK.Kind + " " + who
	seen := converge.Kept[programsFound](w)
	if r, known := (*seen)[at]; known {
		return r.Kind, objAt(w, r)
	}
	best := 0
	if k, found = byRights(w, of); found != nil && own == "" {
		best = 6
	}
	for _, of := range w.Served(Deployments, StatefulSets, daemonSetsOf) {
		for obj := range w.Read.Each(of, "") {
			if o := metav1.GetControllerOfNoCopy(obj); o != nil && schema.FromAPIVersionAndKind(o.APIVersion, o.Kind).Group == i.GVK.Group {
				continue // the program makes that
			}
			name := shortened.Replace(obj.GetName())
			if n := sureness(name, own, shortened.Replace(who), shortened.Replace(first), shortened.Replace(project)); n > best {
				best, k, found = n, of, obj
			}
		}
	}
	if *seen == nil {
		*seen = programsFound{}
	}
	if (*seen)[at] = (converge.Ref{}); found != nil {
		(*seen)[at] = converge.RefTo(k, found)
	}
	return k, found
}

// objAt is the object that a reference names; nil for one that names none.
func objAt(w *converge.World, r converge.Ref) resource.Object {
	if r.Kind == nil {
		return nil
	}
	return w.Read.Lookup(r.Kind, r.NS, r.Name)
}

// sureness says how sure it is that a workload of a name runs a controller; 0: it is not.
func sureness(name, own, who, first, project string) int {
	controls := strings.Contains(name, "controller") || strings.Contains(name, "operator") || strings.Contains(name, "manager")
	switch {
	case name == who:
		return 6
	case own != "":
		if name == own {
			return 5
		} else if strings.Contains(name, own) {
			return 4
		}
		return 0
	case !generic.MatchString(first) && controls && strings.HasPrefix(name, first):
		return 3
	case !generic.MatchString(project) && name == project:
		return 3
	case !generic.MatchString(project) && controls && strings.Contains(name, project):
		return 2
	}
	return 0
}

// downByProject are workloads that do not run, by the project whose program each seems to be.
type downByProject map[string]resource.Object

// ProjectDown is the workload of the project that a kind is of, by its name, if it does not run: velero of velero.io.
func ProjectDown(w *converge.World, of resource.Kind) (k resource.Kind, found resource.Object, off bool) {
	project, _, _ := strings.Cut(words.Domain(of.Info().GVK.Group), ".")
	if project == "k8s" { // as externaldns.k8s.io
		project, _, _ = strings.Cut(of.Info().GVK.Group, ".")
	}
	down := converge.Kept[downByProject](w)
	if *down == nil {
		*down = downByProject{}
		for _, k := range w.Served(Deployments) {
			for d := range w.Read.Each(k, "") {
				name, rest, _ := strings.Cut(d.GetName(), "-controller")
				name, more, _ := strings.Cut(name, "-operator")
				name = strings.TrimSuffix(name, "-cluster") // as Strimzi's
				want, ready := w.Workloads().Copies(d)
				if rest+more == "" && ready == 0 && (want == 0 || !w.Health(k, d).Converged()) {
					(*down)[strings.ReplaceAll(name, "-", "")] = d
				}
			}
		}
	}
	d := (*down)[strings.ReplaceAll(project, "-", "")]
	if d == nil {
		return nil, nil, false
	}
	want, _ := w.Workloads().Copies(d)
	return w.Served(Deployments)[0], d, want == 0
}

// Program is the command that reads the log of the controller that an object seems to have; "": none is seen.
func Program(l *converge.Look, who string) (logs string) {
	k, obj := programAt(l.World, l.Kind, who)
	if obj == nil {
		return ""
	}
	return "kubectl logs " + k.Info().Singular + "/" + obj.GetName() + " -n " + obj.GetNamespace() + " --all-containers --tail=100"
}

// watchedOnly finds the namespaces that a controller keeps to: WATCH_NAMESPACE=a,b in its environment, --watch-namespaces=a,b.
var watchedOnly = pattern.New(`(?i)^-{0,2}[a-z_-]*watch[a-z]*[_-]namespaces?=([^*]+)$`)

// WatchedElsewhere says that the controller that an object seems to have keeps to namespaces, and that the object's is not among them; "":
// it is not known to.
func WatchedElsewhere(l *converge.Look, who string) string {
	k, obj := programAt(l.World, l.Kind, who)
	if obj == nil || l.Obj.GetNamespace() == "" {
		return ""
	}
	t := l.Workloads().Template(obj)
	if t == nil {
		return ""
	}
	for _, c := range t.Spec.Containers {
		told := slices.Concat(c.Command, c.Args)
		for _, e := range c.Env {
			told = append(told, e.Name+"="+e.Value)
		}
		for _, s := range told {
			m := watchedOnly.FindStringSubmatch(s)
			if m != nil && !slices.Contains(strings.Fields(strings.ReplaceAll(m[1], ",", " ")), l.Obj.GetNamespace()) {
				return new(converge.ObjectOf(k, obj)).Short() + " in namespace " + obj.GetNamespace() +
					" is told to watch other namespaces (" +
					s + ")"
			}
		}
	}
	return ""
}
