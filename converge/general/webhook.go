package general

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/kinds/admissionregistration"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// WebhookDown: the API server can't reach a webhook that it must ask. Worst is one whose own pods it has to be asked
// about: it keeps itself down.
func WebhookDown(l *converge.Look, text string) *converge.Finding {
	name := Quoted(text, "failed calling webhook ")
	if name == "" {
		return nil
	}
	hook := findWebhook(l.Read, name)
	svc := hook.service(l.Read)
	gone := hook.ref != nil && svc == nil && l.Sees(core.Services, hook.ref.Namespace)
	f := &converge.Finding{Says: refusedWrite(l) + ": the webhook " + name + " does not answer and must be asked", Owner: l.Owner,
		Waits: converge.ForName("Webhook", name),
		Next:  converge.Does(l.Owner, "tries again; it succeeds once the webhook answers"), Advice: hook.advice(name, text, gone)}
	silent := gone || hook.ref != nil && (svc != nil &&
		!l.Health(core.Services, svc).Converged())
	if strings.Contains(text, "x509: ") && !silent { // what answers for a service that leads nowhere is something else
		f.Says = refusedWrite(l) + ": the certificate of the webhook " + name + " is not one that its configuration trusts (" +
			words.Between(text+"\x00", "x509: ", "\x00") + ")"
		edit := ""
		if hook.config != "" {
			f.Advice, edit = f.Advice[1:], ": kubectl edit "+strings.Replace(hook.config, "/", " ", 1) // its pods answer
		}
		f.Advice = append([]string{"set caBundle in " + cmp.Or(hook.config, "its configuration") +
			" to the authority of the webhook's certificate; who makes the certificates (cert-manager, the operator) does so" + edit}, f.Advice...)
		if says, a := injected(l, hook); a != "" {
			f.Says += says
			f.Advice[0] = a
		}
		if strings.Contains(text, "has expired or is not yet valid") {
			f.Says = refusedWrite(l) + ": the certificate of the webhook " + name + " has expired, or a clock is wrong (" +
				words.Between(text+"\x00", "x509: ", "\x00") + ")"
			f.Advice[0] = "have that certificate renewed, then start the pods that serve it anew: kubectl get certificates -A"
			if svc != nil {
				f.Advice = append(servingSecrets(l, svc), f.Advice...)
			}
		}
		return f
	}
	switch {
	case svc == nil && hook.ref != nil:
		f.Below = []converge.Ref{{Kind: core.Services, NS: hook.ref.Namespace, Name: hook.ref.Name}}
	case svc != nil && deadlocked(l, svc):
		f.Says = "can't create its pods: they are those of the webhook " + name + ", which is down and must be asked about them first"
		f.Next = converge.PersonDoes("breaks the circle")
		f.Advice = []string{"let the webhook not be asked about its own namespace: add a namespaceSelector or objectSelector to " +
			hook.config,
			"to get out of it now, delete it, and create it again when its pods are ready: kubectl delete " + hook.config}
	case svc != nil && hook.otherDoor(f, name, svc):
	case svc != nil:
		f.Below = []converge.Ref{converge.RefTo(core.Services, svc)}
		sleeper(f, l.World, svc)
		if says, advice := l.Workloads().Severed(l, text); says != "" && !silent {
			f.Says, f.Advice = f.Says+"; "+says, append(advice, f.Advice[1:]...)
		}
	}
	return f
}

// otherDoor tells of the port at which a webhook is asked, if its service has not that one but others.
func (h webhook) otherDoor(f *converge.Finding, name string, svc *corev1.Service) bool {
	port := ptr.Deref(h.ref.Port, 443)
	if len(svc.Spec.Ports) == 0 || slices.ContainsFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == port }) {
		return false
	}
	has := svc.Spec.Ports[0].Port
	f.Says += fmt.Sprintf("; it is asked at port %d of service/%s, which has %d", port, svc.Name, has)
	f.Waits, f.State = converge.On("Field", converge.RefTo(core.Services, svc), "spec.ports"), converge.Blocked
	f.Advice = append([]string{"if that is meant: kubectl patch " + strings.Replace(h.config, "/", " ", 1) + " -p '" + converge.JSON(
		map[string]any{"webhooks": []any{map[string]any{"name": name, "clientConfig": map[string]any{"service": map[string]any{
			"port": has}}}}}) + "'"}, f.Advice[1:]...)
	return true
}

// refusedWrite words what a loop's write is that was refused: workloads have nothing written but their pods.
func refusedWrite(l *converge.Look) string {
	if what := l.Workloads().Makes(l.Obj); what != "" {
		return "can't create " + what
	}
	return "can't be written"
}

// deadlocked says that the pods that l can't create are those behind the webhook's service.
func deadlocked(l *converge.Look, svc *corev1.Service) bool {
	if svc.Namespace != l.Obj.GetNamespace() || len(svc.Spec.Selector) == 0 {
		return false
	}
	template := l.Workloads().Template(l.Obj)
	return template != nil && labels.SelectorFromSet(svc.Spec.Selector).Matches(labels.Set(template.Labels))
}

