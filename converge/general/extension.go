package general

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds/apiextensions"
	"github.com/kloop-dev/kloop/kinds/apiregistration"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// Extensions are the ways in which what extends the API does not work.
func Extensions() []converge.Situation {
	return []converge.Situation{
		{Name: "APIServiceDown", Of: []resource.Kind{apiregistration.APIServices}, See: apiServiceDown},
		{Name: "NamesTaken", Of: []resource.Kind{apiextensions.CustomResourceDefinitions}, See: namesTaken},
		{Name: "DefinitionFaulty", Of: []resource.Kind{apiextensions.CustomResourceDefinitions}, See: definitionFaulty},
		{Name: "ConversionDown", Of: []resource.Kind{apiextensions.CustomResourceDefinitions}, See: conversionDown},
		{Name: "QuotaNotCounted", Of: []resource.Kind{core.ResourceQuotas}, See: quotaNotCounted},
	}
}

// apiServiceDown is Available=False. A service with endpoints that the API server can't reach is another trouble than one without: the
// network between the API server's machine and pods, not the pods.
func apiServiceDown(l *converge.Look) *converge.Finding {
	a := l.Obj.(*apiregistrationv1.APIService)
	s := a.Spec.Service
	if s == nil {
		return nil
	}
	r := converge.Ref{Kind: core.Services, NS: s.Namespace, Name: s.Name}
	f := &converge.Finding{Says: "has a server that does not answer: service " + s.Namespace + "/" + s.Name,
		Owner: "the server behind " + s.Namespace + "/" + s.Name, State: converge.Blocked, Waits: converge.On("Object", r, ""),
		Advice: []string{"bring the pods behind the service back, or, if the API is no longer used, since it holds up the deletion of " +
			"namespaces: kubectl delete apiservice " + a.Name}, Below: []converge.Ref{r}}
	f.Next = converge.Does(f.Owner, "answers again when it runs")
	sleeper(f, l.World, resource.Get(l.Read, core.Services, s.Namespace, s.Name))
	for _, c := range a.Status.Conditions {
		if c.Type == apiregistrationv1.Available && c.Status != apiregistrationv1.ConditionTrue {
			f.Error = TextOnly(c.Message)
			if c.Message != "" && serves(l, s) {
				f.Says = "has a server that does not answer the API server, though service " + s.Namespace + "/" + s.Name +
					" has endpoints: " + words.OneLine(c.Message)
				f.Advice = []string{
					"look at the log of its pods, and whether the API server's machine reaches them " +
						"(firewall, network policy, hostNetwork): kubectl get pods -o wide -n " + s.Namespace,
					"or, if the API is no longer used, since it holds up the deletion of namespaces: kubectl delete apiservice " + a.Name}
				if _, code, is := strings.Cut(c.Message, "bad status from "); is {
					answers(f, a.Name, s, code[strings.LastIndexByte(code, ' ')+1:])
				}
				if says, advice := l.Workloads().Severed(l, c.Message); says != "" {
					f.Says, f.Advice = f.Says+"; "+says, append(advice, f.Advice[1:]...)
				}
				if strings.Contains(c.Message, "x509: ") {
					f.Advice[0] = "let spec.caBundle be of the authority that signed the server's certificate, which names " + s.Name +
						"." + s.Namespace +
						".svc: kubectl get apiservice " + a.Name + " -o yaml"
				}
			}
		}
	}
	return f
}

// answers tells what a code means by which a server answers the API server: that is reached then.
func answers(f *converge.Finding, name string, s *apiregistrationv1.ServiceReference, code string) {
	advice := ""
	switch code {
	case "401":
		advice = "it does not trust the API server's own certificate (--proxy-client-cert-file): requestheader-client-ca-file has to be of the " +
			"authority that signed that; then start its pods anew: kubectl get configmap extension-apiserver-authentication -n kube-system -o yaml"
	case "403":
		advice = "its service account lacks the rights to ask the API server: bind it to the clusterrole system:auth-delegator, and in " +
			"kube-system to the role extension-apiserver-authentication-reader: kubectl get clusterrolebindings,rolebindings -A -o wide"
	case "404":
		advice = "it does not serve that version: install one that does, or delete the apiservice: kubectl get apiservice " + name + " -o yaml"
	default:
		return
	}
	f.Says = strings.Replace(f.Says, "does not answer the API server, though", "refuses the API server, and", 1)
	f.Advice[0] = advice
}

