package converge

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// extensions are the ways in which what extends the API does not work.
func extensions() []Situation {
	return []Situation{
		{"APIServiceDown", []resource.Kind{kinds.APIServices}, apiServiceDown},
		{"NamesTaken", []resource.Kind{kinds.CustomResourceDefinitions}, namesTaken},
		{"DefinitionFaulty", []resource.Kind{kinds.CustomResourceDefinitions}, definitionFaulty},
		{"ConversionDown", []resource.Kind{kinds.CustomResourceDefinitions}, conversionDown},
		{"QuotaNotCounted", []resource.Kind{kinds.ResourceQuotas}, quotaNotCounted},
	}
}

// apiServiceDown is Available=False. A service with endpoints that the API server can't reach is another trouble than one without: the
// network between the API server's machine and pods, not the pods.
func apiServiceDown(l *look) *Finding {
	a := l.obj.(*apiregistrationv1.APIService)
	s := a.Spec.Service
	if s == nil {
		return nil
	}
	r := Ref{kinds.Services, s.Namespace, s.Name}
	f := &Finding{Says: "has a server that does not answer: service " + s.Namespace + "/" + s.Name,
		Owner: "the server behind " + s.Namespace + "/" + s.Name, State: Blocked, Waits: on("Object", r, ""),
		Advice: []string{"bring the pods behind the service back, or delete apiservice/" + a.Name +
			" if the API is no longer used: it holds up the deletion of namespaces"}, Below: []Ref{r}}
	f.Next = does(f.Owner, "answers again when it runs")
	f.sleeper(l.World, resource.Get(l.Read, kinds.Services, s.Namespace, s.Name))
	for _, c := range a.Status.Conditions {
		if c.Type == apiregistrationv1.Available && c.Status != apiregistrationv1.ConditionTrue {
			f.Error = textOnly(c.Message)
			if c.Message != "" && serves(l, s) {
				f.Says = "has a server that does not answer the API server, though service " + s.Namespace + "/" + s.Name +
					" has endpoints: " + oneLine(c.Message)
				f.Advice = []string{
					"look at the log of its pods, and whether the API server's machine reaches them (firewall, network policy, hostNetwork)",
					"or delete apiservice/" + a.Name + " if the API is no longer used: it holds up the deletion of namespaces"}
				if strings.Contains(c.Message, "x509: ") {
					f.Advice[0] = "let spec.caBundle be of the authority that signed the server's certificate, which names " + s.Name + "." + s.Namespace +
						".svc: kubectl get apiservice " + a.Name + " -o yaml"
				}
			}
		}
	}
	return f
}

// sleeper tells of a service that nobody answers for because who would is scaled to 0: that is no gap of the service.
func (f *Finding) sleeper(w *World, s *corev1.Service) {
	if s == nil {
		return
	}
	if rests, wake := restOfService(w, s); wake != "" && strings.HasPrefix(rests, "leads nowhere") {
		f.Says += "; service/" + s.Name + " " + rests
		f.Advice = append([]string{wake}, f.Advice...)
	}
}

// serves says that the service of an APIService leads somewhere.
func serves(l *look, ref *apiregistrationv1.ServiceReference) bool {
	s := resource.Get(l.Read, kinds.Services, ref.Namespace, ref.Name)
	if s == nil {
		return false
	}
	_, any := openPorts(l.World, s)
	return any
}

// namesTaken is NamesAccepted=False: the first definition of a group has the names, by when it was accepted.
func namesTaken(l *look) *Finding {
	d := resource.Outline[*apiextensionsv1.CustomResourceDefinition](l.obj)
	for _, c := range d.Status.Conditions {
		if c.Type == apiextensionsv1.NamesAccepted && c.Status == apiextensionsv1.ConditionFalse {
			return &Finding{Says: "has names that another definition of its group has: " + c.Message, State: Blocked,
				Error: textOnly(c.Message), Waits: on("Field", refTo(l.kind, d), "spec.names"),
				Next: does(l.owner, "serves it when the names are free"), Advice: []string{"choose other names, or delete the other definition"}}
		}
	}
	return nil
}

// definitionFaulty can come only from a store of before apiextensions/v1, which refuses schemas that are not structural.
func definitionFaulty(l *look) *Finding {
	d := resource.Outline[*apiextensionsv1.CustomResourceDefinition](l.obj)
	for _, c := range d.Status.Conditions {
		if c.Type == apiextensionsv1.NonStructuralSchema && c.Status == apiextensionsv1.ConditionTrue {
			return &Finding{Says: "has a schema that is not structural: " + c.Message, State: Blocked, Error: textOnly(c.Message),
				Next: does(person, "corrects the schema")}
		}
	}
	return nil
}

// converter is the service that converts a definition's objects, if it has several versions and a service that does.
func converter(d *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.ServiceReference {
	c := d.Spec.Conversion
	if c == nil || c.Strategy != apiextensionsv1.WebhookConverter || c.Webhook == nil || c.Webhook.ClientConfig == nil ||
		len(d.Spec.Versions) < 2 {
		return nil
	}
	return c.Webhook.ClientConfig.Service
}

// unconverted says that the service that converts a definition's objects is not there, or leads nowhere.
func unconverted(w *World, d *apiextensionsv1.CustomResourceDefinition) bool {
	ref := converter(d)
	if ref == nil {
		return false
	}
	s := resource.Get(w.Read, kinds.Services, ref.Namespace, ref.Name)
	if s == nil {
		return true
	}
	rests, _ := restOfService(w, s)
	return !serviceHealth(w, s).Converged() || strings.HasPrefix(rests, "leads nowhere")
}

// conversionDown asks for the endpoints of the converter: no condition of a definition tells of it.
func conversionDown(l *look) *Finding {
	d := resource.Outline[*apiextensionsv1.CustomResourceDefinition](l.obj)
	if !unconverted(l.World, d) {
		return nil
	}
	ref := converter(d)
	r := Ref{kinds.Services, ref.Namespace, ref.Name}
	stored := ""
	for _, v := range d.Spec.Versions {
		if v.Storage {
			stored = v.Name
		}
	}
	f := &Finding{Says: "can't convert its objects: nobody answers behind service " + ref.Namespace + "/" + ref.Name,
		Owner: "the server behind " + ref.Namespace + "/" + ref.Name, State: Blocked, Waits: on("Object", r, ""),
		Advice: []string{"bring the pods behind the service back",
			"objects can be read and deleted as " + stored + " meanwhile, the version that they are stored in"}, Below: []Ref{r}}
	f.Next = does(f.Owner, "answers again when it runs")
	f.sleeper(l.World, resource.Get(l.Read, kinds.Services, ref.Namespace, ref.Name))
	return f
}

func quotaNotCounted(l *look) *Finding {
	q := l.obj.(*corev1.ResourceQuota)
	return &Finding{Says: "waits for its use to be counted", Next: does(l.owner, "counts what is used"),
		Waits: on("Field", refTo(l.kind, q), "status.hard")}
}