// WebhookDenies: a webhook was asked, and is against it.
func WebhookDenies(l *converge.Look, text string) *converge.Finding {
	name := Quoted(text, "admission webhook ")
	if name == "" {
		return nil
	}
	why := words.Between(text+"\x00", "denied the request: ", "\x00")
	whose := ""
	if config := findWebhook(l.Read, name).config; config != "" {
		whose = " (" + config + ")"
	}
	f := &converge.Finding{Says: "is refused by the webhook " + name + ": " + cmp.Or(why, "it gave no reason"),
		Waits:  converge.ForName("Webhook", name),
		Next:   converge.Does(l.Owner, "tries again; it succeeds once the webhook agrees"),
		Advice: []string{"change what it asks for to what the webhook " + name + " accepts, or ask who runs it" + whose}}
	l.Workloads().Reimage(l, f, why)
	return f
}

// A webhook is one of a configuration.
type webhook struct {
	config string // mutatingwebhookconfiguration/x
	ref    *admissionregistrationv1.ServiceReference
	url    string
}

func (h webhook) service(read resource.Reader) *corev1.Service {
	if h.ref == nil {
		return nil
	}
	return resource.Get(read, core.Services, h.ref.Namespace, h.ref.Name)
}

// calledAt is the address at which the API server asked the webhook of a service.
var calledAt = pattern.New(`https://([a-z0-9-]+)\.([a-z0-9-]+)\.svc\b`)

func (h webhook) advice(name, text string, gone bool) []string {
	if m := calledAt.FindStringSubmatch(text); h.config == "" && m != nil {
		return []string{"look at the pods behind service " + m[2] + "/" + m[1] + ", which are to answer: kubectl get pods -n " + m[2],
			"find the configuration that has the webhook " + name +
				": kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations"}
	}
	if h.config == "" {
		return []string{"find the configuration that has the webhook " + name + " and bring its server back"}
	}
	at := "its server"
	switch {
	case h.ref != nil:
		at = "the pods behind service " + h.ref.Namespace + "/" + h.ref.Name
	case h.url != "":
		at = h.url
	}
	bring := "bring " + at + " back"
	if h.ref != nil {
		bring += ": kubectl get pods -n " + h.ref.Namespace
	}
	kind, config, _ := strings.Cut(h.config, "/")
	remove := "if it is no longer used, as requests pass then: kubectl delete " + kind + " " + config
	if gone {
		return []string{remove, "or have the service made anew: kubectl get services -n " + h.ref.Namespace}
	}
	return []string{bring, "or, " + remove}
}

// findWebhook finds a webhook by name; the zero value when there is none.
func findWebhook(read resource.Reader, name string) webhook {
	for _, c := range resource.List(read, admissionregistration.ValidatingWebhookConfigurations, "") {
		for i := range c.Webhooks {
			if c.Webhooks[i].Name == name {
				return webhook{"validatingwebhookconfiguration/" + c.Name, c.Webhooks[i].ClientConfig.Service,
					ptr.Deref(c.Webhooks[i].ClientConfig.URL, "")}
			}
		}
	}
	for _, c := range resource.List(read, admissionregistration.MutatingWebhookConfigurations, "") {
		for i := range c.Webhooks {
			if c.Webhooks[i].Name == name {
				return webhook{"mutatingwebhookconfiguration/" + c.Name, c.Webhooks[i].ClientConfig.Service,
					ptr.Deref(c.Webhooks[i].ClientConfig.URL, "")}
			}
		}
	}
	return webhook{}
}

// injects is the annotation by which cert-manager puts the authority of a certificate into a configuration.
const injects = "cert-manager.io/inject-ca-from"

// injected advises to have cert-manager put the authority of the certificate into a webhook's configuration that is made for its service,
// where it is to take another one, or none; "": there is none, or it is that one.
func injected(l *converge.Look, h webhook) (says, advice string) {
	k, known := l.Kinds.GR(schema.GroupResource{Group: "cert-manager.io", Resource: "certificates"})
	kind, config, _ := strings.Cut(h.config, "/")
	if h.ref == nil || !known || config == "" {
		return "", ""
	}
	var of resource.Kind = admissionregistration.ValidatingWebhookConfigurations
	if kind != of.Info().Singular {
		of = admissionregistration.MutatingWebhookConfigurations
	}
	has := l.Read.Lookup(of, "", config).GetAnnotations()[injects]
	for obj := range l.Read.Each(k, h.ref.Namespace) {
		tree, _ := words.Tree(obj)
		spec, _ := tree["spec"].(map[string]any)
		names, _ := spec["dnsNames"].([]any)
		at := obj.GetNamespace() + "/" + obj.GetName()
		if at != has && slices.Contains(names, any(h.ref.Name+"."+h.ref.Namespace+".svc")) {
			if has != "" {
				says = "; it has that of certificate " + has + ", and the one for its service is " + at
			}
			return says, "have cert-manager put the authority of certificate/" + obj.GetName() + " into it: kubectl annotate " + kind + " " +
				config + " " + injects + "=" + at + " --overwrite"
		}
	}
	return "", ""
}

// servingSecrets tells from which Secrets the pods behind a webhook's service have their certificate.
func servingSecrets(l *converge.Look, svc *corev1.Service) (list []string) {
	for _, p := range Selected(l.World, svc) {
		for _, v := range p.Spec.Volumes {
			if v.Secret == nil || !l.Sees(core.Secrets, p.Namespace) {
				continue
			}
			if s := resource.Get(l.Read, core.Secrets, p.Namespace, v.Secret.SecretName); s != nil && s.Type == corev1.SecretTypeTLS {
				return []string{"pod/" + p.Name + " serves it from secret/" + s.Name + ": kubectl describe secret " + s.Name + " -n " + s.Namespace}
			}
		}
	}
	return nil
}