// sleeper tells of a service that nobody answers for because who would is scaled to 0: that is no gap of the service.
func sleeper(f *converge.Finding, w *converge.World, s *corev1.Service) {
	if s == nil {
		return
	}
	if rests, wake := RestOfService(w, s); wake != "" && strings.HasPrefix(rests, "leads nowhere") {
		f.Says += "; service/" + s.Name + " " + rests
		f.Advice = append([]string{wake}, f.Advice...)
	}
}

// serves says that the service of an APIService leads somewhere.
func serves(l *converge.Look, ref *apiregistrationv1.ServiceReference) bool {
	s := resource.Get(l.Read, core.Services, ref.Namespace, ref.Name)
	if s == nil {
		return false
	}
	_, any := OpenPorts(l.World, s)
	return any
}

// namesTaken is NamesAccepted=False: the first definition of a group has the names, by when it was accepted.
func namesTaken(l *converge.Look) *converge.Finding {
	d := resource.Outline[*apiextensionsv1.CustomResourceDefinition](l.Obj)
	for _, c := range d.Status.Conditions {
		if c.Type == apiextensionsv1.NamesAccepted && c.Status == apiextensionsv1.ConditionFalse {
			return &converge.Finding{Says: "has names that another definition of its group has: " + c.Message, State: converge.Blocked,
				Error: TextOnly(c.Message), Waits: l.Field("spec.names"),
				Next:   converge.Does(l.Owner, "serves it when the names are free"),
				Advice: []string{"choose other names, or delete the other definition"}}
		}
	}
	return nil
}

// definitionFaulty can come only from a store of before apiextensions/v1, which refuses schemas that are not structural.
func definitionFaulty(l *converge.Look) *converge.Finding {
	d := resource.Outline[*apiextensionsv1.CustomResourceDefinition](l.Obj)
	for _, c := range d.Status.Conditions {
		if c.Type == apiextensionsv1.NonStructuralSchema && c.Status == apiextensionsv1.ConditionTrue {
			return &converge.Finding{Says: "has a schema that is not structural: " + c.Message, State: converge.Blocked,
				Error: TextOnly(c.Message),
				Next:  converge.PersonDoes("corrects the schema")}
		}
	}
	return nil
}

// conversionDown asks for the endpoints of the converter: no condition of a definition tells of it.
func conversionDown(l *converge.Look) *converge.Finding {
	d := resource.Outline[*apiextensionsv1.CustomResourceDefinition](l.Obj)
	if !Unconverted(l.World, d) {
		return nil
	}
	ref := Converter(d)
	r := converge.Ref{Kind: core.Services, NS: ref.Namespace, Name: ref.Name}
	stored := ""
	for _, v := range d.Spec.Versions {
		if v.Storage {
			stored = v.Name
		}
	}
	f := &converge.Finding{Says: "can't convert its objects: nobody answers behind service " + ref.Namespace + "/" + ref.Name,
		Owner: "the server behind " + ref.Namespace + "/" + ref.Name, State: converge.Blocked, Waits: converge.On("Object", r, ""),
		Advice: []string{"bring the pods behind the service back",
			"objects can be read and deleted as " + stored + " meanwhile, the version that they are stored in"}, Below: []converge.Ref{r}}
	f.Next = converge.Does(f.Owner, "answers again when it runs")
	sleeper(f, l.World, resource.Get(l.Read, core.Services, ref.Namespace, ref.Name))
	return f
}

func quotaNotCounted(l *converge.Look) *converge.Finding {
	return &converge.Finding{Says: "waits for its use to be counted", Next: converge.Does(l.Owner, "counts what is used"),
		Waits: l.Field("status.hard")}
}
