package causes

import (
	"cmp"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// certificates are the ways in which a request for a certificate is not answered.
func certificates() []converge.Situation {
	of := []resource.Kind{kinds.CertificateSigningRequests}
	return []converge.Situation{
		{Name: "SigningFailed", Of: of, See: signingFailed},
		{Name: "RequestDenied", Of: of, See: requestDenied},
		{Name: "NotApproved", Of: of, See: notApproved},
		{Name: "SignerMissing", Of: of, See: signerMissing},
		{Name: "NotSigned", Of: of, See: notSigned},
	}
}

// csrHas finds a condition of a request. One without a status counts as true: v1beta1 had no status.
func csrHas(r *certificatesv1.CertificateSigningRequest,
	typ certificatesv1.RequestConditionType) *certificatesv1.CertificateSigningRequestCondition {
	for i := range r.Status.Conditions {
		if r.Status.Conditions[i].Type == typ && r.Status.Conditions[i].Status != corev1.ConditionFalse {
			return &r.Status.Conditions[i]
		}
	}
	return nil
}

func signingFailed(l *converge.Look) *converge.Finding {
	c := csrHas(l.Obj.(*certificatesv1.CertificateSigningRequest), certificatesv1.CertificateFailed)
	if c == nil {
		return nil
	}
	return &converge.Finding{Says: "can't be signed: " + c.Message, State: converge.Failed, Error: general.TextOnly(c.Message),
		Next:   converge.PersonDoes("makes a request that the signer accepts"),
		Advice: []string{"make it anew, corrected, from a copy of it: kubectl get csr " + l.Obj.GetName() + " -o yaml"}}
}

func requestDenied(l *converge.Look) *converge.Finding {
	c := csrHas(l.Obj.(*certificatesv1.CertificateSigningRequest), certificatesv1.CertificateDenied)
	if c == nil {
		return nil
	}
	return &converge.Finding{Says: "was denied: " + cmp.Or(c.Message, c.Reason), Owner: converge.Person, State: converge.Failed,
		Error:  general.TextOnly(c.Message),
		Next:   converge.PersonDoes("makes another request, or leaves it at that"),
		Advice: []string{"ask who denied it; the request goes by itself after an hour"}, NoCommand: "it is up to who denied it"}
}

// notApproved waits for a person unless one of the loops that approve takes the request for a kubelet's; what it noted says why it does
// not.
func notApproved(l *converge.Look) *converge.Finding {
	r := l.Obj.(*certificatesv1.CertificateSigningRequest)
	if csrHas(r, certificatesv1.CertificateApproved) != nil {
		return nil
	}
	f := &converge.Finding{Says: "waits for somebody to approve it: " + r.Spec.Username + " asks " + r.Spec.SignerName,
		Owner: converge.Person, State: converge.Blocked,
		Waits:  converge.On("Person", converge.RefTo(l.Kind, r), "status.conditions[Approved]"),
		Next:   converge.PersonDoes("approves or denies it"),
		Advice: []string{"kubectl certificate approve " + r.Name, "or: kubectl certificate deny " + r.Name}}
	approver := "csr-approving"
	if r.Spec.SignerName == certificatesv1.KubeletServingSignerName {
		approver = "csr-serving-approving"
		f.Advice[0] = "if the machine is yours, since who has the certificate is believed to be what it names: " + f.Advice[0]
	}
	if rec, ok := l.Record(approver, l.Kind, r); ok && rec.Note != "" {
		f.Says += "; it is not approved by itself because " + rec.Note
	}
	return f
}

// Unapproved is a node's request for the serving certificate of its agent's API that nobody has decided; nil: there is none.
func Unapproved(w *converge.World, node string) *certificatesv1.CertificateSigningRequest {
	for _, r := range resource.List(w.Read, kinds.CertificateSigningRequests, "") {
		if r.Spec.Username == "system:node:"+node && r.Spec.SignerName == certificatesv1.KubeletServingSignerName &&
			len(r.Status.Conditions) == 0 && !w.Early(r.CreationTimestamp.Add(slowApproval)) {
			return r
		}
	}
	return nil
}

// slowApproval is the time that a loop may take to approve a request.
const slowApproval = 5 * time.Second

// signerMissing: the signer is none of Kubernetes' own, and nobody who could be it is connected.
func signerMissing(l *converge.Look) *converge.Finding {
	r := l.Obj.(*certificatesv1.CertificateSigningRequest)
	who := "the signer " + r.Spec.SignerName
	domain, _, _ := strings.Cut(r.Spec.SignerName, "/")
	if domain == "kubernetes.io" || !l.Unwatched(l.Kind.Info().GR()) {
		return nil
	}
	return &converge.Finding{Says: "is approved, and " + who + " is not connected to this cluster", Owner: who, State: converge.Missing,
		Waits: converge.ForName("Controller", r.Spec.SignerName),
		Next:  converge.Does(who, "signs it when it runs"), Advice: []string{"start the controller that signs for " + r.Spec.SignerName},
		NoCommand: "that signer is a program of its own: who runs it knows where"}
}

// ownSigners are all that there are below Kubernetes' domain.
const ownSigners = certificatesv1.KubeAPIServerClientSignerName + " " + certificatesv1.KubeAPIServerClientKubeletSignerName + " " +
	certificatesv1.KubeletServingSignerName + " kubernetes.io/legacy-unknown "

// notSigned tells who is to sign. Signers below kubernetes.io are the cluster's own loop; the domain of any other is the only sign of
// which program outside is meant.
func notSigned(l *converge.Look) *converge.Finding {
	r := l.Obj.(*certificatesv1.CertificateSigningRequest)
	domain, _, _ := strings.Cut(r.Spec.SignerName, "/")
	f := &converge.Finding{Says: "is approved and waits for the signer " + r.Spec.SignerName, State: converge.Waiting,
		Waits: converge.ForName("Controller", r.Spec.SignerName), Next: converge.Does(l.Owner, "signs it")}
	if domain == "kubernetes.io" && !strings.Contains(ownSigners, r.Spec.SignerName+" ") {
		f.Says += ", and nobody is: Kubernetes' own are " + strings.TrimSpace(ownSigners)
		f.State, f.Next = converge.Blocked, converge.PersonDoes("makes a request to another signer")
		f.Advice = []string{"make it anew, with another signerName, from a copy of it: kubectl get csr " + r.Name + " -o yaml"}
	}
	if domain != "kubernetes.io" {
		f.Owner, f.Next = "the signer "+r.Spec.SignerName, converge.Does("the signer "+r.Spec.SignerName, "signs it")
		if l.RunsAbroad(f, domain); len(f.Advice) == 0 {
			f.NoCommand = "that signer is a program of its own: who runs it knows where"
		}
	}
	return f
}
