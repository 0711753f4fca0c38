package converge

import (
	"cmp"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// certificates are the ways in which a request for a certificate is not answered.
func certificates() []Situation {
	of := []resource.Kind{kinds.CertificateSigningRequests}
	return []Situation{
		{"SigningFailed", of, signingFailed},
		{"RequestDenied", of, requestDenied},
		{"NotApproved", of, notApproved},
		{"SignerMissing", of, signerMissing},
		{"NotSigned", of, notSigned},
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

func signingFailed(l *look) *Finding {
	c := csrHas(l.obj.(*certificatesv1.CertificateSigningRequest), certificatesv1.CertificateFailed)
	if c == nil {
		return nil
	}
	return &Finding{Says: "can't be signed: " + c.Message, State: Failed, Error: textOnly(c.Message),
		Next: does(person, "makes a request that the signer accepts")}
}

func requestDenied(l *look) *Finding {
	c := csrHas(l.obj.(*certificatesv1.CertificateSigningRequest), certificatesv1.CertificateDenied)
	if c == nil {
		return nil
	}
	return &Finding{Says: "was denied: " + cmp.Or(c.Message, c.Reason), Owner: person, State: Failed, Error: textOnly(c.Message),
		Next:   does(person, "makes another request, or leaves it at that"),
		Advice: []string{"ask who denied it; the request goes by itself after an hour"}}
}

// notApproved waits for a person unless the loop csr-approving takes the request for a kubelet's; what it noted says why it does not.
func notApproved(l *look) *Finding {
	r := l.obj.(*certificatesv1.CertificateSigningRequest)
	if csrHas(r, certificatesv1.CertificateApproved) != nil {
		return nil
	}
	f := &Finding{Says: "waits for somebody to approve it: " + r.Spec.Username + " asks " + r.Spec.SignerName, Owner: person, State: Blocked,
		Waits: on("Person", refTo(l.kind, r), "status.conditions[Approved]"), Next: does(person, "approves or denies it"),
		Advice: []string{"kubectl certificate approve " + r.Name, "or: kubectl certificate deny " + r.Name}}
	if rec, ok := l.record("csr-approving", l.kind, r); ok && rec.Note != "" {
		f.Says += "; it is not approved by itself because " + rec.Note
	}
	return f
}

// signerMissing: the signer is none of Kubernetes' own, and nobody who could be it is connected.
func signerMissing(l *look) *Finding {
	r := l.obj.(*certificatesv1.CertificateSigningRequest)
	who := "the signer " + r.Spec.SignerName
	domain, _, _ := strings.Cut(r.Spec.SignerName, "/")
	if domain == "kubernetes.io" || !l.unwatched(l.kind.Info().GR()) {
		return nil
	}
	return &Finding{Says: "is approved, and " + who + " is not connected to this cluster", Owner: who, State: Missing,
		Waits: forName("Controller", r.Spec.SignerName),
		Next:  does(who, "signs it when it runs"), Advice: []string{"start the controller that signs for " + r.Spec.SignerName}}
}

// ownSigners are all that there are below Kubernetes' domain.
const ownSigners = certificatesv1.KubeAPIServerClientSignerName + " " + certificatesv1.KubeAPIServerClientKubeletSignerName + " " +
	certificatesv1.KubeletServingSignerName + " kubernetes.io/legacy-unknown "

// notSigned tells who is to sign. Signers below kubernetes.io are the cluster's own loop; the domain of any other is the only sign of
// which program outside is meant.
func notSigned(l *look) *Finding {
	r := l.obj.(*certificatesv1.CertificateSigningRequest)
	domain, _, _ := strings.Cut(r.Spec.SignerName, "/")
	f := &Finding{Says: "is approved and waits for the signer " + r.Spec.SignerName, State: Waiting,
		Waits: forName("Controller", r.Spec.SignerName), Next: does(l.owner, "signs it")}
	if domain == "kubernetes.io" && !strings.Contains(ownSigners, r.Spec.SignerName+" ") {
		f.Says += ", and nobody is: Kubernetes' own are " + strings.TrimSpace(ownSigners)
		f.State, f.Next = Blocked, does(person, "makes a request to another signer")
	}
	if domain != "kubernetes.io" {
		f.Owner, f.Next = "the signer "+r.Spec.SignerName, does("the signer "+r.Spec.SignerName, "signs it")
		l.runsAbroad(f, domain)
	}
	return f
}
